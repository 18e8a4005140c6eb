"""Whether what a service stands on answers now: asked once for all who ask, and waited for no longer than they would.

Who asks is a balancer's probe. One that hung with the database would be one more who waits for it, and tell nobody.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import psycopg

from domain.rules.liveliness import PING_SECONDS
from domain.shared.database_address import DatabaseAddress
from domain.shared.database_connection import Answering


@dataclass
class Ready:
    """One question. While it is being answered, nobody asks it again."""

    ask: Callable[[], Awaitable[object]]
    seconds: float = PING_SECONDS
    _asking: "asyncio.Future[object] | None" = None

    async def check(self) -> None:
        """Raise what the question raises, or TimeoutError where there is no answer in time."""
        if self._asking is None or self._asking.done():
            self._asking = asyncio.ensure_future(self.ask())
            self._asking.add_done_callback(_consume_outcome)
        async with asyncio.timeout(self.seconds):
            await asyncio.shield(self._asking)  # who leaves leaves the answer to the others


def _consume_outcome(asked: "asyncio.Future[object]") -> None:
    """Somebody may wait for it, or nobody any more: then it is no fault that nobody looked at."""
    if not asked.cancelled():
        asked.exception()


@dataclass
class Pulse:
    """Asks a database on a connection of its own: that all others are at work takes nobody out of service."""

    address: DatabaseAddress
    _line: Answering | None = field(default=None, repr=False)
    _ended: bool = False

    async def ask(self) -> None:
        """Raise where the database does not answer. One ended connection is replaced by another."""
        for last in (False, True):
            try:
                if self._line is None or self._line.closed:
                    self._line = await self.address.connect_to_ask(
                        autocommit=True, application_name="cairn-ready", statement_seconds=PING_SECONDS
                    )
                await self._line.execute("select 1")
            except psycopg.Error:
                await self._drop_connection()
                if last or self._ended:
                    raise
            else:
                return

    async def close(self) -> None:
        """Ask no more."""
        self._ended = True
        await self._drop_connection()

    async def _drop_connection(self) -> None:
        if self._line is not None:
            with contextlib.suppress(psycopg.Error):
                await self._line.close()
            self._line = None
