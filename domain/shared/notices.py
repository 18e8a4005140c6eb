"""Listens to the database's notifications and wakes whoever waits for a run, a request or a pool: one connection each.

Shared with the gateway: it knows channels of names and nothing else of ours.
"""

import asyncio
import contextlib
import logging
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import LiteralString
from uuid import UUID

import psycopg
from psycopg import sql

from domain.shared.database_address import DatabaseAddress

log = logging.getLogger("cairn.notices")
FENCE_CHANNEL = "cairn_fenced"
CHILDREN_CHANNEL = "cairn_children"
SENT_CHANNEL = "cairn_sent"
REQUEST_CHANNEL = "cairn_requests"
RETRY_SECONDS = 1.0


class Notices:
    """Wakes waiters early; what it misses, they find out at the end of their wait. It ignores notices of its `own` id.

    Who wishes is woken by what is told on one of the channels `also`.
    """

    def __init__(
        self,
        address: DatabaseAddress,
        channel: LiteralString,
        own: str | None = None,
        also: Sequence[LiteralString] = (),
    ) -> None:
        self.address = address
        self.channel = channel
        self.own = own
        self.also = also
        self._waiting: dict[tuple[str, str], set[asyncio.Event]] = defaultdict(set)
        self._any = asyncio.Event()
        self.closed = False

    async def run(self) -> None:
        """Listen until cancelled."""
        while True:
            try:
                async with await self.address.connect(autocommit=True, application_name="cairn-notices") as connection:
                    for channel in (*self.also, self.channel):
                        await connection.execute(sql.SQL("listen {}").format(sql.Identifier(channel)))
                    async for notice in connection.notifies():
                        self._wake(notice.channel, notice.payload)
            except (psycopg.Error, OSError) as error:
                log.warning("notices are not heard", extra={"channel": self.channel, "error": type(error).__name__})
            await asyncio.sleep(RETRY_SECONDS)

    @contextmanager
    def watching(self, named: UUID | str, also: LiteralString | None = None) -> Iterator[asyncio.Event]:
        """An event that is set when this id or name is told from now on, be it on the channel `also`."""
        event = asyncio.Event()
        if self.closed:
            event.set()
        places = [(channel, str(named)) for channel in (self.channel, also) if channel]
        for place in places:
            self._waiting[place].add(event)
        try:
            yield event
        finally:
            for place in places:
                self._waiting[place].discard(event)
                if not self._waiting[place]:
                    del self._waiting[place]

    async def heard(self, seconds: float) -> bool:
        """Whether anything is heard on the first channel within this time. For one waiter a process."""
        happened = await happens_within(self._any, seconds)
        self._any.clear()
        return happened

    def close(self) -> None:
        """Release all waiters, so that a stopping server does not wait for them."""
        self.closed = True
        for event in [event for events in self._waiting.values() for event in events]:
            event.set()

    def _wake(self, channel: str, payload: str) -> None:
        """Wake the waiters for the listed names. Any role may notify: a name that nobody waits for wakes nobody."""
        if payload == self.own:
            return
        if channel == self.channel:
            self._any.set()
        for named in payload.split(","):
            for event in self._waiting.get((channel, named), ()):
                event.set()


async def happens_within(event: asyncio.Event, seconds: float) -> bool:
    """Whether the event happens within so long."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)
    return event.is_set()
