"""Runs loops beside the requests of a service. Shared by all services: it knows none of them."""

import asyncio
import logging
import os
import signal
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

log = logging.getLogger("cairn.background")


@asynccontextmanager
async def in_background(*loops: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run the loops until the service stops."""
    tasks = [asyncio.create_task(loop) for loop in loops]
    for task in tasks:
        task.add_done_callback(_end_process)
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _end_process(task: asyncio.Task[None]) -> None:
    """End the process whose loop has died: a supervisor restarts it, whereas it would accept work that nobody does."""
    if not task.cancelled() and (error := task.exception()):
        log.critical("a background loop died; the service ends", exc_info=error)
        os.kill(os.getpid(), signal.SIGTERM)
