"""What the domain is told of a node that child runs do: that it waits for its pool, or that one of them is at work.

The domain says of a run that nobody serves the pool it waits for, and gives it up at last. So a node waits for as long
as none of its child runs has shown that a worker took it up, be it because all that had begun were handed over.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field


@dataclass
class PoolWait:
    """The child runs of one node, by their numbers. Tells each change, and nothing twice."""

    tell_waits: Callable[[bool], Awaitable[None]]  # whether one of them was at work before
    tell_begun: Callable[[], None]
    _waiting: set[int] = field(default_factory=set)
    _at_work: set[int] = field(default_factory=set)
    _told: bool | None = None  # whether one was at work

    @property
    def is_over(self) -> bool:
        """Whether one of them is at work."""
        return bool(self._at_work)

    async def waits(self, number: int) -> None:
        """This one was sent to the pool."""
        self._waiting.add(number)
        await self._tell()

    async def begins(self, number: int) -> None:
        """This one has shown that it lives. May be said often."""
        if number in self._waiting:
            self._waiting.discard(number)
            self._at_work.add(number)
            await self._tell()

    async def leaves(self, number: int) -> None:
        """This one has ended, or is waited for no more."""
        self._waiting.discard(number)
        self._at_work.discard(number)
        await self._tell()

    async def _tell(self) -> None:
        if not (self._at_work or self._waiting) or self._told is self.is_over:
            return
        before, self._told = self._told, self.is_over
        if self._told:
            self.tell_begun()
        else:
            await self.tell_waits(before is not None)
