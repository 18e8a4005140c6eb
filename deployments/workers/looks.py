"""When a worker looks for runs: often while there are some, seldom while it would be told of them. Pure, with a clock.

What the domain sends is told at once. Runs that somebody starts in Prefect are found by the next look, within a second.
"""

import time
from dataclasses import dataclass, field

IDLE_SECONDS = 0.7  # with the time between two of the worker's own rounds, less than a second
BUSY_SECONDS = 3.0  # where there was something, more comes soon


@dataclass
class Looks:
    """When the last look was, and until when looks are frequent."""

    is_told: bool = False  # the domain says when it has sent runs; without that, every round looks
    _looked_at: float = field(default=float("-inf"))
    _busy_until: float = field(default=float("-inf"))

    def is_due(self) -> bool:
        """Whether this round of the worker should look."""
        now = time.monotonic()
        return not self.is_told or now < self._busy_until or now - self._looked_at >= IDLE_SECONDS

    def looked(self, *, found: bool) -> None:
        self._looked_at = time.monotonic()
        if found:
            self.hurry()

    def hurry(self) -> None:
        """Look in every round for a while: something was there, or a place has become free."""
        self._busy_until = time.monotonic() + BUSY_SECONDS
