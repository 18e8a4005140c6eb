"""What all of one flow run's work shares: facts, storage, memory, the line to the domain, threads."""

import asyncio
import os
from collections import Counter
from collections.abc import Collection, Coroutine, Mapping, Sequence
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
from flows.runs.stopping import Stop
from flows.storage import Zones
from flows.tries.concurrency import Places
from flows.tries.time_budget import OUTAGE_SECONDS

if TYPE_CHECKING:  # it knows Prefect
    from flows.runs.child_flow_runs.wants import ChildWants

THREADS = 256  # made when needed; how many work at once is decided by fan-outs and `flows.tries.concurrency`, not here
SCHEDULE_FACTS = ("id", "request_id", "asset_id", "version_ordinal")


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
        node_id: str,
        shares: Sequence[tuple[Sequence[Item], int]],
        wait_seconds: float | None,
        stop: Stop,
        wait: PoolWait,
        counted: CountedItems,
    ) -> Mapping[int, NodeOutcome]:
        """Execute items of a fan-out, each share of them by a run of its own; returns how each item ended."""


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
    places: Places = field(default_factory=Places)
    slots: Slots = lambda _: nullcontext()
    worker: str = field(default_factory=lambda: f"{os.uname().nodename}/{os.getpid()}")
    _showing: list["asyncio.Task[None]"] = field(default_factory=list)
    threads: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(THREADS, "cairn-work"))

    def runs(self, stop: Stop) -> PatientStore:
        """Run storage whose outages are waited out until this stop. For use in threads."""
        return PatientStore(self.zones.runs, stop.event, self.outage_seconds)

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
