"""Runs one export's pipeline: starts it once, finds it again in a later try, awaits and checks it.

The checkpoint says that it will be started before it is. Between Data Factory's yes and our note of the run's id a
worker may die; the next one asks the factory for a run with this export's destination, which no other has, and goes on.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from domain.contracts.artifacts import Artifact
from flows.handlers.adf.answers import FactoryBusy, FactoryRunState, RunGone, ended_badly, newest_run_for, stage
from flows.handlers.adf.client import DataFactory
from flows.handlers.adf.notes import note_run
from flows.handlers.context import Context
from flows.handlers.errors import HandlerError

POLL_SECONDS: Final = 5.0
PATIENCE: Final = 10  # answers that fail in a row before the try does
CLOCKS_DIFFER: Final = timedelta(minutes=15)
# After its POST was sent a run may take this long to be found by a query.
VISIBLE_SECONDS: Final = 60.0


@dataclass(frozen=True)
class PipelineExport:
    """What is to be run."""

    pipeline: str
    parameters: Mapping[str, Any]
    destination: str
    poll_seconds: float


def run_to_its_end(factory: DataFactory, export: PipelineExport, context: Context) -> str:
    """Run the pipeline until it has succeeded, and return the run's id."""
    run_id = _run_id(factory, export, context)
    note_run(context, export.destination, run_id)
    try:
        run = _await_end(factory, run_id, export.poll_seconds, context)
    except RunGone:
        context.checkpoint.save({})
        raise
    if stage(run) is not FactoryRunState.SUCCEEDED:
        context.checkpoint.save({})  # the next try, where there is one, starts a run of its own
        raise ended_badly(run)
    return run_id


def _run_id(factory: DataFactory, export: PipelineExport, context: Context) -> str:
    """Return the id of the run that this export has, starting one where it has none."""
    known = context.checkpoint.load() or {}
    if isinstance(noted := known.get("run_id"), str):
        return noted
    began, run_id = known.get("began"), None
    if isinstance(began, str):
        run_id = _find_run(factory, export, datetime.fromisoformat(began), context)
    if run_id is None:
        context.checkpoint.save({"began": datetime.now(UTC).isoformat()})
        run_id = factory.start(export.pipeline, {**export.parameters, "destination": export.destination})
    context.checkpoint.save({"run_id": run_id})
    return run_id


def _find_run(factory: DataFactory, export: PipelineExport, began: datetime, context: Context) -> str | None:
    """Return the run that an earlier try asked for, if Data Factory made it."""
    while True:
        now = datetime.now(UTC)
        runs = list(factory.runs(export.pipeline, began - CLOCKS_DIFFER, now + CLOCKS_DIFFER))
        run_id = newest_run_for(runs, export.destination)
        left = VISIBLE_SECONDS - (now - began).total_seconds()
        if run_id is not None or left <= 0:
            return run_id
        _rest(min(left, export.poll_seconds), context)


def _await_end(factory: DataFactory, run_id: str, poll_seconds: float, context: Context) -> Mapping[str, Any]:
    """Return the run once it has ended. An occasional failed answer does not end the wait."""
    failures, began = 0, time.monotonic()
    while True:
        pause = poll_seconds
        try:
            run = factory.run(run_id)
            failures = 0
            if stage(run) is not FactoryRunState.UNDER_WAY:
                return run
            context.progress(0, f"The pipeline is {run.get('status')}, {time.monotonic() - began:.0f} s")
        except FactoryBusy as busy:
            failures += 1
            if failures >= PATIENCE:
                raise
            pause = max(pause, busy.wait_seconds or 0)
        _rest(pause, context)


def _rest(seconds: float, context: Context) -> None:
    """Wait, but leave as soon as the run is told to stop. The pipeline goes on, and the next try finds it."""
    context.stop_event.wait(seconds)
    context.raise_if_stopping()


def cancel_to_its_end(factory: DataFactory, run_id: str, context: Context, poll_seconds: float = POLL_SECONDS) -> None:
    """Cancel the run, and wait until it writes no more. One that has ended, or is forgotten, is no error."""
    try:
        if stage(factory.run(run_id)) is FactoryRunState.UNDER_WAY:
            factory.cancel(run_id)
            _await_end(factory, run_id, poll_seconds, context)
    except RunGone:
        return


def check_copies(artifacts: Sequence[Artifact], context: Context) -> None:
    """Refuse to finish while a copy is missing or has another size. Data Factory itself compares contents."""
    for artifact in artifacts:
        found = context.storage.external.size_bytes(artifact.name)
        if found != artifact.size_bytes:
            there = "is not there" if found is None else f"has {found:,} bytes"
            raise HandlerError(
                f"The pipeline succeeded, but {artifact.name} {there}; it should have {artifact.size_bytes:,}."
            )
