"""How late an event loop wakes those who sleep in it."""

import asyncio
import logging
import time

import pytest

from domain.shared.loop_lag import KEPT_SECONDS, LoopLag
from tests.support.clock import Clock, eventually


async def test_event_loop_that_stands_still_is_measured_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    lag = LoopLag()
    watching = asyncio.create_task(lag.watch())
    with caplog.at_level(logging.WARNING, "cairn.loop"):
        await asyncio.sleep(0.01)  # it has begun to sleep
        time.sleep(1.5)  # noqa: ASYNC251 - what must not happen happens
        await eventually(lambda: lag.worst_seconds > 1)
    assert lag.worst_seconds < 60
    assert [record.message for record in caplog.records][:1] == ["the event loop stood still"]
    watching.cancel()


def test_worst_recent_lag_is_reported_and_old_lag_forgotten() -> None:
    clock = Clock()
    lag = LoopLag(clock.monotonic)
    assert lag.worst_seconds == 0
    for seconds in (0.2, 0.9, -0.1):
        lag.note(seconds)
    assert lag.worst_seconds == 0.9
    clock.forward(KEPT_SECONDS + 1)
    lag.note(0.3)
    assert lag.worst_seconds == 0.3
