"""Who holds a slot of a limited tag, and how often Prefect is asked for one: against a stand-in for its server."""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager, closing, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest

from flows.compiler import Failed, Schedule
from flows.prefect_engine import tag_slots
from flows.prefect_engine.tag_limits import TagLimits
from flows.prefect_engine.tag_slots import slots, slots_held
from flows.runs.run_context import PlanPath
from flows.runs.runner import Runner
from flows.runs.stopping import Stop
from flows.tries.time_budget import grace_seconds
from tests.flows.compiler.support import plan_of
from tests.flows.runs.test_runner import run_context_in
from tests.support.clock import eventually

TAGS = frozenset({"light", "echo"})
LIMITED = TagLimits(frozenset({"echo"}), known_until=float("inf"))


@dataclass
class Server:
    """Grants so many slots at once, and counts who asks at the same time."""

    limit: int = 1
    faults: int = 0
    granted: set[UUID] = field(default_factory=set)
    asking: int = 0
    most_asking: int = 0
    asked: list[str] = field(default_factory=list)

    async def increment_concurrency_slots_with_lease(self, *, names: list[str], **_: Any) -> httpx.Response:
        self.asked += names
        if self.faults:
            self.faults -= 1
            raise httpx.ConnectError("away")
        if len(self.granted) >= self.limit:
            answer = httpx.Response(423, request=httpx.Request("POST", "http://prefect"))
            raise httpx.HTTPStatusError("locked", request=answer.request, response=answer)
        self.granted.add(lease := uuid4())
        limit = {"id": str(uuid4()), "name": names[0], "limit": self.limit}
        return httpx.Response(200, json={"lease_id": str(lease), "limits": [limit]})

    async def release_concurrency_slots_with_lease(self, lease: UUID) -> None:
        self.granted.discard(lease)

    @asynccontextmanager
    async def client(self, **_: Any) -> AsyncIterator["Server"]:
        """One client for each who asks or holds."""
        self.asking += 1
        self.most_asking = max(self.most_asking, self.asking)
        try:
            yield self
        finally:
            self.asking -= 1


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    server = Server()
    monkeypatch.setattr(tag_slots, "get_client", server.client)
    monkeypatch.setattr(tag_slots, "amaintain_concurrency_lease", lambda *_: nullcontext())
    monkeypatch.setattr(tag_slots, "ASK_SECONDS", (0.001, 0.002))
    monkeypatch.setattr(tag_slots, "AWAY_SECONDS", 0.001)
    yield server
    assert server.granted == set()
    assert tag_slots._lines == {}


async def at_work_together(count: int) -> int:
    """How many of so many pieces of work are at work at once."""
    at_work, most = 0, 0

    async def work() -> None:
        nonlocal at_work, most
        async with slots(TAGS, LIMITED):
            at_work += 1
            most = max(most, at_work)
            await asyncio.sleep(0.001)
            at_work -= 1

    await asyncio.gather(*(work() for _ in range(count)))
    return most


@pytest.mark.parametrize("limit", [1, 3])
async def test_as_many_are_at_work_as_there_are_slots(server: Server, limit: int) -> None:
    server.limit = limit
    assert await at_work_together(60) == limit


async def test_slot_goes_from_one_to_the_next_without_another_question(server: Server) -> None:
    await at_work_together(60)
    assert set(server.asked) == {"tag:echo"}  # the other one is not limited
    assert len(server.granted) == 0


async def test_slots_that_are_given_back_again_and_again_leave_one_who_asks(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tag_slots, "LENT_SECONDS", 0.0001)
    await at_work_together(200)
    assert server.most_asking <= 3  # one holds a slot, one gives its own back, one asks


async def test_work_inside_what_holds_its_slots_asks_for_none(server: Server) -> None:
    with slots_held(TAGS):
        assert await at_work_together(5) == 5
    assert server.asked == []


async def test_work_that_stops_waiting_leaves_its_turn_to_the_next(server: Server) -> None:
    async with slots(TAGS, LIMITED):
        gives_up, waits = (asyncio.create_task(at_work_together(1)) for _ in range(2))
        await asyncio.sleep(0.01)
        gives_up.cancel()
    assert await asyncio.wait_for(waits, 10) == 1


async def test_outage_of_prefect_is_waited_out(server: Server) -> None:
    server.faults = 3
    assert await at_work_together(2) == 1


async def test_work_that_waits_for_a_slot_leaves_when_its_run_stops(tmp_path: Path) -> None:
    @asynccontextmanager
    async def no_slot(tags: Collection[str]) -> AsyncIterator[None]:
        asked.append(tags)
        await asyncio.Event().wait()
        yield

    asked, stop = list[Collection[str]](), Stop()
    plan = plan_of("  start: {type: start, next: one}\n  one: {handler: echo, next: end}\n  end: {type: end}\n")
    with closing(replace(run_context_in(tmp_path), slots=no_slot)) as run_context:
        runner = Runner(run_context, Schedule(plan, {}), stop, PlanPath("outer."), visible=False)
        running = asyncio.create_task(runner.run_plan())
        await eventually(lambda: asked == [TAGS])
        stop.set("cancelled")
        assert isinstance(await asyncio.wait_for(running, grace_seconds("cancelled")), Failed)
