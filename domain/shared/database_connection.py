"""Connections that close when their database stops answering.

A server whose processes are stopped, or whose machine hangs, keeps its connections open, and its kernel goes on
answering for it: no keepalive notices. Only who asked knows that there is no answer. What is asked has a time by the
server's own clock, `statement_timeout`; where even that end does not come, we hang up, and whoever waits hears that the
connection is lost, as at any other loss.
"""

import asyncio
import contextlib
import os
import select
import socket
import time
from types import TracebackType
from typing import Any, Self

import psycopg

from domain.rules.database_timeouts import IDLE_SECONDS, LATE_SECONDS, PING_SECONDS, STATEMENT_SECONDS


class SurelyClosed(psycopg.AsyncConnection[Any]):
    """A connection that is closed at the end of its block, whatever happens there.

    Psycopg's own stays open where the block's task is cancelled while it commits or rolls back.
    """

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await super().__aexit__(kind, error, trace)
        finally:
            if not getattr(self, "_pool", None):  # a pool's goes back to it, which looks at how it was left
                await self.close()  # waits for nobody


class Answering(SurelyClosed):
    """A connection that must answer in time. Listening connections are silent for long and use another class."""

    answer_seconds: float = STATEMENT_SECONDS + LATE_SECONDS
    heard_at: float = float("-inf")
    _due_at: float | None = None  # by the loop's clock; while an answer is waited for
    _alarm: asyncio.TimerHandle | None = None

    @classmethod
    async def connect(cls, conninfo: str = "", **options: Any) -> Self:
        """`statement_seconds` bounds each statement at the server. The server compiles none: ours are short.

        It would compile for longer than most of them run, at each of those that are made to follow an index: the
        planner then takes the rest of their plan for very dear.
        """
        seconds = float(options.pop("statement_seconds", STATEMENT_SECONDS))
        said = str(options.get("options") or "")
        ours = {"statement_timeout": round(1000 * seconds), "jit": "off"}
        added = " ".join(f"-c {name}={value}" for name, value in ours.items() if name not in said)
        options["options"] = f"{said} {added}".strip()
        made = await super().connect(conninfo, **options)
        made.answer_seconds, made.heard_at = seconds + LATE_SECONDS, time.monotonic()
        return made

    async def wait(self, gen: Any, *arguments: Any, **named: Any) -> Any:
        """Wait like psycopg, which passes all questions through here; close the connection if no answer comes."""
        loop = asyncio.get_running_loop()
        self._due_at = due_at = loop.time() + self.answer_seconds
        if self._alarm is None or self._alarm.when() > due_at:
            self._set_alarm(loop, due_at)
        try:
            answer = await super().wait(gen, *arguments, **named)
        finally:
            self._due_at = None
        self.heard_at = time.monotonic()
        return answer

    def _set_alarm(self, loop: asyncio.AbstractEventLoop, at: float) -> None:
        """Look at that time. One alarm serves many questions: one for each would cost more than some answers."""
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = loop.call_at(at, self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        """Hang up where the answer is late; look again where another question has more time."""
        self._alarm = None
        if self._due_at is None or self.closed:
            return
        if loop.time() >= self._due_at:
            self.hang_up()
        else:
            self._set_alarm(loop, self._due_at)

    def hang_up(self) -> None:
        """Close the connection under its waiter: to psycopg it looks as if the server had."""
        with contextlib.suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(self.fileno())) as line:
            if not select.select([line], [], [], 0)[0]:  # else it was this process that was late
                line.shutdown(socket.SHUT_RDWR)

    async def refuse_silence(self) -> None:
        """Raise where the server does not answer any more. One that answered just now is not asked."""
        if time.monotonic() - self.heard_at < IDLE_SECONDS:
            return
        usual, as_it_was = self.answer_seconds, self.autocommit
        self.answer_seconds = PING_SECONDS
        await self.set_autocommit(True)  # asks nothing of the server; else the question would begin a transaction
        try:
            await self.execute("")
        finally:
            self.answer_seconds = usual
            with contextlib.suppress(psycopg.Error):
                await self.set_autocommit(as_it_was)


async def refuse_if_silent(connection: psycopg.AsyncConnection[Any]) -> None:
    """Check a connection for pools that ask before they hand one out."""
    if isinstance(connection, Answering):
        await connection.refuse_silence()
