"""Time that tests make pass, and waiting for what others do."""

import asyncio
import time
from collections.abc import Callable

PATIENCE_SECONDS = 60.0  # with a busy machine: what takes longer hangs


class Clock:
    """Stands in for the module `time` where only `monotonic` is asked: it goes on, and may be set forward."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.ahead

    def forward(self, seconds: float) -> None:
        """As if so much time had passed just now."""
        self.ahead += seconds


def until(
    question: Callable[[], object],
    seconds: float = PATIENCE_SECONDS,
    tell: Callable[[], str] = lambda: "it did not come true",
) -> None:
    """Ask until the answer is yes; where it never is, `tell` says what was there instead."""
    deadline = time.monotonic() + seconds
    while not question():
        assert time.monotonic() < deadline, tell()
        time.sleep(0.02)


async def eventually(question: Callable[[], object], seconds: float = PATIENCE_SECONDS) -> None:
    """The same where others go on in this event loop."""
    deadline = time.monotonic() + seconds
    while not question():
        assert time.monotonic() < deadline, "it did not come true"
        await asyncio.sleep(0.01)
