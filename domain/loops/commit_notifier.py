"""Tells other processes what was committed: new work, whose attempts were fenced, what changed, whose children spoke.

At most so often: a NOTIFY inside a transaction would make all commits take turns.
"""

import asyncio
import logging
from collections.abc import Iterable
from uuid import UUID

import psycopg

from domain.repositories.outbox import DISPATCH_CHANNEL
from domain.shared.database_address import DatabaseAddress
from domain.shared.notices import CHILDREN_CHANNEL, FENCE_CHANNEL, REQUEST_CHANNEL

log = logging.getLogger("cairn.notifier")
THROTTLE_SECONDS = 0.05
IDS_AT_ONCE = 200  # a notification carries 8000 bytes


class CommitNotifier:
    """Rung by every commit that others wait for. A ring that gets lost costs them the rest of their wait."""

    def __init__(self, address: DatabaseAddress) -> None:
        self.address = address
        self._rung = asyncio.Event()
        self._work = False
        self._fenced: set[UUID] = set()
        self._changed: set[UUID] = set()
        self._children: set[UUID] = set()

    def ring(self) -> None:
        """There is work for relays."""
        self._work = True
        self._rung.set()

    def fenced(self, run_ids: Iterable[UUID]) -> None:
        """Attempts of these runs are over: whoever works for them should stop."""
        self._fenced.update(run_ids)
        self._rung.set()

    def changed(self, request_ids: Iterable[UUID]) -> None:
        """These requests have another status: whoever waits for that should look."""
        self._changed.update(request_ids)
        self._rung.set()

    def children(self, run_ids: Iterable[UUID]) -> None:
        """Child runs of these have told something: the flow runs that wait for them should look."""
        self._children.update(run_ids)
        self._rung.set()

    async def run(self) -> None:
        """Pass rings on until cancelled. The connection is opened by the first one."""
        while True:
            await self._rung.wait()
            try:
                line = await self.address.connect_to_ask(autocommit=True, application_name="cairn-notifier")
                async with line as connection:
                    while True:
                        await self._rung.wait()
                        self._rung.clear()
                        for channel, payload in self._news():
                            await connection.execute("select pg_notify(%s, %s)", [channel, payload])
                        await asyncio.sleep(THROTTLE_SECONDS)
            except (psycopg.Error, OSError) as error:
                log.warning("others could not be told of a commit", extra={"error": type(error).__name__})
                self._rung.clear()
                await asyncio.sleep(1)

    def _news(self) -> list[tuple[str, str]]:
        """What to tell on which channel; nothing is told twice."""
        work, self._work = self._work, False
        fenced, self._fenced = self._fenced, set()
        changed, self._changed = self._changed, set()
        children, self._children = self._children, set()
        told = [
            *_parts(FENCE_CHANNEL, fenced),
            *_parts(REQUEST_CHANNEL, changed),
            *_parts(CHILDREN_CHANNEL, children),
        ]
        return [*([(DISPATCH_CHANNEL, "")] if work else []), *told]


def _parts(channel: str, ids: Iterable[UUID]) -> list[tuple[str, str]]:
    """The ids in notifications of the length that there may be."""
    words = sorted(map(str, ids))
    return [(channel, ",".join(words[start : start + IDS_AT_ONCE])) for start in range(0, len(words), IDS_AT_ONCE)]
