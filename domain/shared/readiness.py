"""Checks whether a service's foundation answers now: once for all callers, and no longer than they would wait.

Who asks is a balancer's probe. One that hung with the database would be one more who waits for it, and tell nobody.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import psycopg

from domain.rules.database_timeouts import PING_SECONDS
from domain.shared.database_address import DatabaseAddress
from domain.shared.database_connection import Answering


@dataclass
class Ready:
    """One check. While it is being answered, nobody starts it again."""

    ask: Callable[[], Awaitable[object]]
    seconds: float = PING_SECONDS
    _asking: "asyncio.Future[object] | None" = None

    async def check(self) -> None:
        """Raise what the check raises, or TimeoutError where no answer comes in time."""
        if self._asking is None or self._asking.done():
            self._asking = asyncio.ensure_future(self.ask())
            self._asking.add_done_callback(_consume_outcome)
        async with asyncio.timeout(self.seconds):
            await asyncio.shield(self._asking)  # who leaves leaves the answer to the others


def _consume_outcome(asked: "asyncio.Future[object]") -> None:
    """Read the outcome, so that an error that nobody awaits any more is not reported as unhandled."""
    if not asked.cancelled():
        asked.exception()


@dataclass
class Pulse:
    """Checks a database on a connection of its own, since busy connections make no service unready."""

    address: DatabaseAddress
    _line: Answering | None = field(default=None, repr=False)
    _ended: bool = False

    async def ask(self) -> None:
        """Raise where the database does not answer; an ended connection is replaced once."""
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
        """Close the connection."""
        self._ended = True
        await self._drop_connection()

    async def _drop_connection(self) -> None:
        if self._line is not None:
            with contextlib.suppress(psycopg.Error):
                await self._line.close()
            self._line = None
