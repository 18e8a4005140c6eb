"""Measures how late an event loop wakes its sleepers: whatever blocks the loop delays everything in it.

Shared by services and workers: it knows none of them.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

log = logging.getLogger("cairn.loop")
LOOK_SECONDS = 0.25
KEPT_SECONDS = 30.0
STANDSTILL_SECONDS = 1.0


@dataclass
class LoopLag:
    """Sleeps again and again, and notes by how much each sleep was too long."""

    clock: Callable[[], float] = time.monotonic
    _late: deque[tuple[float, float]] = field(default_factory=deque, init=False)  # when, and by how much

    async def watch(self) -> None:
        """Look until cancelled."""
        while True:
            due = self.clock() + LOOK_SECONDS
            await asyncio.sleep(LOOK_SECONDS)
            self.note(self.clock() - due)

    def note(self, seconds: float) -> None:
        """Note a delay. A standstill is logged too: its cause stands just before it in the log."""
        self._late.append((self.clock(), max(0.0, seconds)))
        if seconds >= STANDSTILL_SECONDS:
            log.warning("the event loop stood still", extra={"seconds": round(seconds, 2)})

    @property
    def worst_seconds(self) -> float:
        """The worst recent delay."""
        while self._late and self._late[0][0] < self.clock() - KEPT_SECONDS:
            self._late.popleft()
        return max((seconds for _, seconds in self._late), default=0.0)
