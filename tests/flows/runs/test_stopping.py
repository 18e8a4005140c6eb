"""Telling work to stop: which flag raises which, and what the first reason is."""

import asyncio
import os
import signal
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from uuid import uuid4

import pytest

from flows.runs import stop_signals, stopping
from flows.runs.stopping import Stop, stoppable_by_id
from tests.support.clock import eventually


def test_first_reason_of_a_stop_is_kept() -> None:
    stop = Stop()
    stop.set("draining")
    stop.set("cancelled")
    assert (stop.reason, stop.event.is_set()) == ("draining", True)


def test_stop_reaches_the_stops_within_it_and_never_the_one_around() -> None:
    outer = Stop()
    middle, sibling = outer.inner(), outer.inner()
    inmost = middle.inner()
    middle.set("over")
    assert [flag.is_set() for flag in (outer, middle, inmost, sibling)] == [False, True, True, False]
    outer.set("fenced")
    assert (sibling.reason, inmost.reason) == ("fenced", "over")
    assert outer.inner().reason == "fenced"


def test_callback_of_a_stop_is_called_once_even_if_added_late() -> None:
    stop, told = Stop(), []
    stop.on_set(lambda: told.append("early"))
    stop.set("over")
    stop.set("over")
    stop.on_set(lambda: told.append("late"))
    assert told == ["early", "late"]


def test_stop_set_by_many_threads_calls_back_once() -> None:
    for _ in range(50):
        stop = Stop()
        told: list[int] = []
        stop.on_set(partial(told.append, 1))
        barrier = threading.Barrier(8)

        def raise_it(stop: Stop = stop, barrier: threading.Barrier = barrier) -> None:
            barrier.wait()
            stop.set("cancelled")

        threads = [threading.Thread(target=raise_it) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert told == [1]


def test_flow_runs_are_stopped_by_id_while_they_are_listed() -> None:
    first, second = (uuid4(), Stop()), (uuid4(), Stop())
    with stoppable_by_id(*first), stoppable_by_id(*second):
        assert stopping.stop_flow_run(first[0], "cancelled")
        assert not stopping.stop_flow_run(uuid4(), "cancelled")
        assert stopping.stop_all_flow_runs("draining") == 2
    assert (first[1].reason, second[1].reason) == ("cancelled", "draining")
    assert not stopping.stop_flow_run(first[0], "cancelled")


@pytest.mark.parametrize(("meant", "reason"), [(True, "cancelled"), (False, "draining"), (None, "draining")])
async def test_signal_counts_as_cancellation_only_where_prefect_says_so(
    monkeypatch: pytest.MonkeyPatch, meant: bool | None, reason: str
) -> None:
    """And for its worker where Prefect does not answer in time."""

    @asynccontextmanager
    async def nobody(**_: object) -> AsyncIterator[None]:
        yield None

    async def says(_prefect: object) -> bool:
        if meant is None:
            await asyncio.sleep(600)
        return bool(meant)

    monkeypatch.setattr(stop_signals, "get_client", nobody)
    monkeypatch.setattr(stop_signals, "is_being_cancelled", says)
    monkeypatch.setattr(stop_signals, "WHY_SECONDS", 0.05 if meant is None else 60)
    stop = Stop()
    with stop_signals._heeding_sigterm(stop):
        os.kill(os.getpid(), signal.SIGTERM)
        await eventually(stop.is_set)
    assert stop.reason == reason
