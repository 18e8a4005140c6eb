"""Decides what Data Factory's answers mean for an export: pure functions from status words and codes to decisions."""

from collections.abc import Mapping
from enum import StrEnum
from http import HTTPStatus
from typing import Any, Final

from flows.handlers.errors import HandlerError, InvalidInput, Transient

_LONGEST_WAIT_SECONDS: Final = 300.0
_MESSAGE_LENGTH: Final = 500


class FactoryRefused(HandlerError):
    """Data Factory refuses, and repeating cannot help: settings, roles or the pipeline are at fault."""

    code = "adf-refused"
    retryable = False


class PipelineFailed(HandlerError):
    """The pipeline's run failed. A new run may succeed."""

    code = "adf-pipeline-failed"


class PipelineCancelled(HandlerError):
    """Somebody cancelled the pipeline's run in Data Factory, which we do not undo."""

    code = "adf-pipeline-cancelled"
    retryable = False


class RunGone(HandlerError):
    """Data Factory knows nothing of the run any more, or never did."""

    code = "adf-run-gone"


class FactoryBusy(Transient):
    """Data Factory is busy: asked again later, it may answer."""

    def __init__(self, message: str, wait_seconds: float | None = None) -> None:
        super().__init__(message)
        self.wait_seconds = wait_seconds


class FactoryRunState(StrEnum):
    UNDER_WAY = "under-way"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


_STAGES: Final[Mapping[str, FactoryRunState]] = {
    "Queued": FactoryRunState.UNDER_WAY,
    "InProgress": FactoryRunState.UNDER_WAY,
    "Canceling": FactoryRunState.UNDER_WAY,
    "Cancelling": FactoryRunState.UNDER_WAY,
    "Succeeded": FactoryRunState.SUCCEEDED,
    "Failed": FactoryRunState.FAILED,
    "Cancelled": FactoryRunState.CANCELLED,
    "Canceled": FactoryRunState.CANCELLED,
}


def stage(run: Mapping[str, Any]) -> FactoryRunState:
    """Return how far a pipeline run is. An unknown word is taken for a state that was added since: wait on."""
    return _STAGES.get(str(run.get("status")), FactoryRunState.UNDER_WAY)


def ended_badly(run: Mapping[str, Any]) -> HandlerError:
    """Return the export's error for a pipeline run that has not succeeded."""
    message = _short(run.get("message")) or "no reason given"
    if stage(run) is FactoryRunState.CANCELLED:
        return PipelineCancelled(f"The pipeline run {run.get('runId')} was cancelled in Data Factory: {message}")
    return PipelineFailed(f"The pipeline run {run.get('runId')} failed: {message}")


def refusal(status: int, body: Any, retry_after: str | None) -> HandlerError:
    """Return the error of an HTTP status. Of the body it quotes only Azure's own code and message."""
    error = body.get("error") if isinstance(body, Mapping) else None
    said = error if isinstance(error, Mapping) else {}
    why = f"{_short(said.get('code')) or status}: {_short(said.get('message')) or 'no reason given'}"
    if status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return FactoryBusy(f"Data Factory is busy ({why}).", wait_seconds(retry_after))
    if status == HTTPStatus.REQUEST_TIMEOUT:
        return FactoryBusy(f"Data Factory gave no answer in time ({why}).")
    if status == HTTPStatus.BAD_REQUEST:
        return InvalidInput(f"The pipeline does not take what it was given ({why}).")
    if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        return FactoryRefused(f"The worker's identity may not run pipelines of this factory ({why}).")
    return FactoryRefused(f"Data Factory refused ({why}).")


def wait_seconds(retry_after: str | None) -> float | None:
    """Return for how long Azure asks us to wait; None where it does not, or in a form that we do not read."""
    try:
        return min(max(float(retry_after or ""), 0.0), _LONGEST_WAIT_SECONDS)
    except ValueError:
        return None


def newest_run_for(runs: list[Mapping[str, Any]], destination: str) -> str | None:
    """Return the newest of a pipeline's runs that was started for this export's destination and did not fail."""
    started = [
        run
        for run in runs
        if _destination(run) == destination and stage(run) not in {FactoryRunState.FAILED, FactoryRunState.CANCELLED}
    ]
    newest = max(started, key=lambda run: str(run.get("runStart") or ""), default=None)
    return None if newest is None else str(newest["runId"])


def _destination(run: Mapping[str, Any]) -> object:
    parameters = run.get("parameters")
    return parameters.get("destination") if isinstance(parameters, Mapping) else None


def _short(text: object) -> str:
    return " ".join(str(text or "").split())[:_MESSAGE_LENGTH]
