"""Keeps secrets out of what Prefect is told: log lines by its handlers, and the words of errors. Knows no Prefect.

Signed URLs are given to handlers, and what they raise ends as a task run's message, in Prefect's log and in the domain.
"""

import logging

from domain.shared.logs import MessageRedaction, redact
from flows.handlers.errors import HandlerError
from flows.log_items import ItemNamed

HEARD_BY_PREFECT = ("", "cairn", "prefect", "prefect.extra", "prefect.flow_runs", "prefect.task_runs")


def strike_from_logs() -> None:
    """Have whatever writes this process's lines, or sends them to Prefect, name their item and strike secrets first.

    Once is enough.
    """
    for name in HEARD_BY_PREFECT:
        for handler in logging.getLogger(name).handlers:
            if not any(isinstance(one, MessageRedaction) for one in handler.filters):
                handler.addFilter(ItemNamed())
                handler.addFilter(MessageRedaction())


def without_secrets(error: Exception) -> Exception:
    """The error itself, or one of the same meaning where its words hold a secret."""
    said = f"{type(error).__name__}: {error}"
    if redact(said) == said:
        return error
    told = HandlerError(redact(str(error) if isinstance(error, HandlerError) else said))
    if isinstance(error, HandlerError):
        told.code, told.retryable, told.partner_may_read = error.code, error.retryable, error.partner_may_read
    return told
