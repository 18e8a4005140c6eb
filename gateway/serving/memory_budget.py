"""Memory for pixels and features, shared by the requests that read them: who needs more than is left waits for a turn.

Knows no pixel and no request. One event loop uses it.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from gateway.serving.problems import BUSY

EVERYBODY = ""  # where nobody says who reads, all do


@dataclass(frozen=True)
class _Turn:
    reader: str
    size_bytes: int
    comes: asyncio.Future[None]


class MemoryBudget:
    """Bounds the bytes of all requests and of each one.

    Turns come in the order in which they were asked for, but for those of a reader who has an eighth of it already, or
    so many requests under way: others pass by. Large requests of one reader so come one by one.
    """

    def __init__(self, all_bytes: int, one_bytes: int, patience_seconds: float, at_a_time: int = 4) -> None:
        self.one_bytes = min(one_bytes, all_bytes)
        self.free_bytes = all_bytes
        self._each_bytes = all_bytes // 8
        self._at_a_time = at_a_time
        self._patience = patience_seconds
        self._waiting: deque[_Turn] = deque()
        self._held, self._under_way = Counter[str](), Counter[str]()

    @asynccontextmanager
    async def share(
        self, size_bytes: int, reader: str = EVERYBODY, patience_seconds: float | None = None
    ) -> AsyncIterator[None]:
        """Hold this many bytes during the block. A reader that waits too long is told to ask again."""
        await self._wait_for_room(size_bytes, reader, self._patience if patience_seconds is None else patience_seconds)
        try:
            yield
        finally:
            self._give_back(size_bytes, reader)

    async def _wait_for_room(self, size_bytes: int, reader: str, patience: float) -> None:
        turn = _Turn(reader, size_bytes, asyncio.get_running_loop().create_future())
        self._waiting.append(turn)
        self._admit_waiting()
        if turn.comes.done():
            return
        try:
            await asyncio.wait([turn.comes], timeout=patience)  # never cancels what it waits for
        except asyncio.CancelledError:
            # Whoever went away may have got a turn at the same moment.
            if turn.comes.done():
                self._give_back(size_bytes, reader)
            else:
                self._stop_waiting(turn)
            raise
        if not turn.comes.done():
            self._stop_waiting(turn)
            raise BUSY

    def _stop_waiting(self, turn: _Turn) -> None:
        """Remove a turn that is not waited for any more, and let in those it kept waiting."""
        self._waiting.remove(turn)
        self._admit_waiting()

    def _give_back(self, size_bytes: int, reader: str) -> None:
        self.free_bytes += size_bytes
        self._held[reader] -= size_bytes
        self._under_way[reader] -= 1
        if not self._under_way[reader]:
            del self._held[reader], self._under_way[reader]
        self._admit_waiting()

    def _admit_waiting(self) -> None:
        """Admit waiting turns in order up to the first without room: small ones must not pass large ones."""
        for turn in list(self._waiting):
            if self._has_enough(turn):
                continue
            if turn.size_bytes > self.free_bytes:
                return
            self._waiting.remove(turn)
            self.free_bytes -= turn.size_bytes
            self._held[turn.reader] += turn.size_bytes
            self._under_way[turn.reader] += 1
            turn.comes.set_result(None)

    def _has_enough(self, turn: _Turn) -> bool:
        """Whether the reader of this turn must first end something of their own."""
        under_way = self._under_way[turn.reader]
        if turn.reader == EVERYBODY or not under_way:
            return False
        return under_way >= self._at_a_time or self._held[turn.reader] + turn.size_bytes > self._each_bytes
