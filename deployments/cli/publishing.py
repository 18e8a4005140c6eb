"""Asks the domain about workflows for the `cairn` command: what was published, and to publish what is new."""

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deployments.cli.output import fail
from deployments.stack.state import StackState, read_json

if TYPE_CHECKING:
    from flows.compiler import Plan

TIMEOUT_SECONDS = 30.0
ADDRESS, TOKEN = "CAIRN_DOMAIN_URL", "CAIRN_OPERATOR_TOKEN"


class DomainUnanswered(RuntimeError):
    """The domain did not answer, or refused to."""


@dataclass(frozen=True)
class Domain:
    """Where the domain is, and an operator's credential for it."""

    url: str
    token: str

    def published(self) -> dict[tuple[str, str], str]:
        """The digest of every definition that was ever published, by workflow and version."""
        rows = self._ask("GET", "/api/v1/bootstrap/definitions")
        return {(row["workflow_id"], row["version"]): row["digest"] for row in rows}

    def publish(self) -> dict[str, Any]:
        """Have every process of the domain read its folder again."""
        done: dict[str, Any] = self._ask("POST", "/api/v1/bootstrap/deploy")
        return done

    def _ask(self, method: str, path: str) -> Any:
        import httpx

        try:
            headers = {"Authorization": f"Bearer {self.token}"}
            answer = httpx.request(method, f"{self.url}{path}", headers=headers, timeout=TIMEOUT_SECONDS)
        except httpx.HTTPError as error:
            raise DomainUnanswered(f"the domain at {self.url} does not answer ({type(error).__name__}).") from None
        if not answer.is_success:
            raise DomainUnanswered(f"the domain at {self.url} answered {answer.status_code} to {method} {path}.")
        return answer.json()


def known_domain(state: StackState | None) -> Domain | None:
    """The domain that the environment names with an operator's credential, else that of this stack if it is up."""
    if (url := os.environ.get(ADDRESS)) and (token := os.environ.get(TOKEN)):
        return Domain(url.rstrip("/"), token)
    if state is None:
        return None
    facts, credentials = state.running(), read_json(state.credentials_file)
    if facts is None or credentials is None or facts.get("phase") != "ready":
        return None
    return Domain(str(facts["services"]["domain"]["url"]), credentials["operator"]["token"])


def refuse_reused(domain: Domain, plans: "Iterable[Plan]", folder: Path) -> dict[tuple[str, str], str]:
    """Return what is published; end the command where a file has other content than its published version."""
    try:
        published = domain.published()
    except DomainUnanswered as error:
        fail(f"{error} Nothing was deployed.")
    if told := found_reused(plans, published, folder):
        fail("\n".join(["nothing was deployed:", *told]), 1)
    return published


def found_reused(plans: "Iterable[Plan]", published: Mapping[tuple[str, str], str], folder: Path) -> list[str]:
    """Return, with the line of each, the files that have other content than what is published under their version."""
    from domain.rules.workflows import reused_versions

    found = reused_versions(identities(plans), published)
    files = {name: folder / f"{name}.yaml" for name in found}
    return [f"{file}:{version_line(file.read_text())}:1: {found[name]}" for name, file in files.items()]


def version_line(text: str) -> int:
    """Return the line in which a file says its version."""
    return next((number for number, line in enumerate(text.split("\n"), 1) if line.startswith("version:")), 1)


def identities(plans: "Iterable[Plan]") -> list[tuple[str, str, str]]:
    return [(plan.workflow_id, str(plan.version), plan.digest) for plan in plans]


def differing(plans: "Iterable[Plan]", done: Mapping[str, Any], left_out: Collection[str]) -> list[str]:
    """Return how these files differ from what the domain runs after publishing. Left-out files are not reported."""
    runs = {row["workflow_id"]: (row["version"], row["digest"]) for row in done["workflows"]}
    told = [f"{name} is refused: {why}" for name, why in done["refused"].items() if name not in left_out]
    for name, version, digest in identities(plans):
        if name in done["refused"] or runs.get(name) == (version, digest):
            continue
        now = f"version {runs[name][0]}" if name in runs else "no version"
        told.append(f"the domain runs {now} of {name}, the file is version {version}: it reads another folder.")
    return told
