"""Whether a fan-out is shared, and with how many: child runs on another pool, or other workers of the run's own.

A fan-out on the run's own pool begins in the run's process and asks nobody. Only where its own pace shows that the rest
would take longer than starting help does it give away what has not begun, and then takes part in that as all others do.
"""

import asyncio
import time
from dataclasses import dataclass, field, replace

from domain.shared.together import together
from flows.compiler import Event, Expand, Item, Node, NodeFailed, NodeOutcome, RunError
from flows.compiler.chunks import helpers_that_pay, places, takers_at_first
from flows.runs.child_flow_runs.protocol import who_takes
from flows.runs.child_flow_runs.wants import ChildWants
from flows.runs.fan_out import FanOutCounts, KeptItems, Share, Tell, run_items
from flows.runs.fan_out_summary import learn_failures
from flows.runs.group_tally import FailedItems
from flows.runs.node_executor import NodeExecutor
from flows.runs.pool_wait import PoolWait
from flows.runs.run_context import ChildRuns, ItemsOrder, ItemTold, OwnTaker, PlanPath
from flows.runs.shared_items import SharedItems
from flows.runs.taking import Taker

LOOK_SECONDS = 2.0


async def order_of_items(children: ChildRuns | None, node: Node, decision: Expand) -> ItemsOrder | None:
    """How several child runs on another pool share the items; None where one alone does as well."""
    bound, count = decision.max_concurrency, len(decision.items)
    if children is None or node.pool is None or count <= 1 or decision.shards == 1:
        return None
    serving = decision.shards or await children.serving(node.pool)
    usual = Share(node, node.id, ()).most  # of one worker: what a workflow allows in all, one machine need not bear
    takers = takers_at_first(count, serving, usual, bound=bound, declared=decision.shards)
    if takers <= 1:
        return None
    at_once = places(bound, takers)
    return ItemsOrder(node.id, decision.items, decision.count, at_once, takers, decision.shards is None)


@dataclass
class HomeFanOut:
    """A fan-out on the run's own pool, with whom it is shared once that pays."""

    executor: NodeExecutor
    place: PlanPath
    share: Share
    decision: Expand
    counts: FanOutCounts
    failures: FailedItems
    visible: bool = True
    kept: KeptItems = field(default_factory=KeptItems)
    _others: tuple[int, int] = (0, 0)

    async def run(self, tell: Tell, tell_of_others: ItemTold) -> list[Event]:
        """Do the items, here and by whoever helps. `tell` counts them too."""
        children = self.executor.run_context.children
        if children is None or self.share.node.pool is None or self.decision.shards == 1 or not self.visible:
            await run_items(self.executor, self.share, tell, visible=self.visible, failures=self.failures)
            return []
        gate = asyncio.Semaphore(self.share.most)
        share = replace(self.share, gate=gate, kept=self.kept)
        own = asyncio.create_task(run_items(self.executor, share, tell, visible=True, failures=self.failures))
        beside = asyncio.create_task(self._share_once_it_pays(children, own, gate, tell, tell_of_others))
        await together(own, beside)
        return beside.result()

    async def _share_once_it_pays(
        self,
        children: ChildRuns,
        own: "asyncio.Task[None]",
        gate: asyncio.Semaphore,
        tell: Tell,
        tell_of_others: ItemTold,
    ) -> list[Event]:
        helpers = await self._until_help_pays(children, own)
        items = self.kept.give_away(self.decision.items) if helpers else []
        return await self._share(children, items, helpers, gate, tell, tell_of_others) if items else []

    async def _until_help_pays(self, children: ChildRuns, own: "asyncio.Task[None]") -> int:
        """Wait until others should help, and return how many; none where all has ended before."""
        began, node = time.monotonic(), self.share.node
        while True:
            await asyncio.wait({own}, timeout=LOOK_SECONDS)
            if own.done() or self.executor.stop.is_set():
                return 0
            left = len(self.decision.items) - self.kept.begun(self.decision.items)
            ended, seconds = self.counts.done + self.counts.failed, time.monotonic() - began
            most = min(self.share.most, self.executor.run_context.places.most)
            if not helpers_that_pay(left, ended, most, seconds, 1):
                continue
            others = await children.serving(node.pool or "") - 1
            bound = self.decision.max_concurrency
            others = min(others, bound - 1 if bound else others)
            if helpers := helpers_that_pay(left, ended, most, seconds, others):
                return helpers

    async def _share(
        self,
        children: ChildRuns,
        items: list[Item],
        helpers: int,
        gate: asyncio.Semaphore,
        tell: Tell,
        tell_of_others: ItemTold,
    ) -> list[Event]:
        node, dealt = self.share.node, places(self.decision.max_concurrency, helpers + 1)
        own = replace(self.share, items=(), at_once=dealt[0], gate=gate, count=self.decision.count)
        for _ in range(self.share.most - own.most):  # its other places are the helpers' now
            await gate.acquire()

        async def take(shared: SharedItems, ended: ItemTold) -> None:
            async def told(index: int, outcome: NodeOutcome) -> None:
                await tell(index, outcome)
                await ended(index, outcome)

            who = who_takes("segment-0", self.executor.run_context.ledger.writer)
            await Taker(self.executor, shared, own, who, told, self.failures).take_until_none_is_left()

        order = ItemsOrder(node.id, items, self.decision.count, dealt[1:], helpers + 1)
        ended = await children.run_items(
            ChildWants(node.pool or "", self.decision.needs, node.priority),
            self.place,
            order,
            None,
            self.executor.stop,
            PoolWait(_tell_nobody, lambda: None),
            self._counted,
            OwnTaker(take, tell_of_others),
        )
        if self._others[1]:
            await learn_failures(self.executor.run_context, self.share.path, self.failures)
        if len(ended) < len(items) and not self.executor.stop.is_set():
            return [NodeFailed(node.id, RunError("too-many-failures", f"Too many items of {node.id} failed.", node.id))]
        return []

    def _counted(self, done: int, failed: int) -> bool:
        """Count what others have done, beside what is counted here; whether going on makes sense."""
        before, self._others = self._others, (done, failed)
        self.counts.set(self.counts.done + done - before[0], self.counts.failed + failed - before[1])
        node = self.share.node
        return (
            node.on_failure == "continue"
            or node.fan_out is None
            or node.fan_out.tolerates(self.counts.failed, self.decision.count)
        )


async def _tell_nobody(_again: bool) -> None:
    """A node that runs here waits for nobody."""
