"""Tells other processes what was committed: new work, fenced attempts, changes, children's news, where runs were sent.

At most so often: a NOTIFY inside a transaction would make all commits take turns.
"""

import asyncio
import logging
from collections.abc import Iterable
from uuid import UUID

import psycopg

from domain.after_commit import AfterCommit
from domain.repositories.outbox import DISPATCH_CHANNEL
from domain.shared.database_address import DatabaseAddress
from domain.shared.notices import CHILDREN_CHANNEL, FENCE_CHANNEL, REQUEST_CHANNEL, SENT_CHANNEL

log = logging.getLogger("cairn.notifier")
THROTTLE_SECONDS = 0.05
IDS_AT_ONCE = 200  # a notification carries 8000 bytes


class CommitNotifier:
    """Notifies other processes of commits. A lost notification costs a waiter only the rest of its wait."""

    def __init__(self, address: DatabaseAddress) -> None:
        self.address = address
        self._told = asyncio.Event()
        self._noted = AfterCommit()

    def tell(self, noted: AfterCommit) -> None:
        """Notify others of a commit soon, together with commits that follow at once."""
        self._noted.add(noted)
        self._told.set()

    async def run(self) -> None:
        """Notify until cancelled. The connection is opened for the first commit."""
        while True:
            await self._told.wait()
            try:
                line = await self.address.connect_to_ask(autocommit=True, application_name="cairn-notifier")
                async with line as connection:
                    while True:
                        await self._told.wait()
                        self._told.clear()
                        for channel, payload in self._news():
                            await connection.execute("select pg_notify(%s, %s)", [channel, payload])
                        await asyncio.sleep(THROTTLE_SECONDS)
            except (psycopg.Error, OSError) as error:
                log.warning("others could not be told of a commit", extra={"error": type(error).__name__})
                self._told.clear()
                await asyncio.sleep(1)

    def _news(self) -> list[tuple[str, str]]:
        """Return what to send on which channel; nothing is sent twice."""
        noted, self._noted = self._noted, AfterCommit()
        told = [
            *_parts(FENCE_CHANNEL, noted.fenced),
            *_parts(REQUEST_CHANNEL, noted.changed),
            *_parts(CHILDREN_CHANNEL, noted.children),
            *_parts(SENT_CHANNEL, noted.sent),
        ]
        return [*([(DISPATCH_CHANNEL, "")] if noted.has_work else []), *told]


def _parts(channel: str, ids: Iterable[UUID | str]) -> list[tuple[str, str]]:
    """Split the ids into notifications that are not too long for PostgreSQL."""
    words = sorted(map(str, ids))
    return [(channel, ",".join(words[start : start + IDS_AT_ONCE])) for start in range(0, len(words), IDS_AT_ONCE)]
