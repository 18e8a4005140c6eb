"""Child runs: work of a run done by other flow runs on another pool, told and answered by run storage.

Waiting costs next to nothing: the domain tells a parent when a child begins and when it has left its outcome. Looks at
storage, and questions to Prefect, find what nobody told.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from uuid import UUID

import httpx
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import StateType
from prefect.exceptions import ObjectNotFound, PrefectHTTPStatusError
from prefect.states import Cancelled

from domain.contracts.artifacts import Artifact
from flows.compiler import NodeOutcome
from flows.handlers.errors import Stopped
from flows.runs.child_flow_runs.create import create_child_run
from flows.runs.child_flow_runs.errors import HANDLER_MISSING, ChildCancelled, ChildLost, ChildRefused, NoWorker
from flows.runs.child_flow_runs.liveness import OVER, PROMPT_SECONDS, ChildRun, Life
from flows.runs.child_flow_runs.prefect_states import ChildStates, Said, shared
from flows.runs.child_flow_runs.protocol import (
    order_of,
    outcome_from_json,
    outcomes_json,
    put_order,
    read_outcome,
    read_signs,
    segment_name,
    shared_folder,
    stop_mark,
)
from flows.runs.child_flow_runs.takers import ChildOrdering, Takers
from flows.runs.child_flow_runs.wants import ChildWants
from flows.runs.child_flow_runs.workers import ServingWorkers, known_workers
from flows.runs.outages import PatientStore, outage_of
from flows.runs.pool_wait import PoolWait
from flows.runs.run_context import CountedItems, ItemsOrder, OwnTaker, PlanPath, RunContext
from flows.runs.stopping import Stop
from flows.storage.threads import in_sign_thread, in_storage_thread

log = logging.getLogger("cairn.children")
HANDED_OVER = "HandedOver"
WITHDRAWN_SECONDS = 3.0  # its parent is to leave; what begins too late is told so by the domain
PAUSE_LOOK_SECONDS = 1.0


@dataclass
class SegmentRuns:
    """Starts child runs for one flow run and waits for them."""

    prefect: PrefectClient
    run_context: RunContext
    silence_seconds: float
    queue: str | None = None
    priority_cap: str | None = None
    states: ChildStates = field(default_factory=shared)
    workers: ServingWorkers = field(default_factory=known_workers)
    _count: int = 0
    _fan_outs: int = 0

    @property
    def store(self) -> PatientStore:
        return self.run_context.runs(self.run_context.line.stop)

    async def run_stretch(
        self,
        wants: ChildWants,
        place: PlanPath,
        nodes: Sequence[str],
        known: Mapping[str, NodeOutcome],
        wait_seconds: float | None,
        stop: Stop,
        wait: PoolWait,
    ) -> Mapping[str, NodeOutcome]:
        """Execute the nodes on the pool; returns how each of them ended."""
        values = self.run_context.ledger.values

        def put(name: str) -> None:
            order = {"nodes": list(nodes), "known": outcomes_json(known, values)}
            put_order(self.store, name, order_of(place) | order)

        told = None
        while told is None:  # where one was handed over, another goes on
            told = await self.run_child(wants, ", ".join(nodes), put, wait_seconds, stop, wait, lambda _: None)
        return {name: outcome_from_json(ended, values) for name, ended in told["nodes"].items()}

    async def run_items(
        self,
        wants: ChildWants,
        place: PlanPath,
        order: ItemsOrder,
        wait_seconds: float | None,
        stop: Stop,
        wait: PoolWait,
        counted: CountedItems,
        own: OwnTaker | None = None,
    ) -> Mapping[int, NodeOutcome]:
        """Execute a fan-out's items by child runs side by side; returns how each item ended that was not stopped.

        Those that failed are among them where `counted` has said that going on makes no sense, whatever became of
        the child that told of them.
        """
        self._fan_outs += 1
        folder = shared_folder(self.run_context.facts, self._fan_outs)
        ordering = ChildOrdering(self, wants, place, order, wait_seconds, wait, counted)
        return await Takers.of(ordering, folder, stop, own).run()

    async def serving(self, pool: str) -> int:
        """How many workers serve the pool, as far as Prefect knows."""
        return await self.workers.serving(self.prefect, pool, self.run_context.shards_cap)

    async def run_child(
        self,
        wants: ChildWants,
        name: str,
        put: Callable[[str], None],
        wait_seconds: float | None,
        stop: Stop,
        wait: PoolWait,
        heard: Callable[[ChildRun], None],
        tags: Sequence[str] = (),
        created: Callable[[UUID], object] = lambda _: None,
    ) -> dict[str, Any] | None:
        """Have a child run do the work; return its outcome, or None where it was handed over."""
        await self._until_it_may_begin(stop)
        number = self._count = self._count + 1
        self.run_context.has_children = True
        place = segment_name(self.run_context.facts, number)
        await in_storage_thread(put, place)
        await wait.waits(number)
        try:
            came_by = self.queue, self.priority_cap
            run = await create_child_run(self.prefect, self.run_context, wants, came_by, number, name, stop, tags)
            created(run.id)
            await self.run_context.line.tell_worker(wants.pool)
            child = ChildRun(place, run.id, Life(self.silence_seconds), wait_seconds)
            is_over = await self._until_over(child, stop, partial(_heard, wait, number, heard))
        finally:
            await wait.leaves(number)
        if not is_over:
            return None
        outcome = await in_storage_thread(read_outcome, self.store, place)
        self.run_context.artifacts += [Artifact.model_validate(artifact) for artifact in outcome["artifacts"]]
        self.run_context.retried.update(outcome.get("retried", {}))
        return outcome

    async def _until_it_may_begin(self, stop: Stop) -> None:
        """Begin nothing under a pause, nor after a stop, be it that a child was handed over meanwhile."""
        while not stop.is_set():
            if not self.run_context.line.paused:
                return
            await asyncio.sleep(PAUSE_LOOK_SECONDS)
        raise Stopped("The run was asked to stop.")

    async def _until_over(self, child: ChildRun, stop: Stop, heard: Callable[[ChildRun], Awaitable[None]]) -> bool:
        """Wait until there is an outcome. False where the child was handed over; raises if it is lost."""
        look_at, told, loop = child.next_look(time.monotonic()), False, asyncio.get_running_loop()
        with self.run_context.line.hearing() as woken, self.states.watching(child.flow_run_id):
            stop.on_set(lambda: loop.call_soon_threadsafe(woken.set))
            while True:
                if await _happened(woken, min(look_at, self.states.next_at)):
                    child.hurry()
                    look_at = time.monotonic()
                if time.monotonic() >= look_at:
                    is_over = await self._look_for_outcome(child)
                    await heard(child)
                    if is_over or child.has_handed_over:
                        return bool(is_over)
                    look_at = child.next_look(time.monotonic())
                told = told or (stop.is_set() and await self._is_told_to_stop(child, stop))
                if child.waits_too_long(time.monotonic()):
                    await self._withdraw(child)
                    raise NoWorker(f"No worker took the child run up within {child.wait_seconds:.0f} s.")
                if (
                    self.states.has_more(child.asked_at)
                    and (over := await self._judge_by_prefect(child, heard)) is not None
                ):
                    return over
                if child.is_lost():
                    if child.sign is None:  # its worker may have died with it, and left it a slot of the pool
                        await self._withdraw(child)
                    raise ChildLost(self._reason_of_loss(child))

    async def _is_told_to_stop(self, child: ChildRun, stop: Stop) -> bool:
        """Whether the child was told to stop; raises where its end is not waited for."""
        if not await self._tell_to_stop(child):
            return False
        if child.sign is None:
            await self._withdraw(child)
        if stop.reason != "over" or child.sign is None:
            raise Stopped("The run was asked to stop.")
        return True

    async def _look_for_outcome(self, child: ChildRun) -> bool | None:
        """Look whether there is an outcome, and let the time pass that went by since the last look."""
        began = time.monotonic()
        is_over = await self._has_outcome(child)
        now = time.monotonic()
        blind = now - child.looked_at if is_over is None else now - began - PROMPT_SECONDS
        child.pass_time(now, is_paused=self.run_context.line.paused, blind_seconds=blind)
        return is_over

    def _reason_of_loss(self, child: ChildRun) -> str:
        if child.state in OVER:
            return f"The child run for {child.place} ended as {child.said} without an outcome."
        return f"The child run for {child.place} has shown no life for {self.silence_seconds:.0f} s."

    async def _has_outcome(self, child: ChildRun) -> bool | None:
        """Look at what the child has left. None where storage does not say: an outage is not the end of a child.

        One that outlasts all patience is the end of waiting.
        """
        try:
            has_begun = child.sign is not None
            is_over, child.sign = await in_sign_thread(
                read_signs, self.run_context.zones.runs, child.place, has_begun=has_begun
            )
        except Exception as error:
            allowed = self.run_context.outage_seconds if outage_of(error) else self.silence_seconds
            if time.monotonic() - child.seen_at > allowed:
                raise
            log.warning("storage does not say how a child does", extra={"child": child.place, "error": str(error)})
            return None
        child.seen_at = time.monotonic()
        return is_over

    async def _tell_to_stop(self, child: ChildRun) -> bool:
        """Leave word for the child. False where storage does not take it now."""
        try:
            await in_sign_thread(self.run_context.zones.runs.write_bytes, stop_mark(child.place), b"")
        except Exception as error:  # noqa: BLE001 - whatever a store raises
            log.warning("a child could not be told to stop", extra={"child": child.place, "error": str(error)})
            return False
        return True

    async def _judge_by_prefect(self, child: ChildRun, heard: Callable[[ChildRun], Awaitable[None]]) -> bool | None:
        """Judge the child by what Prefect says: None while it may end well, or where a hint is all there is."""
        said = await self._ask_prefect(child)
        if said is None or not said.is_final:
            return None
        is_over = await self._has_outcome(child)
        await heard(child)  # what it told last, which nobody may have looked at
        if is_over is not False or said.name == HANDED_OVER:
            return is_over
        if said.type is StateType.CANCELLED:
            raise ChildCancelled(f"The child run for {child.place} was cancelled.")
        if said.name == HANDLER_MISSING:
            raise ChildRefused(said.message or HANDLER_MISSING)
        return None

    async def _ask_prefect(self, child: ChildRun) -> Said | None:
        """Ask Prefect for the state of the child's flow run. None, where it does not say, says nothing of it."""
        said = await self.states.of(self.prefect, child.flow_run_id)
        child.asked_at, child.is_unheard = self.states.asked_at, self.states.is_silent
        if said is not None:
            child.state, child.said = said.type, said.name
        return said

    async def _withdraw(self, child: ChildRun) -> None:
        withdrawn: Any = Cancelled(message="Withdrawn before it began.")
        with contextlib.suppress(httpx.HTTPError, PrefectHTTPStatusError, ObjectNotFound, TimeoutError):
            async with asyncio.timeout(WITHDRAWN_SECONDS):
                await self.prefect.set_flow_run_state(child.flow_run_id, withdrawn)


async def _happened(woken: asyncio.Event, until: float) -> bool:
    """Whether it happened before that moment; it may happen anew."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(until - time.monotonic()):
            await woken.wait()
    happened = woken.is_set()
    woken.clear()
    return happened


async def _heard(wait: PoolWait, number: int, heard: Callable[[ChildRun], None], child: ChildRun) -> None:
    """What a look at a child has told."""
    if child.sign is not None:
        await wait.begins(number)
    heard(child)
