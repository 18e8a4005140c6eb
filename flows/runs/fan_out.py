"""The items of one fan-out, done in this process: how many at once, in which task runs, and what is told of them."""

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from domain.contracts.runs import NodeEvent
from domain.shared.together import each_to_its_end
from flows.compiler import Item, Node, NodeOutcome, State
from flows.compiler.partition import grouped
from flows.memory.ledger import LedgerEntry
from flows.prefect_engine.node_tasks import TaskRuns, run_group
from flows.runs.domain_client import AttemptClient
from flows.runs.node_executor import NodeExecutor, Work
from flows.storage.threads import in_storage_thread

AT_ONCE = 16  # of a fan-out that declares no bound: enough to hide waiting, few enough to spare two cores
REPORT_SECONDS = 0.5

Tell = Callable[[int, NodeOutcome], Awaitable[None]]


@dataclass(frozen=True)
class Share:
    """The items that this process does, and how many of them at once."""

    node: Node
    path: str
    items: Sequence[Item]
    at_once: int | None = None


@dataclass(frozen=True)
class Items:
    """Does one share's items. `tell` hears how each item ended that was not stopped, as it ends."""

    executor: NodeExecutor
    share: Share
    entries: Mapping[str, LedgerEntry]
    gate: asyncio.Semaphore
    tell: Tell

    async def run_as_tasks(self, works: Sequence[Work]) -> None:
        """Do each item in a task run of its own."""
        runs = TaskRuns(self.executor, self.share.node, of_items=True)

        async def run_one(number: int) -> None:
            async with self.gate:
                if not self.executor.stop.is_set():
                    work = works[number]
                    outcome, _ = await runs.run_as_task(work, await self.executor.remembered_item(self.entries, work))
                    await self._tell(work, outcome)

        await runs.run_mapped(range(len(works)), run_one)

    async def run_in_grouped_tasks(self, works: Sequence[Work], at_once: int) -> None:
        """Do the items in no more task runs than the cap, each for a group that may do several at once."""
        groups = [
            works[part.start : part.stop] for part in grouped(len(works), self.executor.run_context.task_runs_cap)
        ]
        groups_at_once = asyncio.Semaphore(at_once)
        node = self.share.node

        async def run_one(group: Sequence[Work]) -> None:
            name = f"{node.id}__{_index(group[0])}-{_index(group[-1])}"
            async with groups_at_once:
                if not self.executor.stop.is_set():
                    await run_group(node, name, lambda: self.run_without_tasks(group, math.ceil(at_once / len(groups))))

        await each_to_its_end(run_one(group) for group in groups)

    async def run_without_tasks(self, works: Sequence[Work], at_once: int) -> list[bool]:
        """Do items without task runs of their own; return which of them ended well."""
        places = asyncio.Semaphore(at_once)

        async def run_one(work: Work) -> bool:
            async with places, self.gate:
                return await self._run_one(work)

        if at_once == 1:
            return [await run_one(work) for work in works]
        return await each_to_its_end(run_one(work) for work in works)

    async def _run_one(self, work: Work) -> bool:
        """Do one item, unless the run stops; return whether it ended well."""
        if self.executor.stop.is_set():
            return False
        outcome = await self.executor.remembered_item(self.entries, work) or await self.executor.run_with_retries(work)
        await self._tell(work, outcome)
        return outcome.state is State.COMPLETED

    async def _tell(self, work: Work, outcome: NodeOutcome) -> None:
        """Tell how the item ended, unless a stop cut it short: told as failed, it would hide why there was a stop."""
        if outcome.state is not State.CANCELLED:
            await self.tell(_index(work), outcome)


async def run_items(executor: NodeExecutor, share: Share, tell: Tell, *, visible: bool) -> None:
    """Do every item of the share."""
    entries = await in_storage_thread(executor.run_context.ledger.completed_items, share.path)
    works = [Work(share.node, share.path, item.params, item) for item in share.items]
    at_once = share.at_once or AT_ONCE
    items = Items(executor, share, entries, asyncio.Semaphore(at_once), tell)
    if not visible:
        await items.run_without_tasks(works, at_once)
    elif len(works) <= executor.run_context.task_runs_cap:
        await items.run_as_tasks(works)
    else:
        await items.run_in_grouped_tasks(works, at_once)


def _index(work: Work) -> int:
    assert work.item is not None  # noqa: S101 - what is done here are items
    return work.item.index


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
        self.line.note(
            NodeEvent(
                node_id=self.node_id,
                state="running",
                items_total=self.total,
                items_done=self.done,
                items_failed=self.failed,
                items_retried=self.retried() or None,
            )
        )

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
