"""What serving remembers of the database: for a second, so much of it, and not beyond the next decision.

Knows no question and no answer. News of a decision empties it; the second is for news that got lost.
"""

import time
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, TypeVar, cast

from cachetools import LRUCache

Answer = TypeVar("Answer")
_UNKNOWN = (float("-inf"), None)


def _anybody(_: object) -> bool:
    return True


class LookupCache:
    """Answers by their questions. One event loop uses it."""

    def __init__(self, seconds: float, entries: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._clock = seconds, clock
        self._kept: LRUCache[Hashable, tuple[float, Any]] = LRUCache(entries)
        self._forgotten = 0
        self.hits = self.misses = 0

    async def recall(
        self, question: Hashable, ask: Callable[[], Awaitable[Answer]], serves: Callable[[Answer], bool] = _anybody
    ) -> Answer:
        """The answer of at most so long ago, else a new one. That there is nothing is not remembered.

        Nor is what does not serve who asks: a refusal takes the same work as where there is nothing.
        """
        asked_at = self._clock()
        until, answer = self._kept.get(question, _UNKNOWN)
        if asked_at < until and serves(cast("Answer", answer)):
            self.hits += 1
            return cast("Answer", answer)
        self.misses += 1
        forgotten = self._forgotten
        answer = await ask()
        # An answer that was under way when the news came may be of before it.
        if answer is not None and self._seconds and forgotten == self._forgotten:
            self._kept[question] = (asked_at + self._seconds, answer)
        return answer

    def forget(self) -> None:
        """Something was decided."""
        self._forgotten += 1
        self._kept.clear()
