"""What a failed try means: whether another may follow, how its error is told, what the run's log says of it."""

import logging

from domain.rules.texts import made_storable
from flows.compiler import Item, RunError
from flows.handlers.errors import Broken, HandlerError
from flows.log_items import about_item

log = logging.getLogger("cairn.work")
LONGEST_LINE = 500


def worth_another_try(error: object) -> bool:
    """Whether a failed try may be repeated: what the partner got wrong stays wrong."""
    if isinstance(error, Broken):
        return False
    return not isinstance(error, HandlerError) or error.retryable


def run_error(error: BaseException, node_id: str) -> RunError:
    """What went wrong, as the scheduler and the domain take it."""
    if isinstance(error, HandlerError):
        return RunError(error.code, made_storable(str(error)), node_id, error.partner_may_read)
    return RunError("handler-failed", made_storable(f"{type(error).__name__}: {error}"), node_id)


def log_failure(
    item: Item | None, number: int, error: Exception, *, next_in_seconds: float | None = None, stops: bool
) -> None:
    """Say that an item's try failed, as Prefect does where it retries itself. A run that stops makes no such noise."""
    if item is None or stops:
        return
    said = run_error(error, "").message[:LONGEST_LINE]
    with about_item(item.index, item.key, number):
        if next_in_seconds is None:
            log.error("Failed: %s", said)
        else:
            log.warning("Failed, another try begins in %.1f s: %s", next_in_seconds, said)
