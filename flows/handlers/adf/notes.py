"""Keeps in run storage which pipeline run an export has, since its withdrawal cannot read its checkpoint."""

from domain.rules.places import pipeline_note
from flows.handlers.context import Context


def note_run(context: Context, destination: str, run_id: str) -> None:
    """Write the run's id where a withdrawal of this export looks for it."""
    context.storage.runs.write_bytes(pipeline_note(destination), run_id.encode())


def noted_run(context: Context, destination: str) -> str | None:
    """The last pipeline run that was started for this destination; None where there was none."""
    name = pipeline_note(destination)
    if context.storage.runs.size_bytes(name) is None:
        return None
    return context.storage.runs.read_bytes(name).decode()
