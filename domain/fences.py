"""Hears of fenced attempts, whichever process fenced them, and wakes who waits for that: one connection a process."""

import asyncio
import contextlib
import logging
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

import psycopg

from domain.bell import FENCE_CHANNEL

log = logging.getLogger("cairn.fences")
RETRY_SECONDS = 1.0


class Fences:
    """Wakes waiters early. What it does not hear of, they find out when their wait ends."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._waiting: dict[UUID, set[asyncio.Event]] = defaultdict(set)
        self._any = asyncio.Event()
        self._closed = False

    async def run(self) -> None:
        """Listen until cancelled."""
        while True:
            try:
                async with await psycopg.AsyncConnection.connect(
                    self.url, autocommit=True, application_name="cairn-fences"
                ) as connection:
                    await connection.execute(f"listen {FENCE_CHANNEL}")
                    async for notice in connection.notifies():
                        self._wake(notice.payload)
            except (psycopg.Error, OSError) as error:
                log.warning("fences are not heard of", extra={"error": type(error).__name__})
            await asyncio.sleep(RETRY_SECONDS)

    @contextmanager
    def watching(self, run_id: UUID) -> Iterator[asyncio.Event]:
        """An event that is set when an attempt of the run is fenced from now on."""
        event = asyncio.Event()
        if self._closed:
            event.set()
        self._waiting[run_id].add(event)
        try:
            yield event
        finally:
            self._waiting[run_id].discard(event)
            if not self._waiting[run_id]:
                del self._waiting[run_id]

    async def heard(self, seconds: float) -> bool:
        """Whether any fence is heard of within so long. For one waiter a process."""
        happened = await happens(self._any, seconds)
        self._any.clear()
        return happened

    def close(self) -> None:
        """Let everybody go: a server that stops must not wait for those who wait."""
        self._closed = True
        for event in [event for events in self._waiting.values() for event in events]:
            event.set()

    def _wake(self, payload: str) -> None:
        self._any.set()
        for run_id in payload.split(","):
            for event in self._waiting.get(UUID(run_id), ()):
                event.set()


async def happens(event: asyncio.Event, seconds: float) -> bool:
    """Whether the event happens within so long."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)
    return event.is_set()
