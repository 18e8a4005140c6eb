"""PostgreSQL is away for one and a half loss thresholds: of attempts that live none is fenced, of the dead every one.

It is stopped, and later frozen with all connections open. Fleets of 1, 2 and 4 processes of the domain, each with its
own connections and sweep, share the outages. The flow runs' line to the domain is the real one, over a balancer;
only Prefect is scripted, and says of every flow run that it is running. n is printed.
"""

import asyncio
import itertools
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from domain.reconcile import Reconciler
from domain.rules.reconcile import FlowState
from flows import reporting
from flows.reporting import Line
from tests.domain.test_reconcile import ScriptedPrefect
from tests.support.acts import OUTPUTS, Flow, dispatched, submit
from tests.support.cluster import TestDatabase, TestServer, running_cluster
from tests.support.platform import Domain, add_clients, another_domain

pytestmark = pytest.mark.chaos
REPOSITORY = Path(__file__).parents[2]
LOST_SECONDS = 3.0
FACTOR = 90.0 / LOST_SECONDS
HEARTBEAT_SECONDS = 0.9  # by the factor it would be so often that the machine does nothing else
SWEEP_SECONDS = 0.5
OUTAGE_SECONDS = 1.5 * LOST_SECONDS
FLEETS = (1, 2, 4)
LIVING, DYING = 6, 2  # the latter in each outage
WAIT_SECONDS = 90.0
FENCED_AFTER = """
    select run_id, extract(epoch from finished_at - (
        select min(since) from app.listening_spans where since > a.heartbeat_at))::float
    from app.attempts a where state = 'fenced' order by 2
"""


@dataclass
class Balanced(httpx.AsyncBaseTransport):
    """Sends each request to the next process."""

    behind: Iterator[httpx.AsyncBaseTransport]

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return await next(self.behind).handle_async_request(request)


@dataclass
class Fleet:
    """Processes of the domain over one database, and flow runs that beat until they die or have handed in."""

    domains: list[Domain]
    flows: list[Flow] = field(default_factory=list)
    done: asyncio.Event = field(default_factory=asyncio.Event)
    lives: list[asyncio.Task[None]] = field(default_factory=list)
    sweeps: list[asyncio.Task[None]] = field(default_factory=list)
    dead: set[object] = field(default_factory=set)

    async def begin(self) -> None:
        for number in range(LIVING + 2 * DYING):
            await submit(self.domains[0], refs={"dataset_id": "d", "resource_id": str(number)})
        self.flows = await dispatched(self.domains[0])
        balanced = Balanced(itertools.cycle([domain.transport for domain in self.domains]))
        headers = {"Authorization": "Bearer secret-worker"}
        http = httpx.AsyncClient(transport=balanced, base_url="http://domain", headers=headers)
        for flow in self.flows:
            assert (await flow.start()).is_success
            self.lives.append(asyncio.create_task(self._live(Line(http, flow.run_id, flow.token))))
        prefect = ScriptedPrefect({flow.flow_run_id: FlowState.RUNNING for flow in self.flows})
        for one in self.domains:
            sweep = Reconciler(one.service.database, prefect, SWEEP_SECONDS, one.service.settings.patience(), 3)
            self.sweeps.append(asyncio.create_task(sweep.run()))

    async def _live(self, line: Line) -> None:
        async with line.beating(HEARTBEAT_SECONDS):
            await self.done.wait()
            await line.commit(OUTPUTS, [])

    def some_die(self) -> None:
        for number in range(LIVING + len(self.dead), LIVING + len(self.dead) + DYING):
            self.lives[number].cancel()
            self.dead.add(self.flows[number].run_id)

    async def fenced_after(self) -> dict[object, float]:
        """Which are fenced, and by the database's clock how long after it could be heard again. Once the dead are."""
        async with asyncio.timeout(WAIT_SECONDS):
            while True:
                found = dict(await asyncio.to_thread(self.domains[0].rows, FENCED_AFTER))
                if self.dead <= set(found):
                    return found
                await asyncio.sleep(0.1)

    async def end(self) -> None:
        for task in (*self.lives, *self.sweeps):
            task.cancel()
        await asyncio.gather(*self.lives, *self.sweeps, return_exceptions=True)


@asynccontextmanager
async def fleet(database: TestDatabase, folder: Path, size: int) -> AsyncIterator[Fleet]:
    add_clients(database)
    short = {"attempt_lost_seconds": LOST_SECONDS, "heartbeat_seconds": HEARTBEAT_SECONDS, "pool_size": 5}
    async with AsyncExitStack() as stack:
        made = Fleet([await stack.enter_async_context(another_domain(database, folder, **short)) for _ in range(size)])
        try:
            await made.begin()
            yield made
        finally:
            await made.end()


@pytest.fixture(autouse=True)
def scaled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Delays of flow runs by the same factor."""
    for name in ("FIRST_DELAY_SECONDS", "LONGEST_DELAY_SECONDS", "SEND_EVENTS_SECONDS"):
        monkeypatch.setattr(reporting, name, getattr(reporting, name) / FACTOR)


async def test_an_outage_of_the_database_fences_the_dead_and_nobody_else(tmp_path: Path) -> None:
    """Those that live are done in the second outage, and hand in what they made once it is over."""
    with running_cluster() as cluster, ExitStack() as databases:
        async with AsyncExitStack() as stack:
            fleets = [
                await stack.enter_async_context(fleet(databases.enter_context(cluster.database()), tmp_path, size))
                for size in FLEETS
            ]
            server = cluster.server
            for how in ("stopped", "frozen"):
                await away(server, how, fleets)
                for one in fleets:
                    tell(how, one, await one.fenced_after())
            for one in fleets:
                await asyncio.wait_for(asyncio.gather(*one.lives[:LIVING]), WAIT_SECONDS)
                ended = one.domains[0].rows("select state, count(*) from app.attempts where number = 1 group by 1")
                assert dict(ended) == {"committed": LIVING, "fenced": 2 * DYING}


def test_dropped_packets_fence_nobody_and_readiness_tells(tmp_path: Path) -> None:
    """No reset and no refusal: whatever is sent to the database is gone, in a network of its own."""
    command = ["unshare", "--net", sys.executable, "-m", "tests.support.dropped_packets", str(tmp_path)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    print(f"\ndropped for {OUTAGE_SECONDS} s, 1 process, n = {told['n']}: {told}")  # noqa: T201
    assert (told["before"], told["during"]) == (200, 503)
    assert told["attempts"] == {"committed": told["n"]}


async def away(server: TestServer, how: str, fleets: list[Fleet]) -> None:
    stopped = how == "stopped"
    await asyncio.to_thread(server.crash if stopped else server.freeze)
    try:
        for one in fleets:
            one.some_die()
            if not stopped:
                one.done.set()
        await asyncio.sleep(OUTAGE_SECONDS)
    finally:
        await asyncio.to_thread(server.start if stopped else server.thaw)


def tell(how: str, one: Fleet, fenced: dict[object, float]) -> None:
    living = set(fenced) - one.dead
    latest = max(fenced.values())
    print(  # noqa: T201
        f"\n{how} for {OUTAGE_SECONDS} s, {len(one.domains)} processes: fenced {len(living)} of {LIVING} that live and"
        f" {len(fenced)} of {len(one.dead)} dead, the last of them {latest:.1f} s after it"
        f" (loss threshold 90 s -> {LOST_SECONDS} s, factor {FACTOR:.0f})"
    )
    assert not living
    assert min(fenced.values()) >= LOST_SECONDS, "each had a whole threshold of its own"
