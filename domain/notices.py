"""Hears what the bell tells of runs or requests, whichever process rang it, and wakes who waits: one connection each.

Shared with the gateway: it knows a channel of ids and nothing else of ours.
"""

import asyncio
import contextlib
import logging
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import LiteralString
from uuid import UUID

import psycopg
from psycopg import sql

from domain.database_address import DatabaseAddress

log = logging.getLogger("cairn.notices")
FENCE_CHANNEL = "cairn_fenced"
REQUEST_CHANNEL = "cairn_requests"
RETRY_SECONDS = 1.0


class Notices:
    """Wakes waiters early. What it does not hear of, they find out when their wait ends. `own` is not heard."""

    def __init__(self, address: DatabaseAddress, channel: LiteralString, own: str | None = None) -> None:
        self.address = address
        self.channel = channel
        self.own = own
        self._waiting: dict[UUID, set[asyncio.Event]] = defaultdict(set)
        self._any = asyncio.Event()
        self.closed = False

    async def run(self) -> None:
        """Listen until cancelled."""
        while True:
            try:
                async with await self.address.connect(autocommit=True, application_name="cairn-notices") as connection:
                    await connection.execute(sql.SQL("listen {}").format(sql.Identifier(self.channel)))
                    async for notice in connection.notifies():
                        self._wake(notice.payload)
            except (psycopg.Error, OSError) as error:
                log.warning("notices are not heard", extra={"channel": self.channel, "error": type(error).__name__})
            await asyncio.sleep(RETRY_SECONDS)

    @contextmanager
    def watching(self, named: UUID) -> Iterator[asyncio.Event]:
        """An event that is set when this id is told from now on."""
        event = asyncio.Event()
        if self.closed:
            event.set()
        self._waiting[named].add(event)
        try:
            yield event
        finally:
            self._waiting[named].discard(event)
            if not self._waiting[named]:
                del self._waiting[named]

    async def heard(self, seconds: float) -> bool:
        """Whether anything is heard within so long. For one waiter a process."""
        happened = await happens(self._any, seconds)
        self._any.clear()
        return happened

    def close(self) -> None:
        """Let everybody go: a server that stops must not wait for those who wait."""
        self.closed = True
        for event in [event for events in self._waiting.values() for event in events]:
            event.set()

    def _wake(self, payload: str) -> None:
        """Any role may notify: what is no list of ids wakes nobody in particular."""
        if payload == self.own:
            return
        self._any.set()
        with contextlib.suppress(ValueError):
            for named in map(UUID, payload.split(",")):
                for event in self._waiting.get(named, ()):
                    event.set()


async def happens(event: asyncio.Event, seconds: float) -> bool:
    """Whether the event happens within so long."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)
    return event.is_set()
