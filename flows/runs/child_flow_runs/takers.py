"""The child runs that share a fan-out's items: keeps them at work until every item has ended.

A child that dies costs what it had in hand: what it had not finished is offered again, to those that live and to the
one that takes its place. Where that helps nothing, three times in a row, the run is lost as by any other loss.
"""

import asyncio
import math
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

from domain.shared.together import each_to_its_end
from flows.compiler import NodeOutcome, State
from flows.compiler.chunks import helpers_that_pay
from flows.handlers.errors import Stopped
from flows.memory.ledger import latest, read
from flows.pools import SHARED
from flows.runs.child_flow_runs.errors import ChildLost, ChildRefused, NoWorker
from flows.runs.child_flow_runs.liveness import ChildRun
from flows.runs.child_flow_runs.prefect_states import until_taken
from flows.runs.child_flow_runs.protocol import order_of, outcome_from_json, put_order, stop_mark, who_takes
from flows.runs.child_flow_runs.wants import ChildWants
from flows.runs.pool_wait import PoolWait
from flows.runs.run_context import CountedItems, ItemsOrder, OwnTaker, PlanPath
from flows.runs.shared_items import SharedItems
from flows.runs.stopping import Stop
from flows.storage.threads import in_storage_thread

if TYPE_CHECKING:
    from flows.runs.child_flow_runs.start import SegmentRuns

MOST_LOSSES = 2  # in a row in which nothing ended well
MOST_ROUNDS = 3
LONGEST_PAUSE_SECONDS = 10.0  # before another child is sent where one met its like: as long as a slow worker looks away
LOOK_SECONDS = 0.2


@dataclass(frozen=True)
class ChildOrdering:
    """By whom and how child runs of one fan-out are ordered."""

    segments: "SegmentRuns"
    wants: ChildWants
    place: PlanPath
    order: ItemsOrder
    wait_seconds: float | None
    wait: PoolWait
    counted: CountedItems

    @property
    def tags(self) -> list[str]:
        """By which a worker of ours sees that it has one of them already: it leaves others to others for a while."""
        return [f"{SHARED}{self.segments.run_context.line.run_id}"] if self.order.is_one_a_worker else []

    def put(self, store: Any, folder: str, slot: int, place: str) -> None:
        """Leave a child's order."""
        order = self.order
        cap = self.segments.run_context.task_runs_cap
        put_order(
            store,
            place,
            order_of(self.place)
            | {
                "node": order.node_id,
                "shared": folder,
                "at_once": order.at_once[slot],
                "alone": order.is_one_a_worker,
                "task_runs_cap": cap,
                "count": order.count,
            },
        )


@dataclass
class Takers:
    """Those of one fan-out, each in a slot that is filled anew where its child dies, drains, or meets its like."""

    ordering: ChildOrdering
    shared: SharedItems
    stop: Stop
    enough: Stop
    own: OwnTaker | None = None
    ended: dict[int, NodeOutcome] = field(default_factory=dict)
    _chunks: Sequence[Sequence[int]] = ()
    _counts: dict[int, tuple[int, int]] = field(default_factory=dict)
    _offered: asyncio.Event = field(default_factory=asyncio.Event)
    _taken: set[int] = field(default_factory=set)  # slots whose first child a worker has taken up
    _has_begun: bool = False
    _losses: int = 0
    _done_at_loss: int = -1
    _began_at: float = field(default_factory=time.monotonic)

    @classmethod
    def of(cls, ordering: ChildOrdering, folder: str, stop: Stop, own: OwnTaker | None = None) -> "Takers":
        """Takers of items that lie in this folder, or will."""
        return cls(ordering, SharedItems(ordering.segments.store, folder), stop, stop.inner(), own)

    async def run(self) -> Mapping[int, NodeOutcome]:
        """Offer the items, and have all of them done by child runs; returns how each ended that was not stopped."""
        await self.offer()
        if self.own is not None:
            await self._run_beside(self.own)
            return await self._with_failed()
        for _ in range(MOST_ROUNDS):
            await self.fill_slots()
            if self.is_over:
                return await self._with_failed()
            await self.offer_what_is_missing()
        raise self._unfinished()

    async def _run_beside(self, own: OwnTaker) -> None:
        """Take items here too, as long as there are any, and again where a child leaves some."""
        run_context = self.ordering.segments.run_context
        who = who_takes("segment-0", run_context.ledger.writer)
        await in_storage_thread(self.shared.is_only_of, run_context.worker_name, who, lambda _: False)
        filling = asyncio.create_task(self.fill_slots())
        rounds = 0
        try:
            while not self.is_over:
                self._offered.clear()
                await own.take(self.shared, self._own_ended)
                if filling.done() and not self.is_over:
                    filling.result()
                    await self.offer_what_is_missing()
                    if (rounds := rounds + 1) > MOST_ROUNDS:
                        raise self._unfinished()
                elif not self.is_over:
                    await self._until_offered(filling)
        finally:
            self.enough.set("over")
            await each_to_its_end([filling])

    async def _until_offered(self, filling: "asyncio.Task[None]") -> None:
        """Wait until there is something to take again, or all children have ended."""
        offered = asyncio.create_task(self._offered.wait())
        try:
            await asyncio.wait({filling, offered}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            offered.cancel()

    async def _own_ended(self, index: int, outcome: NodeOutcome) -> None:
        """An item ended here."""
        self.ended.setdefault(index, outcome)
        if self.is_over:
            self.enough.set("over")

    def _unfinished(self) -> ChildLost:
        return ChildLost(f"Child runs have ended without an outcome of all items of {self.ordering.order.node_id}.")

    @property
    def is_over(self) -> bool:
        """Whether all items have ended, or nobody is to go on."""
        return self.enough.is_set() or len(self.ended) >= len(self.ordering.order.items)

    async def offer(self) -> None:
        order = self.ordering.order
        self._chunks = await in_storage_thread(self.shared.put, order.items, order.takers)

    async def fill_slots(self) -> None:
        """Have a child at work in each slot until nothing is left to take."""
        await each_to_its_end(self._fill_or_end_all(slot) for slot in range(len(self.ordering.order.at_once)))

    async def offer_what_is_missing(self) -> None:
        """Offer again what was taken by anybody and has not ended."""
        owned = await in_storage_thread(self.shared.taken_by, "")
        await in_storage_thread(self.shared.offer_again, owned, self._lacking())

    async def _fill_or_end_all(self, slot: int) -> None:
        """Fill the slot. Where that fails, the others are stopped; they are waited for by whoever began them."""
        try:
            await self._until_turn(slot)
            await self._fill(slot)
        except Exception:
            self.enough.set("over")
            raise

    async def _until_turn(self, slot: int) -> None:
        """Wait until the child of the slot before was taken: who took it looks again later than all others."""
        if self.ordering.order.is_one_a_worker:
            while slot and slot - 1 not in self._taken and not self.is_over:  # noqa: ASYNC110 - there are two to wait for
                await asyncio.sleep(LOOK_SECONDS)

    async def _note_taken(self, slot: int, flow_run_id: UUID) -> None:
        await until_taken(self.ordering.segments.prefect, flow_run_id)
        self._taken.add(slot)

    async def _fill(self, slot: int) -> None:
        met = 0
        while not self.is_over:
            places: list[str] = []
            try:
                outcome = await self._child(slot, places)
            except Stopped:
                return
            except NoWorker:
                if self._has_begun:  # who works goes on alone
                    return
                raise
            except ChildRefused:
                raise
            except ChildLost as lost:
                await self._take_away(slot, places)
                await self._count_loss(lost)
                continue
            if outcome is None:
                await self._take_away(slot, places)
            elif not outcome.get("stepped_aside"):
                self._counts[slot] = counts_of(outcome["items"])
                self.count()
                await self.collect(outcome["items"])
                return
            elif not await self._pays_after_a_pause(met := met + 1):
                return

    async def _child(self, slot: int, places: list[str]) -> dict[str, Any] | None:
        """Have one child take items; `places` is told where it is."""
        one, order = self.ordering, self.ordering.order

        def put(place: str) -> None:
            places.append(place)
            one.put(self.shared.store, self.shared.folder, slot, place)

        watches: list[asyncio.Task[None]] = []

        def created(flow_run_id: UUID) -> None:
            watches.append(asyncio.create_task(self._note_taken(slot, flow_run_id)))

        name = f"{slot + 1}/{len(order.at_once)}: {order.node_id}"
        heard = partial(self._heard, slot)
        try:
            return await one.segments.run_child(
                one.wants, name, put, one.wait_seconds, self.enough, one.wait, heard, one.tags, created
            )
        finally:
            self._taken.add(slot)
            for watch in watches:
                watch.cancel()
            await asyncio.gather(*watches, return_exceptions=True)

    def _heard(self, slot: int, child: ChildRun) -> None:
        self._has_begun = self._has_begun or child.sign is not None
        self._counts[slot] = child.counts
        self.count()

    def count(self) -> None:
        """Tell how many items have ended, and stop where going on makes no sense."""
        done, failed = (sum(column) for column in zip(*self._counts.values(), strict=True))
        if not self.ordering.counted(done, failed):
            self.enough.set("over")

    async def collect(self, items: Mapping[str, Any]) -> None:
        """Take over how these items ended."""
        values = self.ordering.segments.run_context.ledger.values
        for index, told in items.items():
            outcome = outcome_from_json(told, values)
            if int(index) not in self.ended:
                self.ended[int(index)] = outcome
                if self.own is not None:
                    await self.own.tell(int(index), outcome)
        if self.is_over:
            self.enough.set("over")  # who waits in a queue need not come

    async def _take_away(self, slot: int, places: Sequence[str]) -> None:
        """Offer again what a child had in hand that is no more. One that lives after all is told first."""
        self._counts[slot] = 0, 0
        for place in places:
            await in_storage_thread(self.shared.store.write_bytes, stop_mark(place), b"")
            owned = await in_storage_thread(self.shared.taken_by, f"{place.rpartition('/')[2]} ")
            await in_storage_thread(self.shared.offer_again, owned, self._lacking())
        self._offered.set()

    async def _count_loss(self, lost: ChildLost) -> None:
        one = self.ordering
        ledger, path = one.segments.run_context.ledger, one.place.of(one.order.node_id)
        done = len(await in_storage_thread(ledger.completed_items, path))
        self._losses = 1 if done > self._done_at_loss else self._losses + 1
        self._done_at_loss = done
        if self._losses > MOST_LOSSES:
            raise lost

    def _lacking(self) -> set[int]:
        """The chunks that hold an item that has not ended."""
        return {number for number, items in enumerate(self._chunks) if any(index not in self.ended for index in items)}

    async def _pays_after_a_pause(self, met: int) -> bool:
        """Wait a while before another child is sent to a worker that has none; whether that still pays.

        Workers look for runs at different times: the next one may come to one that has none.
        """
        seconds = random.uniform(0.5, 1.0) * min(2.0**met, LONGEST_PAUSE_SECONDS)  # noqa: S311 - a spread
        for _ in range(math.ceil(seconds / LOOK_SECONDS)):
            if self.is_over:
                return False
            await asyncio.sleep(LOOK_SECONDS)
        order, ended = self.ordering.order, sum(sum(counts) for counts in self._counts.values())
        at_once = sum(places or 1 for places in order.at_once)
        seconds = time.monotonic() - self._began_at
        return not self.is_over and helpers_that_pay(len(order.items) - ended, ended, at_once, seconds, 1) > 0

    async def _with_failed(self) -> Mapping[int, NodeOutcome]:
        """How items ended, with those that are remembered as failed where it was they that ended the fan-out."""
        if len(self.ended) < len(self.ordering.order.items) and not self.stop.is_set():
            await self.collect(await in_storage_thread(self._failed))
        return self.ended

    def _failed(self) -> dict[str, Any]:
        """Which items are remembered as failed, as an outcome tells it."""
        one = self.ordering
        wanted = {(item.index, item.key) for item in one.order.items if item.index not in self.ended}
        ledger = one.segments.run_context.ledger
        return {
            str(entry.index): {"state": State.FAILED.value, "output": {"value": None}, "error": entry.error}
            for entry in latest(read(ledger.store, ledger.memory, one.place.of(one.order.node_id)))
            if entry.index is not None and (entry.index, entry.key) in wanted and not entry.is_completed
        }


def counts_of(items: Mapping[str, Any]) -> tuple[int, int]:
    """How many of these items ended well, and how many badly."""
    states = [told["state"] for told in items.values()]
    return states.count(State.COMPLETED.value), states.count(State.FAILED.value)
