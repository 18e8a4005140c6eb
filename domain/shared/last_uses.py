"""Records when each client was last let in: services that only read notify the domain, which writes it down.

A notice is a hint that any role may send: it moves a date that people look at, and decides nothing.
"""

import asyncio
import logging
from dataclasses import dataclass
from typing import Any, Final, LiteralString

import psycopg

from domain.shared.database_address import DatabaseAddress

OPTIONS: Final[dict[str, Any]] = {"autocommit": True, "application_name": "cairn-last-uses"}
log = logging.getLogger("cairn.last_uses")
RETRY_SECONDS = 1.0
AT_ONCE = 100  # a notification carries 8000 bytes, an id has 63 at most
MOST = 10_000
HEAR: Final = "listen cairn_used"
TELL: Final = "select pg_notify('cairn_used', array_to_string(%s::text[], ','))"
WRITE: Final = "update app.clients set last_used_at = clock_timestamp() where client_id = any(%s)"


@dataclass(frozen=True)
class LastUses:
    """Collects last uses. `seen` is shared with `Authentication`, which adds to it; sent entries are removed."""

    address: DatabaseAddress
    seen: set[str]
    every_seconds: float

    async def tell(self) -> None:
        """Notify the domain of last uses until cancelled, from a service that cannot write."""
        await self._report(TELL)

    async def write(self) -> None:
        """Write last uses seen here or elsewhere until cancelled, in the domain."""
        await self._report(WRITE)

    async def hear(self) -> None:
        """Collect last uses that other services notify until cancelled, in the domain."""
        while True:
            try:
                async with await self.address.connect(**OPTIONS) as connection:
                    await connection.execute(HEAR)
                    async for notice in connection.notifies():
                        if len(self.seen) < MOST:
                            self.seen.update(notice.payload.split(","))
            except (psycopg.Error, OSError) as error:
                log.warning("last uses are not heard of", extra={"error": type(error).__name__})
            await asyncio.sleep(RETRY_SECONDS)

    async def _report(self, statement: LiteralString) -> None:
        while True:
            await asyncio.sleep(self.every_seconds)
            clients = sorted(self.seen)
            if not clients:
                continue
            try:
                async with await self.address.connect_to_ask(**OPTIONS) as connection:
                    for start in range(0, len(clients), AT_ONCE):
                        await connection.execute(statement, [clients[start : start + AT_ONCE]])
            except (psycopg.Error, OSError) as error:
                log.warning("last uses are not reported", extra={"error": type(error).__name__})
            else:
                self.seen.difference_update(clients)
