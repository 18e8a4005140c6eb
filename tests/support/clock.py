"""Time that tests make pass, and waiting for what others do."""

import asyncio
import time
from collections.abc import Callable

PATIENCE_SECONDS = 60.0  # with a busy machine: what takes longer hangs
LEAST_REST_SECONDS, LONGEST_REST_SECONDS = 0.02, 0.25
RESTS = 6  # times as long as an answer took: who is asked, and this machine, have something else to do


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
    while True:
        asked = time.monotonic()
        if question():
            return
        answered = time.monotonic()
        assert answered < deadline, tell()
        time.sleep(rest_seconds(answered - asked))


def rest_seconds(took: float) -> float:
    """How long to wait before the same is asked again."""
    return min(max(LEAST_REST_SECONDS, RESTS * took), LONGEST_REST_SECONDS)


async def eventually(question: Callable[[], object], seconds: float = PATIENCE_SECONDS) -> None:
    """The same where others go on in this event loop."""
    deadline = time.monotonic() + seconds
    while True:
        asked = time.monotonic()
        if question():
            return
        answered = time.monotonic()
        assert answered < deadline, "it did not come true"
        await asyncio.sleep(rest_seconds(answered - asked) / 2)
