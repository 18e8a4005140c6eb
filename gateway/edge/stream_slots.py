"""Limits how many answers are on their way at a time; a slow reader holds places of its own only."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from domain.rules.guesses import place_of
from domain.rules.shares import InTheWay, Shares
from gateway.errors import Busy, TooManyStreams

_LITTLE: Final = 6  # what a browser reads at a time


class Streams:
    """Places for answers, counted by receiver. The last quarter is for those who hold few."""

    def __init__(self, most: int, each: int) -> None:
        each = min(each, most)
        self.shares = Shares(most, each, reserve=most // 4, little=min(_LITTLE, each))

    @contextmanager
    def place(self, address: str) -> Iterator[None]:
        """Hold a place for an answer to this address, or refuse."""
        source = place_of(address)
        match self.shares.take(source):
            case InTheWay.OWN:
                raise TooManyStreams(f"Read at most {self.shares.each} answers at a time.", retry_after_seconds=1)
            case InTheWay.OTHERS:
                raise Busy("Others read as many answers as there is room for. Ask again.", retry_after_seconds=1)
            case None:
                pass
        try:
            yield
        finally:
            self.shares.give(source)
