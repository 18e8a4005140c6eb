"""One try of one node or item: parameters checked, the handler run where it belongs, its result as plain JSON."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event
from typing import Any

from pydantic import ValidationError

from domain.contracts.names import FOREIGN, Named, Taken
from domain.contracts.runs import RunFacts
from domain.rules import places
from flows.handlers.context import Checkpoint, Context, NoCheckpoint, ignore_metric
from flows.handlers.errors import Crashed, ForeignProduct, HandlerError, InvalidInput, PlannedHandler, Stopped
from flows.handlers.registry import AnyHandler, registry
from flows.log_redaction import without_secrets
from flows.memory.checkpoint import StoredCheckpoint, checkpoint_name
from flows.pools import POOLS
from flows.settings import LoaderSettings
from flows.storage import Zones
from flows.tries import debugging, light_threads, process_parent
from flows.tries.light_threads import GuardedCheckpoint, ThreadCall, overstaying
from flows.tries.time_budget import TimeBudget, usual_grace
from flows.tries.workdir import Workdir

__all__ = [
    "BadParameters",
    "Care",
    "Keep",
    "Metric",
    "Progress",
    "Try",
    "is_light",
    "keep_nothing",
    "overstaying",
    "run_light_try",
    "run_try",
]

Progress = Callable[[float, str], None]
Metric = Callable[[str, float], None]
Keep = Callable[[dict[str, Any]], None]


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
        return places.output_prefix(self.facts)


def keep_nothing(_: dict[str, Any]) -> None:
    """Keep nothing: nobody needs the result before whoever asked for it."""


@dataclass(frozen=True)
class Care:
    """What a try has around it: its zones, who may stop it, who hears of its progress, who keeps its result.

    A handler told to leave has its grace, asked for at that moment; then it is killed, a light one abandoned.
    """

    zones: Zones
    stop: Event
    progress: Progress
    metric: Metric = ignore_metric
    grace_seconds: Callable[[], float] = usual_grace
    keep: Keep = keep_nothing


def run_try(attempt: Try, care: Care) -> dict[str, Any]:
    """Run the handler and return its result. Those of confined pools run in a process that can be killed."""
    handler = _handler_to_run(attempt, care)
    if not POOLS[handler.pool].is_confined:
        with _errors_without_secrets():
            return light_threads.run_in_thread(
                _light_work(handler, attempt, care), care.stop, _time_budget(attempt, care)
            )
    named = Named()
    check_params(handler, attempt.params, named)
    listeners = process_parent.Listeners(care.progress, care.metric, checkpoint_of(attempt, care.zones))
    claimed = process_parent.run_in_process(
        attempt, named.names, care.zones, care.stop, listeners, _time_budget(attempt, care)
    )
    result = checked_result(handler, attempt, claimed, named)
    care.keep(result)
    return result


async def run_light_try(attempt: Try, care: Care) -> dict[str, Any]:
    """Run a light handler and return its result, without a thread that only waits."""
    handler = _handler_to_run(attempt, care)
    with _errors_without_secrets():
        return await light_threads.await_in_thread(
            _light_work(handler, attempt, care), care.stop, _time_budget(attempt, care)
        )


def is_light(handler: str) -> bool:
    """Whether its tries run in threads."""
    return not POOLS[registry()[handler].pool].is_confined


def _handler_to_run(attempt: Try, care: Care) -> AnyHandler:
    handler = registry()[attempt.handler]
    if handler.planned:
        raise PlannedHandler(f"Handler {attempt.handler} is declared but not written yet.")
    if care.stop.is_set():
        raise Stopped("The run was asked to stop.")
    return handler


def _time_budget(attempt: Try, care: Care) -> TimeBudget:
    return TimeBudget(time.monotonic(), attempt.timeout_seconds, care.grace_seconds)


def _light_work(handler: AnyHandler, attempt: Try, care: Care) -> Callable[[ThreadCall], dict[str, Any]]:
    """The work of a light handler's thread, which may have to be abandoned: all its reports go through the call."""

    def work(job: ThreadCall) -> dict[str, Any]:
        if (port := debugging.port_for(attempt.handler)) is not None:
            debugging.wait_for_debugger(port)
        params = check_params(handler, attempt.params)
        with Workdir() as workdir:
            context = Context(
                **facts_of(attempt),
                storage=care.zones,
                workdir=workdir.path,
                checkpoint=GuardedCheckpoint(checkpoint_of(attempt, care.zones), job),
                progress=job.guarded(care.progress),
                metric=job.guarded(care.metric),
                stop_event=job.stop,
                database=LoaderSettings().database_loader_url if handler.database else None,
            )
            result = call_handler(handler, params, context)
        job.settle()
        care.keep(result)
        return result

    return work


@contextmanager
def _errors_without_secrets() -> Iterator[None]:
    try:
        yield
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


def call_handler(handler: AnyHandler, params: Any, context: Context) -> dict[str, Any]:
    """Run the handler in this process and thread. What does not fit a model of its own is told in a sentence."""
    try:
        dumped: dict[str, Any] = handler(params, context).model_dump(mode="json")
    except ValidationError as error:
        raise HandlerError(f"{handler.name} made a {error.title} that is none: {_faults(error)}") from None
    return dumped


def checked_result(handler: AnyHandler, attempt: Try, claimed: Mapping[str, Any], named: Named) -> dict[str, Any]:
    """Check that what a process says came of it can be the handler's result. The process may have been taken over.

    Every blob that it names as made lies in the run's own folder, every source is one that the try was given: what
    follows in the run reads, loads, deletes and publishes by these names.
    """
    allowed = Taken(places.home(attempt.facts), frozenset(named.names))
    try:
        result: dict[str, Any] = handler.result.model_validate(claimed, context=allowed).model_dump(mode="json")
    except ValidationError as error:
        faults = error.errors(include_url=False, include_input=False)
        if told := [fault["msg"] for fault in faults if fault["type"] == FOREIGN]:
            raise ForeignProduct(
                f"{handler.name} handed in what is not its run's: {told[0]}. Nothing of it was taken: "
                "look into the file that it opened before it is run again."
            ) from None
        raise Crashed(f"{handler.name} handed in what is no result of it ({len(faults)} faults).") from None
    return result


def check_params(handler: AnyHandler, params: Mapping[str, Any], named: Named | None = None) -> Any:
    """The parameters as the handler's own model. Partner values are what fails here, so the partner may read why."""
    try:
        return handler.params.model_validate(dict(params), context=named)
    except ValidationError as error:
        raise BadParameters(f"{handler.name}: {_faults(error)}") from None


def _faults(error: ValidationError) -> str:
    """What is wrong and where, without the values: they may be anybody's."""
    return "; ".join(
        f"{'.'.join(str(part) for part in fault['loc'])}: {fault['msg']}"
        for fault in error.errors(include_url=False, include_input=False)
    )


def partner_may_read(error: BaseException) -> bool:
    return isinstance(error, InvalidInput)
