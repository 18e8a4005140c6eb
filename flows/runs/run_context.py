"""What all of one flow run's work shares: facts, storage, memory, the line to the domain, threads."""

import asyncio
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from domain.contracts.artifacts import Artifact
from domain.contracts.runs import RunFacts
from flows.compiler import Item, NodeOutcome, Plan
from flows.memory.ledger import Ledger
from flows.runs.domain_client import AttemptClient
from flows.runs.outages import PatientStore
from flows.runs.pool_wait import PoolWait
from flows.runs.shared_items import SharedItems
from flows.runs.stopping import Stop
from flows.storage import Zones
from flows.storage.threads import in_storage_thread
from flows.tries.concurrency import Places
from flows.tries.time_budget import OUTAGE_SECONDS

if TYPE_CHECKING:  # it knows Prefect
    from flows.runs.child_flow_runs.wants import ChildWants

THREADS = 256  # made when needed; how many work at once is decided by fan-outs and `flows.tries.concurrency`, not here
SCHEDULE_FACTS = ("id", "request_id", "asset_id", "version_ordinal")


def worker_name() -> str:
    """The worker that this flow run is of, and its machine; where nobody tells, this process is one of its own.

    In a container of its own a flow run is on a machine of its own.
    """
    return f"{os.environ.get('PREFECT__WORKER_NAME') or os.getpid()}/{os.uname().nodename}"


@dataclass(frozen=True)
class PlanPath:
    """Which plan a piece of work belongs to: the run's own, or a sub-workflow's at the end of a path of nodes.

    `top` is the node of the run's own plan where that path begins.
    """

    path: str = ""
    workflow: str | None = None
    inputs: Mapping[str, Any] = field(default_factory=dict)
    top: str = ""

    def of(self, node_id: str) -> str:
        """The node's name in the run's memory."""
        return f"{self.path}{node_id}"


class Slots(Protocol):
    """Holds a slot of each of these tags that operators limit while work is done, unless that is held already."""

    def __call__(self, tags: Collection[str]) -> AbstractAsyncContextManager[None]: ...


@dataclass(frozen=True)
class ItemsOrder:
    """A fan-out's items, to be done by child runs: how many at once each of them does, or what its worker can.

    `count` is how many children the whole fan-out has, `takers` how many processes share these items.
    """

    node_id: str
    items: Sequence[Item]
    count: int
    at_once: Sequence[int | None]
    takers: int
    is_one_a_worker: bool = True


ItemTold = Callable[[int, NodeOutcome], Awaitable[None]]


@dataclass(frozen=True)
class OwnTaker:
    """The run's own process, where it does items of the fan-out itself beside its child runs.

    `take` does what there is to take, and tells how each item ended; `tell` hears how those ended that others did.
    """

    take: Callable[[SharedItems, ItemTold], Awaitable[None]]
    tell: ItemTold


class CountedItems(Protocol):
    """Hears how many items have ended well and badly so far; answers whether going on makes sense."""

    def __call__(self, done: int, failed: int) -> bool: ...


class ChildRuns(Protocol):
    """Has work done by flow runs on another pool, and says of each whether it waits there or is at work."""

    async def run_stretch(
        self,
        wants: "ChildWants",
        place: PlanPath,
        nodes: Sequence[str],
        known: Mapping[str, NodeOutcome],
        wait_seconds: float | None,
        stop: Stop,
        wait: PoolWait,
    ) -> Mapping[str, NodeOutcome]:
        """Execute these nodes; returns how each of them ended."""

    async def run_items(
        self,
        wants: "ChildWants",
        place: PlanPath,
        order: ItemsOrder,
        wait_seconds: float | None,
        stop: Stop,
        wait: PoolWait,
        counted: CountedItems,
        own: OwnTaker | None = None,
    ) -> Mapping[int, NodeOutcome]:
        """Execute a fan-out's items by runs that share them; returns how each item ended."""

    async def serving(self, pool: str) -> int:
        """How many workers serve the pool."""


class WorkLease(Protocol):
    """Whether this process's work is still its own."""

    @property
    def is_sure(self) -> bool:
        """Whether nobody else can have been given it."""

    def make_sure(self) -> None:
        """Raise where somebody else has been given it. In threads."""


class ForGood:
    """The lease of a process whose work nobody takes away while its attempt lives."""

    is_sure = True

    def make_sure(self) -> None:
        """It is."""


@dataclass
class RunContext:
    """One flow run's means. Sub-workflows inside it use the same."""

    facts: RunFacts
    pool: str
    zones: Zones
    line: AttemptClient
    ledger: Ledger
    plans: Mapping[str, Plan] = field(default_factory=dict)
    task_runs_cap: int = 200
    shards_cap: int = 4
    children: ChildRuns | None = None
    has_children: bool = False  # whether some work of this attempt was ordered elsewhere
    page_url: str | None = None
    artifacts: list[Artifact] = field(default_factory=list)
    retried: Counter[str] = field(default_factory=Counter)  # by fan-out, how many tries of items followed failed ones
    outage_seconds: float = OUTAGE_SECONDS
    silence_seconds: float = 60.0  # of a child run after which it is given up
    lease: WorkLease = field(default_factory=ForGood)
    places: Places = field(default_factory=Places)
    slots: Slots = lambda _: nullcontext()
    worker: str = field(default_factory=lambda: f"{os.uname().nodename}/{os.getpid()}")
    _showing: list["asyncio.Task[None]"] = field(default_factory=list)
    worker_name: str = field(default_factory=worker_name)
    threads: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(THREADS, "cairn-work"))

    def runs(self, stop: Stop) -> PatientStore:
        """Run storage whose outages are waited out until this stop. For use in threads."""
        return PatientStore(self.zones.runs, stop.event, self.outage_seconds)

    async def make_sure(self, stop: Stop) -> None:
        """Begin nothing where this host may be cut off, and others do its work by now."""
        if not self.lease.is_sure:
            await in_storage_thread(self.runs(stop).outlast, self.lease.make_sure)

    @property
    def schedule_facts(self) -> dict[str, Any]:
        """What expressions may know of the run."""
        facts = self.facts.model_dump(include=set(SCHEDULE_FACTS))
        return {name: facts[name] for name in SCHEDULE_FACTS}

    @property
    def left(self) -> list[Artifact]:
        """What the run leaves behind, each once: a sub-workflow that is tried again finds what it had made before."""
        return list(dict.fromkeys(self.artifacts))

    @property
    def may_have_measured(self) -> bool:
        """Whether some try of the run may have measured something: here, in an earlier attempt, or in a child run."""
        return self.ledger.has_measured or self.has_children or self.facts.attempt > 1

    def show_in_the_end(self, showing: Coroutine[Any, Any, None]) -> None:
        """Have this shown to operators while the run goes on; `all_shown` waits for it."""
        self._showing.append(asyncio.create_task(showing))

    async def all_shown(self) -> None:
        """Wait until what is to be shown of the run is shown, or was given up."""
        await asyncio.gather(*self._showing, return_exceptions=True)

    def close(self) -> None:
        """Let the threads go, those too that are stuck: the process may live on with other runs."""
        self.threads.shutdown(wait=False, cancel_futures=True)
