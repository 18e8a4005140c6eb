"""How many tries go on at once: a bound for each run, and one for all runs of a process together.

A fan-out bounds its own items, but a run may have many fan-outs, inside each other too, and a light worker hundreds of
runs; each try is a thread, or a process. Every run has one place of its own, so that no rush of items holds up what is
small or urgent; what a run does beside that shares the process's room, and the runs that wait for it take turns.
"""

import asyncio
import os
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final
from weakref import WeakKeyDictionary

from flows.handlers.errors import Stopped

TRIES_PER_RUN: Final = 32
TRIES_SHARED: Final = 64  # beside one for each run
WORKER_PLACES: Final = max(4, 2 * (os.cpu_count() or 1))  # what a worker does at once, unless its limit says otherwise


@dataclass(eq=False)
class SharedTries:
    """What all runs of a process share."""

    free: int = TRIES_SHARED
    _in_line: deque["Places"] = field(default_factory=deque)

    def queue(self, places: "Places") -> None:
        """Some try of this run waits."""
        if places not in self._in_line:
            self._in_line.append(places)

    def admit(self) -> None:
        """A place has become free: let one try in, of the run whose turn it is."""
        for _ in range(len(self._in_line)):
            places = self._in_line.popleft()
            admitted = places.let_in()
            if places.waits:
                self._in_line.append(places)
            if admitted:
                return


@dataclass(eq=False)
class Places:
    """The places of one run. Whoever holds one never waits for another."""

    room: SharedTries = field(default_factory=SharedTries)
    most: int = TRIES_PER_RUN
    at_work: int = 0
    _waiting: deque["asyncio.Future[bool]"] = field(default_factory=deque)

    @property
    def waits(self) -> bool:
        return bool(self._waiting)

    @asynccontextmanager
    async def hold_place(self, is_stopped: Callable[[], bool]) -> AsyncIterator[None]:
        """Hold a place while the block runs. Raises where the stop comes first."""
        while not self._take():
            if is_stopped():
                raise Stopped("The run was asked to stop.")
            if await self._let_in():
                break
        try:
            yield
        finally:
            self._leave()

    def let_go(self) -> None:
        """Have all that wait look whether they still should."""
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(False)
        self._waiting.clear()

    def let_in(self) -> bool:
        """Give the first that waits its place, if there is one."""
        while self._waiting and self._waiting[0].done():  # it was cancelled
            self._waiting.popleft()
        if not self._waiting or not self._take():
            return False
        self._waiting.popleft().set_result(True)
        return True

    def _take(self) -> bool:
        if self.at_work and (self.at_work >= self.most or self.room.free <= 0):
            return False
        self.room.free -= self.at_work > 0  # the first of a run is its own
        self.at_work += 1
        return True

    def _leave(self) -> None:
        self.at_work -= 1
        self.room.free += self.at_work > 0
        if not self.at_work:
            self.let_in()
        self.room.admit()

    async def _let_in(self) -> bool:
        """Wait in line: true with a place, false where it is worth a look whether to wait on."""
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        self.room.queue(self)
        try:
            return bool(await waiting)
        except asyncio.CancelledError:
            if waiting.done() and not waiting.cancelled() and waiting.result():
                self._leave()  # it was let in just now
            raise


_of_loops: WeakKeyDictionary[asyncio.AbstractEventLoop, SharedTries] = WeakKeyDictionary()


def shared_room(size: int) -> SharedTries:
    """The room of this process, whose runs are in one event loop. The first to ask says how large it is."""
    return _of_loops.setdefault(asyncio.get_running_loop(), SharedTries(size))
