"""How many tries go on at once: of one run, and of all runs of a process. Counted."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import httpx
import pytest

from domain.contracts.runs import RunFacts
from domain.shared.together import each_to_its_end
from flows.compiler import Finished, Schedule
from flows.handlers.errors import Stopped
from flows.memory.ledger import Ledger
from flows.runs.domain_client import AttemptClient
from flows.runs.run_context import RunContext
from flows.runs.runner import Runner
from flows.runs.stopping import Stop
from flows.storage import Zones
from flows.tries import one_try
from flows.tries.concurrency import TRIES_PER_RUN, Places, SharedTries, shared_room
from tests.flows.compiler.support import plan_of
from tests.support.clock import PATIENCE_SECONDS, eventually


@dataclass
class Watch:
    """Counts what goes on at once."""

    now: Counter[str] = field(default_factory=Counter)
    peak: Counter[str] = field(default_factory=Counter)
    done: Counter[str] = field(default_factory=Counter)
    most: int = 0

    @asynccontextmanager
    async def one(self, name: str) -> AsyncIterator[None]:
        self.now[name] += 1
        self.peak[name] = max(self.peak[name], self.now[name])
        self.most = max(self.most, self.now.total())
        yield
        self.now[name] -= 1
        self.done[name] += 1


def never() -> bool:
    return False


async def worked(places: Places, name: str, watch: Watch) -> None:
    async with places.hold_place(never), watch.one(name):
        for _ in range(3):
            await asyncio.sleep(0)


async def test_concurrent_runs_share_places_and_none_exceeds_its_part() -> None:
    room, watch = SharedTries(4), Watch()
    runs = {str(number): Places(room, most=3) for number in range(10)}
    await each_to_its_end(worked(places, name, watch) for name, places in runs.items() for _ in range(50))
    assert watch.done == dict.fromkeys(runs, 50)
    assert max(watch.peak.values()) == 3
    assert 4 < watch.most <= 4 + len(runs)
    assert room.free == 4
    assert not any(places.at_work for places in runs.values())


async def test_a_runs_first_try_waits_for_nobody() -> None:
    """What is urgent is one try, beside a rush of items."""
    room = SharedTries(2)
    rush, urgent = Places(room, most=100), Places(room, most=100)
    leave = asyncio.Event()

    async def stay() -> None:
        async with rush.hold_place(never):
            await leave.wait()

    staying = [asyncio.create_task(stay()) for _ in range(50)]
    await eventually(lambda: rush.at_work == 3)
    async with asyncio.timeout(PATIENCE_SECONDS), urgent.hold_place(never):
        assert (rush.at_work, urgent.at_work, room.free) == (3, 1, 0)
    leave.set()
    await asyncio.gather(*staying)
    assert room.free == 2


async def test_waiting_tries_take_turns_by_run() -> None:
    room, order = SharedTries(1), list[str]()
    runs = {name: Places(room, most=100) for name in "ab"}

    async def work(name: str) -> None:
        async with runs[name].hold_place(never):
            order.append(name)
            await asyncio.sleep(0.001)

    async with runs["a"].hold_place(never), runs["b"].hold_place(never), runs["a"].hold_place(never):
        waiting = [asyncio.create_task(work("a")) for _ in range(5)] + [asyncio.create_task(work("b"))]
        await eventually(lambda: runs["a"].waits and runs["b"].waits)
        await asyncio.sleep(0)
        assert order == []
    await asyncio.gather(*waiting)
    assert "b" in order[:3], "a rush that came first is ahead of everything"


async def test_stop_ends_the_wait_for_a_place_without_losing_it() -> None:
    room, stop = SharedTries(0), Stop()
    places = Places(room)
    async with places.hold_place(never):
        waiting = [asyncio.create_task(worked_until(places, stop)) for _ in range(5)]
        await eventually(lambda: len(places._waiting) == 5)
        waiting[0].cancel()
        places.let_go()  # for another part of the run: these wait on
        await eventually(lambda: len(places._waiting) == 4)
        stop.set("over")
        places.let_go()
        ended = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(one) for one in ended] == [asyncio.CancelledError, *[Stopped] * 4]
        with pytest.raises(Stopped):
            await worked_until(places, stop)
    assert (room.free, places.at_work) == (0, 0)


async def worked_until(places: Places, stop: Stop) -> None:
    async with places.hold_place(stop.is_set):
        """Nothing is to be done."""


async def test_place_given_to_a_cancelled_try_goes_to_the_next() -> None:
    places = Places(SharedTries(0))
    async with places.hold_place(never):
        given, following = [asyncio.create_task(worked(places, "x", Watch())) for _ in range(2)]
        await eventually(lambda: len(places._waiting) == 2)
    given.cancel()  # it has its place and has not gone on yet
    async with asyncio.timeout(PATIENCE_SECONDS):
        await following
    assert places.at_work == 0


WIDE = plan_of(
    """
  start: {type: start, next: [one, other]}
  one:
    type: fan_out
    source: "{{ [0] * 150 }}"
    max_concurrency: 150
    task: {handler: echo, params: {x: "{{ index }}"}}
    next: all_of_one
  all_of_one: {type: fan_in, next: end}
  other:
    type: fan_out
    source: "{{ [0] * 150 }}"
    max_concurrency: 150
    task: {handler: echo, params: {x: "{{ index }}"}}
    next: all_of_other
  all_of_other: {type: fan_in, next: end}
  end: {type: end}"""
)


async def test_wide_fan_outs_of_several_runs_stay_within_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever their authors allow them: each try is a thread of the worker that all runs share."""
    watch, room = Watch(), SharedTries(40)

    async def run_light(attempt: one_try.Try, care: one_try.Care) -> dict[str, Any]:
        async with watch.one(attempt.facts.id):
            await asyncio.sleep(0.002)
        care.keep({})
        return {}

    monkeypatch.setattr(one_try, "run_light_try", run_light)

    async def run(name: str) -> Any:
        zones = Zones.local(tmp_path / name)
        told = RunFacts(id=name, request_id="request", received_at=datetime(2026, 1, 1, tzinfo=UTC), attempt=1)
        line = AttemptClient(cast("httpx.AsyncClient", None), UUID(int=1), "token")
        run_context = RunContext(told, "light", zones, line, Ledger(zones.runs, f"{name}/m1", "a"), places=Places(room))
        return await Runner(run_context, Schedule(WIDE), Stop(), visible=False).run_plan()

    verdicts = await asyncio.gather(*(run(name) for name in "abc"))
    assert all(isinstance(verdict, Finished) for verdict in verdicts)
    assert watch.done == {"a": 300, "b": 300, "c": 300}
    assert max(watch.peak.values()) == TRIES_PER_RUN
    assert watch.most <= 40 + 3


async def test_runs_of_one_process_share_their_places() -> None:
    assert shared_room(7) is shared_room(8)
