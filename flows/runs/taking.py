"""Does items of a shared fan-out in this process: takes a chunk whenever it has room, until nobody has one left."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from domain.shared.together import each_to_its_end
from flows.compiler import Item, NodeOutcome
from flows.memory.ledger import LedgerEntry
from flows.runs.fan_out import Share, Tell, run_items
from flows.runs.group_tally import FailedItems
from flows.runs.node_executor import NodeExecutor
from flows.runs.shared_items import SharedItems
from flows.storage.threads import in_storage_thread


@dataclass
class Taker:
    """One process among those that do a fan-out's items. `tell` hears how each item ended that was not stopped.

    `share` says how they are done, and how many at once; its items are those of the chunks that are taken.
    """

    executor: NodeExecutor
    shared: SharedItems
    share: Share
    who: str
    tell: Tell
    failures: FailedItems = field(default_factory=FailedItems)
    visible: bool = True
    _open: int = 0
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _at_work: set["asyncio.Task[None]"] = field(default_factory=set)
    _known: Mapping[str, LedgerEntry] = field(default_factory=dict)

    async def take_until_none_is_left(self) -> None:
        """Do what there is. Once nothing is left to take and all that was taken has ended, look a last time."""
        gate = self.share.gate or asyncio.Semaphore(self.share.most)
        await self._remember()
        try:
            while not self.executor.stop.is_set():
                if (taken := await in_storage_thread(self._take)) is not None:
                    await self._begin(*taken, gate)
                    await self._until_there_is_room(self.share.most)
                elif self._at_work:
                    await self._until_there_is_room(0)
                else:
                    return
        finally:
            await each_to_its_end(self._at_work)

    def _take(self) -> tuple[str, list[Item]] | None:
        """Take a chunk, unless the stop came first, or this process's work is another's by now."""
        run_context, stop = self.executor.run_context, self.executor.stop
        try:
            run_context.runs(stop).outlast(run_context.lease.make_sure)
            return self.shared.take(self.who)
        except Exception:
            if stop.is_set():
                return None
            raise

    async def _begin(self, name: str, items: list[Item], gate: asyncio.Semaphore) -> None:
        if "." in name:  # whoever had it before may have done some of it
            await self._remember()
        cap, count = self.executor.run_context.task_runs_cap, max(self.share.count, len(items))
        cap = cap if count <= cap else max(1, round(cap * len(items) / count))
        share = replace(self.share, items=items, gate=gate, known=self._known, task_runs_cap=cap)
        self._open += len(items)
        self._at_work.add(asyncio.create_task(self._do(share)))

    async def _do(self, share: Share) -> None:
        try:
            await run_items(self.executor, share, self._told, visible=self.visible, failures=self.failures)
        finally:
            self._changed.set()

    async def _told(self, index: int, outcome: NodeOutcome) -> None:
        self._open -= 1
        self._changed.set()
        await self.tell(index, outcome)

    async def _until_there_is_room(self, most: int) -> None:
        """Wait until no more items than so many are in hand. Whatever ends wrongly is raised."""
        while not self.executor.stop.is_set() and (self._open > most or not most):
            for ended in [one for one in self._at_work if one.done()]:
                self._at_work.discard(ended)
                ended.result()
            if not self._at_work:
                return
            self._changed.clear()
            await self._changed.wait()

    async def _remember(self) -> None:
        """Read what is remembered of the fan-out's items, by whichever process."""
        self._known = await in_storage_thread(self.executor.run_context.ledger.completed_items, self.share.path)
