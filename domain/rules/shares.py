"""How much of something limited each source of calls may hold: places, or bytes. Pure; knows no network and no clock.

Nobody holds more than one share, and the last part is a reserve: it goes to those who hold little. So whoever takes
all they can get leaves room for everybody else, and a crowd of such leaves some.
"""

from collections import Counter
from enum import Enum


class InTheWay(Enum):
    """Whose holding exceeds the limit: the source's own, or others'."""

    OWN = "own"
    OTHERS = "others"


class Shares:
    """Counts what each source holds; a source that holds nothing takes no memory."""

    def __init__(self, most: int, each: int, *, reserve: int = 0, little: int = 0) -> None:
        if not 0 < each <= most or not 0 <= reserve < most:
            raise ValueError("one share is at most all there is, and the reserve is a part of it")
        self.most, self.each, self.reserve, self.little = most, each, reserve, little
        self.free = most
        self._held = Counter[str]()

    def take(self, source: str, amount: int = 1) -> InTheWay | None:
        """Give the source this amount, or say why not and change nothing."""
        wanted, left = self._held[source] + amount, self.free - amount
        if wanted > self.each:
            return InTheWay.OWN
        if left < 0 or (left < self.reserve and wanted > self.little):
            return InTheWay.OTHERS
        self._held[source] = wanted
        self.free = left
        return None

    def give(self, source: str, amount: int = 1) -> None:
        """Take back what the source was given."""
        self._held[source] -= amount
        self.free += amount
        if self._held[source] <= 0:
            del self._held[source]

    def held(self, source: str) -> int:
        return self._held[source]
