"""What a parent costs while it waits for its child run, counted, and by what it is woken. No clock decides."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import httpx
import pytest
from azure.core.pipeline.transport import RequestsTransport
from prefect.client.schemas.objects import State as PrefectState
from prefect.client.schemas.objects import StateType

from domain.contracts.runs import RunFacts
from flows.memory.ledger import Ledger
from flows.runs import domain_client
from flows.runs.child_flow_runs import liveness, prefect_states, start
from flows.runs.child_flow_runs.prefect_states import ASK_SECONDS, ChildStates
from flows.runs.child_flow_runs.protocol import segment_name, sign_of_life
from flows.runs.child_flow_runs.start import SegmentRuns
from flows.runs.child_flow_runs.wants import ChildWants
from flows.runs.domain_client import AttemptClient
from flows.runs.pool_wait import PoolWait
from flows.runs.run_context import PlanPath, RunContext
from flows.runs.stopping import Stop
from flows.storage import LocalStore, Store, Zones
from tests.support.azurite import Azurite
from tests.support.jumping import JumpingLoop
from tests.support.many_flow_runs import ManyFlowRuns

HEARTBEAT_SECONDS = 10.0
QUEUED, AT_WORK = StateType.SCHEDULED, StateType.RUNNING
OUTCOME = json.dumps({"nodes": {}, "artifacts": []}).encode()


@dataclass(frozen=True)
class Counted(LocalStore):
    """A folder that counts what it is asked."""

    calls: Counter[str] = field(default_factory=Counter, compare=False)

    def size_bytes(self, name: str) -> int | None:
        self.calls["storage"] += 1
        return super().size_bytes(name)

    def read_bytes(self, name: str) -> bytes:
        self.calls["storage"] += 1
        return super().read_bytes(name)


@dataclass
class Prefect(ManyFlowRuns):
    """A stand-in whose child runs all stand alike."""

    state: StateType = QUEUED
    made: int = 0

    async def read_deployment_by_name(self, name: str) -> Any:
        return SimpleNamespace(id=UUID(int=0))

    async def create_flow_run_from_deployment(self, _deployment: UUID, **_named: Any) -> Any:
        self.made += 1
        return SimpleNamespace(id=UUID(int=self.made))

    def state_of(self, flow_run_id: UUID) -> PrefectState[Any] | None:
        return PrefectState(type=self.state)

    async def read_flow_run(self, flow_run_id: UUID) -> Any:
        """As one asks who waits for a single one."""
        self.asked += 1
        return SimpleNamespace(state=self.state_of(flow_run_id))


@dataclass
class Domain:
    """A stand-in that holds heartbeats as the domain does, until they are due or there is news."""

    beats: int = 0
    _news: Counter[str] = field(default_factory=Counter)
    _told: dict[str, asyncio.Event] = field(default_factory=dict)

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        self.beats += 1
        message, run_id = json.loads(request.content), request.url.path.split("/")[-2]
        told = self._told.setdefault(run_id, asyncio.Event())
        if self._news[run_id] <= message.get("seen", 0):
            with suppress(TimeoutError):
                async with asyncio.timeout(message.get("wait_seconds", 0)):
                    await told.wait()
        return httpx.Response(200, json={"stop": False, "news": self._news[run_id]})

    def tell(self, run_id: UUID) -> None:
        """Something of a child run of this one."""
        self._news[str(run_id)] += 1
        self._told.pop(str(run_id), asyncio.Event()).set()


@dataclass
class House:
    """Parents that wait, each for one child run, and all that they ask."""

    store: Store
    calls: Counter[str]
    domain: Domain = field(default_factory=Domain)
    prefect: Prefect = field(default_factory=Prefect)
    states: ChildStates = field(default_factory=ChildStates)

    def asked(self) -> Counter[str]:
        """How often each of the three was asked so far."""
        return Counter(self.calls) + Counter(prefect=self.prefect.asked, domain=self.domain.beats)

    async def minute(self, seconds: float = 60.0) -> Counter[str]:
        """What is asked in a minute."""
        before = self.asked()
        await asyncio.sleep(seconds)
        return self.asked() - before

    def place(self, number: int) -> str:
        return segment_name(facts(number), 1)

    def show(self, number: int, beat: int = 1) -> None:
        """The child shows that it lives."""
        sign = json.dumps({"beat": beat, "done": 0, "failed": 0}).encode()
        self.store.write_bytes(sign_of_life(self.place(number)), sign)

    @asynccontextmanager
    async def waiting(self, number: int) -> AsyncIterator[Awaitable[Any]]:
        """A parent of this number that waits as long as the block runs; awaited, what it was told in the end."""
        transport = httpx.MockTransport(cast("Any", self.domain))
        async with (
            httpx.AsyncClient(base_url="http://domain.test", transport=transport) as http,
            AsyncExitStack() as end,
        ):
            line = AttemptClient(http, UUID(int=number), "token")
            zones = Zones(self.store, self.store, self.store, self.store)
            run_context = RunContext(facts(number), "light", zones, line, Ledger(self.store, "run/m1", "a"))
            segments = SegmentRuns(cast("Any", self.prefect), run_context, 60.0, states=self.states)
            await end.enter_async_context(line.beating(HEARTBEAT_SECONDS))
            waits = segments.run_stretch(
                ChildWants("gdal"), PlanPath(), ["n"], {}, None, Stop(), PoolWait(nobody_hears, lambda: None)
            )
            task = asyncio.ensure_future(waits)
            yield task
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def nobody_hears(_again: bool) -> None:
    """Nobody is told that it waits."""


def facts(number: int) -> RunFacts:
    return RunFacts(id=f"run-{number}", request_id="request", received_at=datetime(2026, 1, 1, tzinfo=UTC), attempt=1)


Live = Callable[[Callable[[House], Awaitable[Any]]], Any]


@pytest.fixture(params=["folder", "account"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def live(kind: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Live:
    """Runs a story in a loop whose clock jumps, over a folder or a real account whose requests are counted."""
    calls: Counter[str] = Counter()
    if kind == "folder":
        store: Store = Counted(tmp_path, calls)
    else:
        azurite: Azurite = request.getfixturevalue("azurite")
        store = azurite.zones(f"w{abs(hash(tmp_path)) % 10**8}-").runs
        sent = RequestsTransport.send

        def send(self: Any, *given: Any, **named: Any) -> Any:
            calls["storage"] += 1
            return sent(self, *given, **named)

        monkeypatch.setattr(RequestsTransport, "send", send)

    async def inline(call: Callable[..., Any], *given: Any, **named: Any) -> Any:
        return call(*given, **named)

    monkeypatch.setattr(start, "in_sign_thread", inline)
    monkeypatch.setattr(start, "in_storage_thread", inline)

    def live(story: Callable[[House], Awaitable[Any]]) -> Any:
        async def lived() -> Any:
            loop = asyncio.get_running_loop()
            for module in (liveness, prefect_states, start, domain_client):
                monkeypatch.setattr(module, "time", loop)
            return await story(House(store, calls, states=ChildStates(asked_at=loop.time())))

        return JumpingLoop.run(lived())

    return live


def test_parents_waiting_for_a_pool_cost_a_bounded_number_of_calls(live: Live, kind: str) -> None:
    """Hundreds of them wait in one worker, beside what is urgent: none of them may cost much, all of them nothing more.

    Four looks of two questions each at storage a minute, six heartbeats, and for all of them one question to Prefect
    every five seconds.
    """
    parents = 20 if kind == "folder" else 3

    async def story(house: House) -> Counter[str]:
        async with AsyncExitStack() as waiting:
            for number in range(parents):
                await waiting.enter_async_context(house.waiting(number))
            await asyncio.sleep(60)
            return await house.minute()

    asked = live(story)
    assert asked["prefect"] <= 60 / ASK_SECONDS + 1
    assert asked["storage"] <= 10 * parents
    assert asked["domain"] <= 7 * parents


def test_parents_of_working_children_cost_a_bounded_number_of_calls(live: Live, kind: str) -> None:
    """A child rewrites its sign every two seconds; its parent asks twice every five."""
    parents = 4 if kind == "folder" else 2

    async def story(house: House) -> Counter[str]:
        house.prefect.state = AT_WORK
        for number in range(parents):
            house.show(number)
        async with AsyncExitStack() as waiting:
            for number in range(parents):
                await waiting.enter_async_context(house.waiting(number))
            total: Counter[str] = Counter()
            for beat in range(30):
                for number in range(parents):
                    house.show(number, beat)
                told = await house.minute(seconds=3)
                total += told if beat >= 10 else Counter()
            return total

    asked = live(story)
    assert asked["storage"] <= 26 * parents
    assert asked["prefect"] <= 2 * (60 / ASK_SECONDS + 1)
    assert asked["domain"] <= 7 * parents


@pytest.mark.parametrize("kind", ["folder"])
def test_news_from_the_domain_wake_a_waiting_parent(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would look by itself in an hour."""
    for name in ("LONGEST_LOOK_SECONDS", "QUEUED_LOOK_SECONDS"):
        monkeypatch.setattr(liveness, name, 3600.0)
    monkeypatch.setattr(liveness, "LOOKS_A_SILENCE", 1e-9)

    async def story(house: House) -> float:
        async with house.waiting(1) as ended:
            await asyncio.sleep(900)
            house.show(1)
            house.store.write_bytes(f"{house.place(1)}/outcome.json", OUTCOME)
            began = asyncio.get_running_loop().time()
            house.domain.tell(UUID(int=1))
            assert await ended == {}
            return asyncio.get_running_loop().time() - began

    assert live(story) < 1


@pytest.mark.parametrize("kind", ["folder"])
def test_parent_without_news_looks_at_storage_by_itself(live: Live) -> None:
    """The domain may be away just then, or of an older release."""

    async def story(house: House) -> float:
        house.prefect.state = AT_WORK
        async with house.waiting(1) as ended:
            for beat in range(100):
                house.show(1, beat)
                await asyncio.sleep(2)
            house.store.write_bytes(f"{house.place(1)}/outcome.json", OUTCOME)
            began = asyncio.get_running_loop().time()
            assert await ended == {}
            return asyncio.get_running_loop().time() - began

    assert live(story) < liveness.LONGEST_LOOK_SECONDS + 0.1


@pytest.mark.parametrize("kind", ["folder"])
def test_one_answer_of_prefect_serves_all_waiting_parents(live: Live) -> None:
    """One of them asks, for all: who only uses the answer must not wait for a turn to ask."""

    async def story(house: House) -> list[Any]:
        async with AsyncExitStack() as waiting:
            tasks = [await waiting.enter_async_context(house.waiting(number)) for number in range(5)]
            await asyncio.sleep(20)
            house.prefect.state = StateType.CANCELLED
            await asyncio.sleep(ASK_SECONDS + 0.1)
            return [type(cast("Any", task).exception()).__name__ for task in tasks]

    assert live(story) == ["ChildCancelled"] * 5
