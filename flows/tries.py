"""One try of one node or item: parameters checked, the handler run where it belongs, its result as plain JSON."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Event
from typing import Any

from pydantic import ValidationError

from domain.contracts.runs import RunFacts
from flows import child, threads
from flows.checkpoint import StoredCheckpoint, checkpoint_name
from flows.context import Checkpoint, Context, NoCheckpoint, ignore_metric
from flows.errors import HandlerError, InvalidInput, PlannedHandler, Stopped
from flows.handlers.registry import AnyHandler, registry
from flows.patience import Patience, usual_grace
from flows.secrets import without_secrets
from flows.settings import LoaderSettings
from flows.storage import Zones
from flows.threads import GuardedCheckpoint, Job, overstaying
from flows.workdir import Workdir

__all__ = ["BadParameters", "Metric", "Progress", "Try", "overstaying", "run"]

Progress = Callable[[float, str], None]
Metric = Callable[[str, float], None]


class BadParameters(HandlerError):
    """The resolved parameters do not fit the handler: the workflow or its inputs are at fault, not this try."""

    code = "bad-param"
    retryable = False


@dataclass(frozen=True)
class Try:
    """What a try needs to know; everything in it can be sent to another process."""

    node_id: str
    handler: str
    params: Mapping[str, Any]
    facts: RunFacts
    timeout_seconds: float
    item_key: str | None = None
    number: int = 0
    memory: str | None = None  # where in run storage the run's memory lies; without it, nothing is remembered

    def as_json(self) -> dict[str, Any]:
        """For another process; read by `from_json`."""
        return {**vars(self), "params": dict(self.params), "facts": self.facts.model_dump(mode="json")}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Try":
        return cls(**{**data, "facts": RunFacts.model_validate(data["facts"])})

    @property
    def output_prefix(self) -> str:
        """Where products go: by generated ids and attempt, so that nothing is overwritten and no name is trusted."""
        facts = self.facts
        if facts.asset_id is None:
            return f"runs/{facts.id}/a{facts.attempt}"
        return f"assets/{facts.asset_id}/{facts.version_ordinal}-r{facts.revision}/a{facts.attempt}"


def run(
    attempt: Try,
    zones: Zones,
    stop: Event,
    progress: Progress,
    metric: Metric = ignore_metric,
    grace_seconds: Callable[[], float] = usual_grace,
) -> dict[str, Any]:
    """Run the handler and return its result. GDAL handlers run in a process that can be killed.

    A handler told to leave has its grace, asked for at that moment; then it is killed, a light one abandoned.
    """
    handler = registry()[attempt.handler]
    if handler.planned:
        raise PlannedHandler(f"Handler {attempt.handler} is declared but not written yet.")
    params = check_params(handler, attempt.params)
    if stop.is_set():
        raise Stopped("The run was asked to stop.")
    checkpoint = checkpoint_of(attempt, zones)
    patience = Patience(time.monotonic(), attempt.timeout_seconds, grace_seconds)
    if handler.pool == "gdal":
        return child.run(attempt, zones, stop, child.Ears(progress, metric, checkpoint), patience)

    def work(job: Job) -> dict[str, Any]:
        """In a thread that may have to be abandoned: everything the handler reports goes through the job."""
        with Workdir() as workdir:
            context = Context(
                **facts_of(attempt),
                storage=zones,
                workdir=workdir.path,
                checkpoint=GuardedCheckpoint(checkpoint, job),
                progress=job.guarded(progress),
                metric=job.guarded(metric),
                stop_event=job.stop,
                database=LoaderSettings().database_loader_url if handler.database else None,
            )
            return call(handler, params, context)

    try:
        return threads.run(work, stop, patience)
    except Exception as error:
        if (told := without_secrets(error)) is error:
            raise
        raise told from None


def checkpoint_of(attempt: Try, zones: Zones) -> Checkpoint:
    """What the node or item remembers from one try to the next."""
    if attempt.memory is None:
        return NoCheckpoint()
    return StoredCheckpoint(zones.runs, checkpoint_name(attempt.memory, attempt.node_id))


def facts_of(attempt: Try) -> dict[str, Any]:
    """What a handler's context says of the try, wherever the handler runs."""
    return {
        "run_id": attempt.facts.id,
        "node_id": attempt.node_id,
        "item_key": attempt.item_key,
        "try_number": attempt.number,
        "output_prefix": attempt.output_prefix,
        "facts": attempt.facts.model_dump(mode="json"),
    }


def call(handler: AnyHandler, params: Any, context: Context) -> dict[str, Any]:
    """Run the handler in this process and thread."""
    dumped: dict[str, Any] = handler(params, context).model_dump(mode="json")
    return dumped


def check_params(handler: AnyHandler, params: Mapping[str, Any]) -> Any:
    """The parameters as the handler's own model. Partner values are what fails here, so the partner may read why."""
    try:
        return handler.params.model_validate(dict(params))
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(str(part) for part in fault['loc'])}: {fault['msg']}"
            for fault in error.errors(include_url=False, include_input=False)
        )
        raise BadParameters(f"{handler.name}: {faults}") from None


def partner_may_read(error: BaseException) -> bool:
    return isinstance(error, InvalidInput)
