"""Places that readers take one after the other: whoever asks for many waits behind whoever asks for one.

Knows no picture and no process. One event loop uses it.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gateway.serving.problems import BUSY


class Turns:
    """So many places. Free ones go to the readers who wait by turns, whatever the number of their requests."""

    def __init__(self, places: int, patience_seconds: float, most_waiting: int = 64) -> None:
        # More than the gateway lets one address ask at a time: who waits is quiet, who is refused at once asks again.
        self.free = places
        self._patience, self._most_waiting = patience_seconds, most_waiting
        # Who is next stands first. Of each reader the requests that wait, the oldest first; never none.
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @asynccontextmanager
    async def place(self, reader: str) -> AsyncIterator[None]:
        """Hold a place for as long as the block lasts. Who waits too long, or with too many, is told to ask again."""
        await self._take(reader)
        try:
            yield
        finally:
            self._give()

    async def _take(self, reader: str) -> None:
        if self.free and not self._waiting:
            self.free -= 1
            return
        if len(self._waiting.get(reader, ())) >= self._most_waiting:
            raise BUSY
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(reader, deque()).append(turn)
        try:
            await asyncio.wait([turn], timeout=self._patience)  # never cancels what it waits for
        except asyncio.CancelledError:
            # Whoever went away may have got a place at the same moment.
            if turn.done():
                self._give()
            else:
                self._leave(reader, turn)
            raise
        if not turn.done():
            self._leave(reader, turn)
            raise BUSY

    def _leave(self, reader: str, turn: asyncio.Future[None]) -> None:
        self._waiting[reader].remove(turn)
        if not self._waiting[reader]:
            del self._waiting[reader]

    def _give(self) -> None:
        """Pass the place on. A reader whose request got one is last now."""
        if not self._waiting:
            self.free += 1
            return
        reader, turns = self._waiting.popitem(last=False)
        turns.popleft().set_result(None)
        if turns:
            self._waiting[reader] = turns
