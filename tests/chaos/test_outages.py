"""PostgreSQL is away for one and a half loss thresholds: of attempts that live none is fenced, of the dead every one.

It is stopped, and later frozen with all connections open; in the long form then only the processes of those who are
connected are, which keep the locks that attempts need, and clients submit all the while. Fleets of 1, 2 and 4 processes
of the domain, each with its own connections and sweep, share the outages. The flow runs' line to the domain is the real
one, over a balancer; only Prefect is scripted, and says of every flow run that it is running. n is printed.
"""

import asyncio
import itertools
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psycopg
import pytest

from domain.loops.reconciler import Reconciler
from domain.rules.reconcile import FlowState
from domain.shared.together import together
from flows.runs import domain_client
from flows.runs.domain_client import AttemptClient
from tests.support.acts import OUTPUTS, Flow, dispatched, submit
from tests.support.cluster import TestDatabase, TestServer, running_cluster
from tests.support.outage_table import Row, note
from tests.support.platform import Domain, add_clients, another_domain
from tests.support.scripted_prefect import ScriptedPrefect

pytestmark = pytest.mark.chaos
REPOSITORY = Path(__file__).parents[2]
LOST_SECONDS = 3.0
FACTOR = 90.0 / LOST_SECONDS
HEARTBEAT_SECONDS = 0.9  # by the factor it would be so often that the machine does nothing else
SWEEP_SECONDS = 0.5
OUTAGE_SECONDS = 1.5 * LOST_SECONDS
FLEETS = (1, 2, 4)
FULL = "CAIRN_OUTAGE_RUNS" in os.environ
LIVING, DYING = (12 if FULL else 6), 2  # the latter in each outage
WAIT_SECONDS = 90.0
LOAD_SECONDS = 0.3  # between two submissions of one client
FENCED_AFTER = """
    select run_id, extract(epoch from finished_at - coalesce(
        (select min(since) from app.listening_spans where since > a.heartbeat_at), heartbeat_at))::float
    from app.attempts a where state = 'fenced' order by 2
"""
ENDED = "select state, count(*) from app.attempts where run_id = any(%s) and number = 1 group by 1"
PARKED = "select count(*) from app.runs where run_id = any(%s) and reason = 'parked'"
AGAIN = "select count(*) from app.attempts where run_id = any(%s) and number > 1"
Act = Callable[[TestServer], None]
HOWS: dict[str, tuple[Act, Act]] = {
    "stopped": (TestServer.crash, TestServer.start),
    "frozen": (TestServer.freeze, TestServer.thaw),
}
if FULL:
    HOWS["sessions frozen"] = (TestServer.freeze_sessions, TestServer.thaw)
TELLS = ("stopped", "frozen")  # where whoever connects anew is let in, a service may go on


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
    submitted: Counter[int] = field(default_factory=Counter)  # by how it was answered

    async def begin(self) -> None:
        for number in range(LIVING + len(HOWS) * DYING):
            await submit(self.domains[0], refs={"dataset_id": "d", "resource_id": str(number)})
        self.flows = await dispatched(self.domains[0])
        balanced = Balanced(itertools.cycle([domain.transport for domain in self.domains]))
        headers = {"Authorization": "Bearer secret-worker"}
        http = httpx.AsyncClient(transport=balanced, base_url="http://domain", headers=headers)
        for flow in self.flows:
            assert (await flow.start()).is_success
            self.lives.append(asyncio.create_task(self._live(AttemptClient(http, flow.run_id, flow.token))))
        prefect = ScriptedPrefect({flow.flow_run_id: FlowState.RUNNING for flow in self.flows})
        for one in self.domains:
            sweep = Reconciler(one.service.database, prefect, SWEEP_SECONDS, one.service.settings.patience(), 3)
            self.sweeps.append(asyncio.create_task(sweep.run()))
            if FULL:
                self.sweeps.append(asyncio.create_task(self._load(one)))

    async def _load(self, domain: Domain) -> None:
        """A client that submits one request after the other; nobody sends them to Prefect."""
        for number in itertools.count():
            answer = await submit(domain, refs={"dataset_id": "load", "resource_id": f"{id(domain)}-{number}"})
            self.submitted[answer.status_code] += 1
            await asyncio.sleep(LOAD_SECONDS)

    async def _live(self, line: AttemptClient) -> None:
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

    @property
    def living(self) -> list[object]:
        return [flow.run_id for flow in self.flows[:LIVING]]

    @contextmanager
    def locks_held(self) -> Iterator[None]:
        """A session has the rows of every other living attempt locked: it is among those that are stopped."""
        with psycopg.connect(self.domains[0].database.url()) as session:
            session.execute("select from app.attempts where run_id = any(%s) for update", [self.living[::2]])
            yield

    async def told_after(self, how: str) -> float | None:
        """How long it took until every process said that it is not ready; None where one need not."""
        if how not in TELLS:
            return None
        began = time.monotonic()
        async with AsyncExitStack() as stack:
            clients = [
                await stack.enter_async_context(httpx.AsyncClient(transport=one.transport, base_url="http://domain"))
                for one in self.domains
            ]
            while clients:
                answers = await together(*(client.get("/readyz") for client in clients))
                clients = [one for one, answer in zip(clients, answers, strict=True) if answer.is_success]
                await asyncio.sleep(0.05)
        return time.monotonic() - began

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
        monkeypatch.setattr(domain_client, name, getattr(domain_client, name) / FACTOR)


async def test_outage_of_the_database_fences_dead_attempts_only(tmp_path: Path) -> None:
    """Those that live are done in the last outage, and hand in what they made once it is over."""
    with running_cluster() as cluster, ExitStack() as databases:
        async with AsyncExitStack() as stack:
            fleets = [
                await stack.enter_async_context(fleet(databases.enter_context(cluster.database()), tmp_path, size))
                for size in FLEETS
            ]
            for how in HOWS:
                told = await away(cluster.server, how, fleets)
                for one, after in zip(fleets, told, strict=True):
                    tell(how, one, await one.fenced_after(), after)
            for one in fleets:
                await asyncio.wait_for(asyncio.gather(*one.lives[:LIVING]), WAIT_SECONDS)
                ended = one.domains[0].rows(ENDED, [flow.run_id for flow in one.flows])
                assert dict(ended) == {"committed": LIVING, "fenced": len(HOWS) * DYING}
                assert set(one.submitted) <= {202, 503}, "no client saw anything else"


def test_dropped_packets_fence_no_attempt_and_readiness_reports_them(tmp_path: Path) -> None:
    """No reset and no refusal: whatever is sent to the database is gone, in a network of its own."""
    command = ["unshare", "--net", sys.executable, "-m", "tests.support.dropped_packets", str(tmp_path)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    states = told["attempts"]
    what = f"database's packets dropped for {OUTAGE_SECONDS:g} s, 1 process"
    note(Row(what, told["n"], states.get("fenced", 0), 0, told["n"] - states["committed"], told["told_after"]))
    assert (told["before"], told["during"]) == (200, 503)
    assert told["attempts"] == {"committed": told["n"]}


async def away(server: TestServer, how: str, fleets: list[Fleet]) -> list[float | None]:
    """Have it away; how long after its beginning each fleet told of it."""
    begin, end = HOWS[how]
    with ExitStack() as held:
        for one in fleets if how == "sessions frozen" else ():
            held.enter_context(one.locks_held())
        await asyncio.to_thread(begin, server)
        try:
            for one in fleets:
                one.some_die()
                if how == list(HOWS)[-1]:
                    one.done.set()
            told = [asyncio.create_task(one.told_after(how)) for one in fleets]
            await asyncio.sleep(OUTAGE_SECONDS)
            return await together(*told)
        finally:
            await asyncio.to_thread(end, server)


def tell(how: str, one: Fleet, fenced: dict[object, float], told_after: float | None) -> None:
    living, domain = set(fenced) - one.dead, one.domains[0]
    [(parked,)], [(again,)] = (domain.rows(query, one.living) for query in (PARKED, AGAIN))
    what = f"database {how} for {OUTAGE_SECONDS:g} s (1.5 x {LOST_SECONDS:g} s), {len(one.domains)} processes"
    note(Row(what, LIVING, len(living), parked, again, told_after))
    latest = max(fenced.values())
    print(f"of {len(one.dead)} dead {len(set(fenced) & one.dead)} fenced, the last {latest:.1f} s after it")  # noqa: T201
    assert not living
    assert min(fenced.values()) >= LOST_SECONDS, "each had a whole threshold of its own"
