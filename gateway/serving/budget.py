"""Memory for pixels, shared by the requests that read them: who needs more than is left waits for their turn.

Knows no pixel and no request. One event loop uses it.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from gateway.serving.problems import BUSY


@dataclass(frozen=True)
class _Turn:
    size_bytes: int
    comes: asyncio.Future[None]


class Budget:
    """So many bytes for all, and so many at most for one. Turns come in the order in which they were asked for."""

    def __init__(self, all_bytes: int, one_bytes: int, patience_seconds: float) -> None:
        self.one_bytes = min(one_bytes, all_bytes)
        self.free_bytes = all_bytes
        self._patience = patience_seconds
        self._waiting: deque[_Turn] = deque()

    @asynccontextmanager
    async def share(self, size_bytes: int) -> AsyncIterator[None]:
        """Hold so many bytes for as long as the block lasts. Whoever waits too long is told to ask again."""
        await self._take(size_bytes)
        try:
            yield
        finally:
            self._give(size_bytes)

    async def _take(self, size_bytes: int) -> None:
        if not self._waiting and size_bytes <= self.free_bytes:
            self.free_bytes -= size_bytes
            return
        turn = _Turn(size_bytes, asyncio.get_running_loop().create_future())
        self._waiting.append(turn)
        try:
            await asyncio.wait([turn.comes], timeout=self._patience)  # never cancels what it waits for
        except asyncio.CancelledError:
            # Whoever went away may have got a turn at the same moment.
            if turn.comes.done():
                self._give(size_bytes)
            else:
                self._leave(turn)
            raise
        if not turn.comes.done():
            self._leave(turn)
            raise BUSY

    def _leave(self, turn: _Turn) -> None:
        """A turn that is not waited for any more may have kept others from theirs."""
        self._waiting.remove(turn)
        self._give(0)

    def _give(self, size_bytes: int) -> None:
        self.free_bytes += size_bytes
        while self._waiting and self._waiting[0].size_bytes <= self.free_bytes:
            turn = self._waiting.popleft()
            self.free_bytes -= turn.size_bytes
            turn.comes.set_result(None)
