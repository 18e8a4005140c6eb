"""One try of one node or item: parameters checked, the handler run where it belongs, its result as plain JSON."""

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

from pydantic import ValidationError

from domain.contracts.runs import RunFacts
from flows import child
from flows.context import Context
from flows.errors import HandlerError, InvalidInput, PlannedHandler
from flows.handlers.registry import AnyHandler, registry
from flows.storage import Zones

Progress = Callable[[float, str], None]


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

    @property
    def output_prefix(self) -> str:
        """Where products go: by generated ids and attempt, so that nothing is overwritten and no name is trusted."""
        facts = self.facts
        if facts.asset_id is None:
            return f"runs/{facts.id}/a{facts.attempt}"
        return f"assets/{facts.asset_id}/{facts.version_ordinal}-r{facts.revision}/a{facts.attempt}"


def run(attempt: Try, zones: Zones, stop: Event, progress: Progress) -> dict[str, Any]:
    """Run the handler to its end and return its result. GDAL handlers run in a process that can be killed."""
    handler = registry()[attempt.handler]
    if handler.planned:
        raise PlannedHandler(f"Handler {attempt.handler} is declared but not written yet.")
    check_params(handler, attempt.params)
    if handler.pool == "gdal":
        return child.run(attempt, zones, stop, progress)
    return run_here(attempt, zones, stop, progress)


def run_here(attempt: Try, zones: Zones, stop: Event, progress: Progress) -> dict[str, Any]:
    """Run the handler in this process and thread."""
    handler = registry()[attempt.handler]
    params = check_params(handler, attempt.params)
    with tempfile.TemporaryDirectory(prefix="cairn-try-") as workdir:
        context = Context(
            run_id=attempt.facts.id,
            node_id=attempt.node_id,
            storage=zones,
            workdir=Path(workdir),
            item_key=attempt.item_key,
            try_number=attempt.number,
            output_prefix=attempt.output_prefix,
            facts=attempt.facts.model_dump(mode="json"),
            progress=progress,
            stop_event=stop,
        )
        result = handler(params, context)
    dumped: dict[str, Any] = result.model_dump(mode="json")
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
