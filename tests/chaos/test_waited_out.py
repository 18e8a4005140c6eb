"""Outages of Prefect, of run storage and of a release: nothing healthy is fenced, no run parked, tries are counted.

CAIRN_OUTAGE_RUNS is how many runs each of them meets, CAIRN_OUTAGE_FACTOR what times are divided by; n is printed.
"""

import asyncio
import errno
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from prefect.settings import PREFECT_API_URL, PREFECT_CLIENT_CSRF_SUPPORT_ENABLED, temporary_settings
from pydantic import BaseModel

from domain.adapters import prefect_runs
from domain.adapters.prefect_runs import PrefectRuns
from domain.loops.reconciler import Reconciler
from domain.loops.relay import Relay
from domain.loops.unserved_pools import UnservedPoolSweep
from domain.shared.database_address import DatabaseAddress
from flows.compiler import Finished, Schedule
from flows.handlers import registry
from flows.handlers.context import Context
from flows.handlers.registry import handler
from flows.memory.ledger import Ledger
from flows.runs import domain_client, node_executor, outages
from flows.runs.domain_client import AttemptClient
from flows.runs.run_context import PlanPath
from flows.runs.runner import Runner
from flows.runs.stopping import Stop
from flows.storage import LocalStore, Zones
from flows.tries.time_budget import Outlasting
from tests.domain.test_rests import MISSING, beacon, handlers
from tests.flows.compiler.support import plan_of
from tests.flows.runs.test_runner import run_context_in
from tests.support.acts import OUTPUTS, dispatched, submit, time_passes
from tests.support.clock import eventually
from tests.support.cluster import TestDatabase
from tests.support.outage_table import Row, note
from tests.support.platform import Domain, running_domain
from tests.support.prefect_standin import standing_in

pytestmark = pytest.mark.chaos
RUNS = int(os.environ.get("CAIRN_OUTAGE_RUNS", "6"))
FACTOR = float(os.environ.get("CAIRN_OUTAGE_FACTOR", "90"))
PREFECT_MINUTES = (3, 40) if "CAIRN_OUTAGE_RUNS" in os.environ else (3,)
WAIT_SECONDS = 120.0
ANSWER_SECONDS = 2.0  # nor does a busy machine answer in the time that the factor would leave
LOST_SECONDS = 6.0  # by the factor a busy machine would be silent for as long
HEARTBEAT_SECONDS = 0.5  # by the factor it would be so often that the machine does nothing else
SCALED = f"(factor {FACTOR:g})"
COUNTS = "select r.state, r.reason, a.state, a.number from app.runs r join app.attempts a using (run_id)"


@asynccontextmanager
async def scaled_domain(database: TestDatabase, folder: Path) -> AsyncIterator[Domain]:
    short = {
        "attempt_lost_seconds": LOST_SECONDS,
        "heartbeat_seconds": HEARTBEAT_SECONDS,
        "attempt_pause_seconds": 10 / FACTOR,
    }
    async with running_domain(database, folder, **short) as running:
        yield running


# --- Prefect ---


@pytest.mark.parametrize("minutes", PREFECT_MINUTES)
async def test_prefect_without_answers_costs_no_attempt(
    shared_database: TestDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, minutes: float
) -> None:
    """Half of the runs are at work when it begins, half are waiting to be sent: those end, these are sent after it."""
    monkeypatch.setattr(prefect_runs, "ANSWER_SECONDS", ANSWER_SECONDS)
    monkeypatch.setattr(prefect_runs, "REST_SECONDS", ANSWER_SECONDS / 4)
    monkeypatch.setattr(domain_client, "SEND_EVENTS_SECONDS", 0.05)
    async with AsyncExitStack() as stack:
        domain = await stack.enter_async_context(scaled_domain(shared_database, tmp_path))
        standin = await stack.enter_async_context(standing_in())
        stack.enter_context(
            temporary_settings({PREFECT_API_URL: standin.url, PREFECT_CLIENT_CSRF_SUPPORT_ENABLED: False})
        )
        prefect = await stack.enter_async_context(PrefectRuns())
        working = await _at_work(domain, RUNS // 2, stack)
        waiting = RUNS - len(working)
        standin.reachable.clear()
        loops = [asyncio.create_task(one) for one in _loops(domain, prefect)]
        for number in range(waiting):
            await submit(domain, refs={"dataset_id": "waits", "resource_id": str(number)})
        await asyncio.sleep(60 * minutes / FACTOR)
        assert {one.done() for one in loops} == {False}
        await asyncio.gather(*(line.commit(OUTPUTS, []) for line in working))
        standin.reachable.set()
        await eventually(lambda: len(standin.by_key) == waiting, WAIT_SECONDS)
        await eventually(lambda: _counted(domain)["sent"] == waiting, WAIT_SECONDS)
        for task in loops:
            task.cancel()
        await asyncio.gather(*loops, return_exceptions=True)
        counts = _counted(domain)
    again = sum(counts.values()) - RUNS
    note(Row(f"Prefect black-holed for {minutes} min, relay and sweep {SCALED}", RUNS, counts["fenced"], 0, again))
    assert counts == {"committed": len(working), "sent": waiting}, "one attempt each, none of them fenced"


async def _at_work(domain: Domain, count: int, stack: AsyncExitStack) -> list[AttemptClient]:
    """Attempts whose flow runs beat, by the real line."""
    for number in range(count):
        await submit(domain, refs={"dataset_id": "works", "resource_id": str(number)})
    headers = {"Authorization": "Bearer secret-worker"}
    http = httpx.AsyncClient(transport=domain.transport, base_url="http://domain", headers=headers)
    lines = []
    for flow in await dispatched(domain):
        assert (await flow.start()).is_success
        lines.append(AttemptClient(http, flow.run_id, flow.token))
        await stack.enter_async_context(lines[-1].beating(HEARTBEAT_SECONDS))
    return lines


def _loops(domain: Domain, prefect: PrefectRuns) -> Iterator[Any]:
    database, patience = domain.service.database, domain.service.settings.patience()
    yield Reconciler(database, prefect, 0.2, patience, 3).run()
    yield Relay(database, DatabaseAddress(domain.database.url("cairn_app")), 0.2, retry_seconds=0.1).run()
    yield UnservedPoolSweep(database, 0.2, 25 / FACTOR, 1e6, prefect.online_workers).run()


def _counted(domain: Domain) -> "Counter[str]":
    return Counter(state for _, _, state, _ in domain.rows(COUNTS))


# --- a release ---


async def test_minute_with_old_workers_only_parks_no_run(shared_database: TestDatabase, tmp_path: Path) -> None:
    """Three workers of the release before refuse all that is new; then one of the new release comes."""
    async with scaled_domain(shared_database, tmp_path) as domain:
        time_passes(domain, 60)
        for number in range(RUNS):
            await submit(domain, refs={"dataset_id": "d", "resource_id": str(number)})
        router, refused = UnservedPoolSweep(domain.service.database, 1, 25, 600), Counter[object]()
        until = time.monotonic() + WAIT_SECONDS
        while len(refused) < RUNS and time.monotonic() < until:
            await _take_all(domain, router, refused)
        over_at = time.monotonic() + 60 / FACTOR
        while time.monotonic() < over_at:
            await _take_all(domain, router, refused)
        while _counted(domain)["committed"] < RUNS and time.monotonic() < until:
            await beacon(domain, "new", "light", "gdal", handlers=handlers())
            await _take_all(domain, router, None)
        found = domain.rows("select state, reason, count(*) from app.runs group by 1, 2")
        fenced = _counted(domain)["fenced"]
    parked = RUNS - sum(count for state, _, count in found if state == "completed")
    note(Row(f"only old workers for 60 s {SCALED}", RUNS, fenced, parked, sum(refused.values()) - RUNS))
    assert found == [("completed", None, RUNS)], "none is parked, none still waits"
    assert max(refused.values()) == 1, "no run was sent to workers that said that they lack its handlers"


async def _take_all(domain: Domain, router: UnservedPoolSweep, refused: "Counter[object] | None") -> None:
    """Three old workers say that they are there; what is sent is refused, or done where one of the new release is."""
    for worker in range(3):
        await beacon(domain, f"old-{worker}", "light", "gdal", handlers=handlers("raster.validate"))
    await router.look()
    for flow in await dispatched(domain):
        assert (await flow.start()).is_success
        if refused is None:
            assert (await flow.commit()).is_success
        else:
            refused[flow.run_id] += 1
            assert (await flow.fail("lost", **MISSING)).is_success


# --- storage ---


@dataclass
class Weather:
    fails: bool = False
    slow_seconds: float = 0.0
    failed: int = 0

    def blow(self) -> None:
        time.sleep(self.slow_seconds)
        if self.fails:
            self.failed += 1
            raise OSError(errno.EIO, "Input/output error")


@dataclass(frozen=True)
class Brown(LocalStore):
    """A store that fails, or takes its time, while it is told to."""

    weather: Weather = field(default_factory=Weather)

    def __getattribute__(self, name: str) -> Any:
        if name in {"read_bytes", "write_bytes", "append", "size_bytes", "names"}:
            object.__getattribute__(self, "weather").blow()
        return super().__getattribute__(name)


class Kept(BaseModel):
    text: str = ""


NAME = "test.keeps"
PLAN = "".join(
    [
        "  start: {type: start, next: a}\n",
        *(
            f"  {node}: {{handler: {NAME}, retry: {{max_attempts: 0}}, next: {following}}}\n"
            for node, following in (("a", "b"), ("b", "c"), ("c", "end"))
        ),
        "  end: {type: end}\n",
    ]
)


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> Iterator["Counter[str]"]:
    """How often the handler of these tests was begun; it reads, works for a moment, and writes."""
    counted: Counter[str] = Counter()

    @handler(NAME, pool="light", example=Kept())
    def keep(params: Kept, context: Context) -> Kept:
        counted[context.node_id] += 1
        context.storage.silver.size_bytes("a/b")
        time.sleep(10 / FACTOR)
        context.storage.silver.write_bytes(f"a/{context.node_id}", b"made")
        return Kept(text="x" * 20_000)

    @dataclass
    class Scaled(Outlasting):
        def pause(self, now: float, spread: float) -> float | None:
            pause = super().pause(now, spread)
            return pause and pause / FACTOR

    for module in (node_executor, outages):
        monkeypatch.setattr(module, "Outlasting", Scaled)
    registry.registry.cache_clear()
    yield counted
    registry._declared.pop(NAME)
    registry.registry.cache_clear()


@pytest.mark.parametrize(("how", "seconds"), [("failing", 90), ("slow", 60)])
async def test_run_storage_outage_fails_no_node(
    tmp_path: Path, begun: "Counter[str]", how: str, seconds: float
) -> None:
    """No node may be tried twice. What had been done when it began is not done again, but what was under way is."""
    weather = Weather()

    async def blow() -> None:
        await asyncio.sleep(15 / FACTOR)
        weather.fails, weather.slow_seconds = how == "failing", 0 if how == "failing" else seconds / FACTOR
        await asyncio.sleep(seconds / FACTOR)
        weather.fails, weather.slow_seconds = False, 0

    async def run(number: int) -> object:
        root = tmp_path / str(number)
        run_context = run_context_in(root)
        run_context.zones = Zones(*(Brown(root / zone, weather) for zone in ("bronze", "silver", "external", "runs")))
        run_context.ledger = Ledger(run_context.runs(Stop()), "run/m1", "a")
        with closing(run_context):
            schedule = Schedule(plan_of(PLAN), {}, run_context.schedule_facts)
            return await Runner(run_context, schedule, Stop(), PlanPath("outer."), visible=False).run_plan()

    *verdicts, _ = await asyncio.gather(*(run(number) for number in range(RUNS)), blow())
    failed = sum(not isinstance(verdict, Finished) for verdict in verdicts)
    note(Row(f"run storage {how} for {seconds} s, {weather.failed} calls met it {SCALED}", 3 * RUNS, 0, failed, failed))
    assert {type(verdict) for verdict in verdicts} == {Finished}
    assert (weather.failed > 0) == (how == "failing"), "the outage was met"
    if how == "slow":
        assert sum(begun.values()) == 3 * RUNS, "slow is not away"
