"""Our log lines with their flow run in Prefect, whoever started the process: nobody has to set a variable for it."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from prefect.context import FlowRunContext, TaskRunContext
from prefect.logging.handlers import APILogHandler

from flows.handlers.context import LOGGER

OURS = LOGGER.partition(".")[0]
RUNS = "prefect.flow_runs"  # whose level Prefect's users set


def send_our_lines() -> None:
    """Have Prefect told of our lines, and of handlers' from the level on that its own run loggers have."""
    ours, handlers = logging.getLogger(OURS), logging.getLogger(LOGGER)
    if not any(isinstance(one, APILogHandler) for one in ours.handlers):  # PREFECT_LOGGING_EXTRA_LOGGERS adds one
        sender = APILogHandler()
        sender.addFilter(_is_of_a_run)
        ours.addHandler(sender)
    if handlers.level == logging.NOTSET:
        handlers.setLevel(logging.getLogger(RUNS).getEffectiveLevel())


@contextmanager
def lines_sent() -> Iterator[None]:
    """Have what a process that leaves without an interpreter's farewells said, and its events, sent before it does.

    Prefect gathers lines for two seconds; a short run is over by then. It waits five at most, whoever answers.
    """
    try:
        yield
    finally:
        APILogHandler().flush()


def _is_of_a_run(_: logging.LogRecord) -> bool:
    return FlowRunContext.get() is not None or TaskRunContext.get() is not None
