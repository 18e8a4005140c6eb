"""When a workflow's file may not be published: its version is taken by other content. Pure."""

from collections.abc import Iterable, Mapping


def reused_version(workflow_id: str, version: str) -> str:
    """Return the message about a reused version: what is wrong, and what would be right."""
    return (
        f"Workflow {workflow_id} version {version} is published with other content, "
        "and what is published never changes: count up `version`."
    )


def reused_versions(files: Iterable[tuple[str, str, str]], published: Mapping[tuple[str, str], str]) -> dict[str, str]:
    """Return the files whose version is published with another digest, and what is wrong with each."""
    return {
        workflow_id: reused_version(workflow_id, version)
        for workflow_id, version, digest in files
        if published.get((workflow_id, version), digest) != digest
    }
