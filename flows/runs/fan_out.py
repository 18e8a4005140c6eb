"""The items of one fan-out, done in this process: how many at once, in which task runs, and what is told of them."""

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from domain.contracts.runs import NodeEvent
from domain.shared.together import each_to_its_end
from flows.compiler import Expand, Item, Node, NodeOutcome, State
from flows.compiler.partition import grouped
from flows.memory.ledger import LedgerEntry
from flows.pools import POOLS
from flows.prefect_engine.node_tasks import TaskRuns, run_group
from flows.runs.domain_client import AttemptClient
from flows.runs.group_tally import FailedItems, GroupTally, TaskRunEnd
from flows.runs.node_executor import NodeExecutor, Work
from flows.storage.threads import in_storage_thread
from flows.tries.concurrency import WORKER_PLACES

AT_ONCE = 16  # of a fan-out in threads that declares no bound: enough to hide waiting, few enough to spare two cores
REPORT_SECONDS = 0.5

Tell = Callable[[int, NodeOutcome], Awaitable[None]]


@dataclass
class KeptItems:
    """Which items a process keeps for itself: those that have begun. The others it may give away meanwhile."""

    _begun: set[int] = field(default_factory=set)
    _given_away: set[int] = field(default_factory=set)

    def keep(self, works: Sequence[Work]) -> list[Work]:
        """Those of them that begin here now."""
        kept = [work for work in works if _item(work).index not in self._given_away]
        self._begun.update(_item(work).index for work in kept)
        return kept

    def give_away(self, items: Sequence[Item]) -> list[Item]:
        """Those of them that have not begun, and now never will here."""
        given = [item for item in items if item.index not in self._begun]
        self._given_away.update(item.index for item in given)
        return given

    def begun(self, items: Sequence[Item]) -> int:
        """How many of them have begun."""
        return sum(item.index in self._begun for item in items)


@dataclass(frozen=True)
class Share:
    """The items that this process does, and how many of them at once.

    `count` is how many children the whole fan-out has, `unmade` how many of them failed before any was begun. One that
    is a part of several brings along what these have in common: the gate through which items begin, what is remembered,
    and how many task runs it may make.
    """

    node: Node
    path: str
    items: Sequence[Item]
    at_once: int | None = None
    count: int = 0
    unmade: int = 0
    gate: asyncio.Semaphore | None = None
    known: Mapping[str, LedgerEntry] | None = None
    task_runs_cap: int | None = None
    kept: "KeptItems | None" = None

    @classmethod
    def of_all(cls, node: Node, path: str, decision: Expand) -> "Share":
        """All of a fan-out's items."""
        unmade = decision.count - len(decision.items)
        return cls(node, path, decision.items, decision.max_concurrency, decision.count, unmade)

    @property
    def is_part(self) -> bool:
        """Whether other processes do more of the fan-out's items."""
        return self.count > len(self.items) + self.unmade

    def tolerates(self, failed: int) -> bool:
        """Whether the fan-out bears it that so many of these items failed."""
        fan_out = self.node.fan_out
        return fan_out is not None and fan_out.tolerates(failed + self.unmade, self.count or len(self.items))

    @property
    def most(self) -> int:
        """How many at once in this process: as the fan-out says, else as many as its worker has places."""
        if self.at_once is not None:
            return self.at_once
        return WORKER_PLACES if self.node.pool in POOLS.confined() else AT_ONCE


@dataclass
class Items:
    """Does one share's items. `tell` hears how each item ended that was not stopped, as it ends."""

    executor: NodeExecutor
    share: Share
    entries: Mapping[str, LedgerEntry]
    gate: asyncio.Semaphore
    tell: Tell
    failures: FailedItems = field(default_factory=FailedItems)
    _failed: int = 0

    @property
    def cap(self) -> int:
        """How many task runs these items may have."""
        return self.share.task_runs_cap or self.executor.run_context.task_runs_cap

    def _kept(self, works: Sequence[Work]) -> Sequence[Work]:
        """Those of them that this process does, where it may have given some away."""
        return works if self.share.kept is None else self.share.kept.keep(works)

    async def run_in_task_runs(self, works: Sequence[Work], at_once: int) -> None:
        """Do the items in no more task runs than the cap: each in one of its own, or groups that may do several."""
        runs, cap = TaskRuns(self.executor, self.share.node, of_items=True), self.cap
        if len(works) <= cap:
            await runs.run_mapped(range(len(works)), lambda number: self._run_in_own_task_run(runs, works[number]))
            return
        parts = grouped(len(works), cap)
        inside = math.ceil(at_once / len(parts))
        parts_at_once = asyncio.Semaphore(at_once)

        async def run_part(part: range) -> None:
            async with parts_at_once:
                if self.executor.stop.is_set():
                    return
                if len(part) == 1:
                    await self._run_in_own_task_run(runs, works[part.start])
                elif kept := self._kept(works[part.start : part.stop]):
                    await self._run_in_shared_task_run(kept, inside)

        await each_to_its_end(run_part(part) for part in parts)

    async def _run_in_own_task_run(self, runs: TaskRuns, work: Work) -> None:
        async with self.gate:
            if not self.executor.stop.is_set() and self._kept([work]):
                known = await self.executor.remembered_item(self.entries, work)
                await self._tell(work, *await runs.run_as_task(work, known))

    async def _run_in_shared_task_run(self, group: Sequence[Work], at_once: int) -> None:
        """Do several items in one task run, whose end tells how they ended."""
        tally = GroupTally(len(group))

        async def perform() -> TaskRunEnd:
            await self.run_without_tasks(group, at_once, tally)
            return tally.end(is_tolerable=self._is_tolerable)

        await run_group(
            self.share.node, f"{self.share.node.id}__{_item(group[0]).index}-{_item(group[-1]).index}", perform
        )

    @property
    def _is_tolerable(self) -> bool:
        """Whether the fan-out bears what has failed, as far as is known here: other shares are their run's to count."""
        is_given_up = self.share.is_part and self.executor.stop.reason == "over"
        return not is_given_up and self.share.tolerates(self._failed)

    async def run_without_tasks(self, works: Sequence[Work], at_once: int, tally: GroupTally | None = None) -> None:
        """Do items without task runs of their own."""
        places, tally = asyncio.Semaphore(at_once), tally or GroupTally(len(works))

        async def run_one(work: Work) -> None:
            async with places, self.gate:
                await self._run_one(work, tally)

        if at_once == 1:
            for work in works:
                await run_one(work)
        else:
            await each_to_its_end(run_one(work) for work in works)

    async def _run_one(self, work: Work, tally: GroupTally) -> None:
        """Do one item, unless the run stops, and count how it ended."""
        if self.executor.stop.is_set() or not self._kept([work]):
            return
        known = await self.executor.remembered_item(self.entries, work)
        outcome, tries = (known, 0) if known else await self.executor.run_with_retries(work)
        tally.add(_item(work), outcome, tries)
        await self._tell(work, outcome, tries)

    async def _tell(self, work: Work, outcome: NodeOutcome, tries: int) -> None:
        """Tell how the item ended, unless a stop cut it short: told as failed, it would hide why there was a stop."""
        if outcome.state is State.FAILED:
            self._failed += 1
            self.failures.add(_item(work), outcome, tries)
        if outcome.state is not State.CANCELLED:
            await self.tell(_item(work).index, outcome)


async def run_items(
    executor: NodeExecutor, share: Share, tell: Tell, *, visible: bool, failures: FailedItems | None = None
) -> None:
    """Do every item of the share; have the failed ones noted for who watches."""
    entries = share.known
    if entries is None:
        entries = await in_storage_thread(executor.run_context.ledger.completed_items, share.path)
    works = [Work(share.node, share.path, item.params, item) for item in share.items]
    at_once = share.most
    items = Items(executor, share, entries, share.gate or asyncio.Semaphore(at_once), tell, failures or FailedItems())
    if visible:
        await items.run_in_task_runs(works, at_once)
    else:
        await items.run_without_tasks(works, at_once)


def _item(work: Work) -> Item:
    assert work.item is not None  # noqa: S101 - what is done here are items
    return work.item


@dataclass
class FanOutCounts:
    """How far a fan-out is, told now and then: one of thousands must not send thousands of messages.

    Without a line nobody is told: those of sub-workflows are their own business. Nor is anybody once the node has
    ended, as it may have while its last task runs are being closed: an ended node does not run.
    """

    line: AttemptClient | None
    node_id: str
    total: int
    has_ended: Callable[[], bool] = lambda: False
    is_at_work: Callable[[], bool] = lambda: True  # else it waits for its pool, and must not be said to run
    retried: Callable[[], int] = lambda: 0
    done: int = 0
    failed: int = 0

    def add(self, outcome: NodeOutcome) -> None:
        if outcome.state is State.COMPLETED:
            self.done += 1
        elif outcome.state is State.FAILED:
            self.failed += 1
        if self.failed == 1 or self.is_over:
            self.report()  # now: once the schedule has heard of this item, the node may have ended

    def set(self, done: int, failed: int) -> None:
        """Take over what other processes have counted."""
        self.done, self.failed = done, failed
        if self.is_over:
            self.report()

    @property
    def is_over(self) -> bool:
        return self.done + self.failed == self.total

    def report(self) -> None:
        if self.line is None or self.has_ended() or not (self.is_over or self.is_at_work()):
            return
        self.line.note(NodeEvent(node_id=self.node_id, state="running", **self.told))

    @property
    def told(self) -> dict[str, int | None]:
        """The counts as the domain takes them."""
        counts = {"items_total": self.total, "items_done": self.done, "items_failed": self.failed}
        return counts | {"items_retried": self.retried() or None}

    @asynccontextmanager
    async def reported(self) -> "AsyncIterator[FanOutCounts]":
        """Report while the block runs, where anything has changed. Not at its end: an ended node does not run."""
        reporter = asyncio.create_task(self._keep_reporting())
        try:
            yield self
        finally:
            reporter.cancel()

    async def _keep_reporting(self) -> None:
        told = None
        while True:
            if (now := (self.done, self.failed, self.retried())) != told:
                self.report()
                told = now
            await asyncio.sleep(REPORT_SECONDS)
