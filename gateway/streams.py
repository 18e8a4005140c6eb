"""How many answers may be on their way to an address: who reads slowly holds places of its own, not everybody's."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from gateway.errors import TooManyStreams


class Streams:
    """Counts them by address, and remembers nobody who has none."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._open = Counter[str]()

    @contextmanager
    def place(self, address: str) -> Iterator[None]:
        """One of the address's places, or a refusal."""
        if self._open[address] >= self.most:
            raise TooManyStreams(f"Read at most {self.most} answers at a time.", retry_after_seconds=1)
        self._open[address] += 1
        try:
            yield
        finally:
            self._open[address] -= 1
            if not self._open[address]:
                del self._open[address]
