"""Child runs: work of a run done by other flow runs on another pool, told and answered by run storage.

A child shows that it lives by rewriting a small blob. Prefect alone cannot tell: a flow run whose worker was killed
with it stays `Running` for ever. Waiting costs a look at storage now and then, and a rare one at Prefect.
"""

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from uuid import UUID

import httpx
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.exceptions import ObjectNotFound, PrefectHTTPStatusError
from prefect.states import Cancelled

from domain.contracts.artifacts import Artifact
from domain.contracts.runs import RunFacts
from flows.compiler import Item, Outcome, RunError, State
from flows.engine import CountedItems, Engine, Place
from flows.errors import Broken, Stopped
from flows.flow_engine import answered
from flows.ledger import error_json, latest, read
from flows.outages import outage_of
from flows.stopping import Stop
from flows.storage import SmallStore
from flows.values import Values, to_json

log = logging.getLogger("cairn.children")
SEGMENT_FLOW = "segment"
HANDED_OVER = "HandedOver"
HANDLER_MISSING = "handler-missing"
FIRST_LOOK_SECONDS = 0.1
LONGEST_LOOK_SECONDS = 1.0
ASK_PREFECT_SECONDS = 5.0
BEAT_SECONDS = 2.0
PAUSE_LOOK_SECONDS = 1.0
BLIND_SECONDS = 5.0  # between two looks at a child: storage was away, or slow, for its signs too
TO_BEGIN = 5  # times the silence that a child is allowed while its worker prepares it


class ChildLost(Broken):
    """A child run died, or ended without leaving its outcome: the machinery failed, not the work."""

    code = "child-run-lost"


class ChildRefused(ChildLost):
    """A child run's worker is of a release that does not have what the run needs."""

    code = HANDLER_MISSING


class ChildCancelled(Broken):
    """An operator cancelled a child run in Prefect: the run that needs it is cancelled with it."""


class NoWorker(Exception):
    """No worker took the child up in the time that its node allows."""


@dataclass
class Life:
    """Whether a child still lives, by how long its sign has been the same. No clock but the watcher's own is used.

    A child may die before its first sign: from when Prefect says that a worker has it, silence counts too. A worker
    that starts a container for it is given longer.
    """

    silence_seconds: float
    _sign: tuple[bytes | None, StateType | None] = (None, None)
    _seen_at: float = 0.0

    def is_over(self, sign: bytes | None, state: StateType | None, now: float) -> bool:
        """True once a child that a worker has taken up has shown nothing new for too long."""
        if sign is None and state not in {StateType.PENDING, StateType.RUNNING}:
            return False
        seen = (sign, state if sign is None else None)
        if seen != self._sign:
            self._sign, self._seen_at = seen, now
        patience = TO_BEGIN if seen[1] is StateType.PENDING else 1
        return now - self._seen_at > patience * self.silence_seconds

    def forget(self) -> None:
        """Whoever watches could not see it for a while, and it may not have been able to show itself."""
        self._sign = (None, None)

    def excuse(self, seconds: float) -> None:
        """Let so much of its silence not count."""
        self._seen_at += seconds


@dataclass
class Child:
    """One child run, as its parent watches it."""

    place: str
    flow_run_id: UUID
    life: Life
    wait_seconds: float | None = None
    created_at: float = field(default_factory=time.monotonic)
    looked_at: float = field(default_factory=time.monotonic)
    asked_at: float = field(default_factory=time.monotonic)
    seen_at: float = field(default_factory=time.monotonic)
    sign: bytes | None = None
    state: StateType | None = None

    def pass_time(self, now: float, *, is_paused: bool) -> None:
        """Time goes on. Where a pause keeps the child from beginning, it is neither waited for nor silent."""
        if is_paused and self.sign is None:
            self.created_at += now - self.looked_at
            self.life.excuse(now - self.looked_at)
        self.looked_at = now

    def seen(self, now: float) -> None:
        """Storage has told how it does. After a time in which it did not, or slowly, its silence counts anew."""
        if now - self.seen_at > BLIND_SECONDS:
            self.life.forget()
        self.seen_at = now

    def waits_too_long(self, now: float) -> bool:
        """Whether no worker took it up in time. Without a bound the domain decides, which knows who serves."""
        return self.wait_seconds is not None and self.sign is None and now - self.created_at > self.wait_seconds

    @property
    def counts(self) -> tuple[int, int]:
        """How many of its items have ended well, and how many badly."""
        told = json.loads(self.sign) if self.sign else {}
        return told.get("done", 0), told.get("failed", 0)


@dataclass
class SegmentRuns:
    """Starts child runs for one flow run and waits for them."""

    prefect: PrefectClient
    engine: Engine
    silence_seconds: float
    queue: str | None = None
    _count: int = 0

    @property
    def _store(self) -> SmallStore:
        return self.engine.runs(self.engine.line.stop)

    async def stretch(
        self,
        pool: str,
        place: Place,
        nodes: Sequence[str],
        known: Mapping[str, Outcome],
        wait_seconds: float | None,
        stop: Stop,
        begun: Callable[[], None],
    ) -> Mapping[str, Outcome]:
        """Execute the nodes on the pool; returns how each of them ended."""
        values = self.engine.ledger.values
        order = _order(place) | {
            "nodes": list(nodes),
            "known": {name: outcome_json(outcome, values) for name, outcome in known.items()},
        }

        def heard(child: Child) -> None:
            if child.sign is not None:
                begun()

        told = await self._done(pool, ", ".join(nodes), {"order.json": to_json(order)}, wait_seconds, stop, heard)
        return {name: outcome_from_json(ended, values) for name, ended in told["nodes"].items()}

    async def items(
        self,
        pool: str,
        place: Place,
        node_id: str,
        shares: Sequence[tuple[Sequence[Item], int]],
        wait_seconds: float | None,
        stop: Stop,
        begun: Callable[[], None],
        counted: CountedItems,
    ) -> Mapping[int, Outcome]:
        """Execute shares of a fan-out's items side by side; returns how each item ended that was not stopped.

        Those that failed are among them where `counted` has said that going on makes no sense, whatever became of
        the child that told of them.
        """
        values, counts = self.engine.ledger.values, dict.fromkeys(range(len(shares)), (0, 0))
        cap = -(-self.engine.task_runs_cap // len(shares))
        enough = stop.inner()

        def heard(number: int, child: Child) -> None:
            if child.sign is not None:
                begun()
            counts[number] = child.counts
            if not counted(*(sum(column) for column in zip(*counts.values(), strict=True))):
                enough.set("over")

        async def share(number: int, items: Sequence[Item], at_once: int) -> dict[str, Any]:
            order = _order(place) | {"node": node_id, "at_once": at_once or None, "task_runs_cap": cap}
            lines = "".join(to_json([item.index, item.key, item.params]) + "\n" for item in items)
            name = f"{node_id} {items[0].index}-{items[-1].index}"
            files = {"order.json": to_json(order), "items.jsonl": lines}
            try:
                return await self._done(pool, name, files, wait_seconds, enough, partial(heard, number))
            except Stopped:  # before it began, or after its worker handed it over: then it left no outcome
                failed = {} if stop.is_set() else await asyncio.to_thread(self._failed, place.of(node_id), items)
                return {"items": failed}

        told = await _all_of((share(number, *one) for number, one in enumerate(shares)), enough)
        return {int(index): outcome_from_json(ended, values) for one in told for index, ended in one["items"].items()}

    def _failed(self, path: str, items: Sequence[Item]) -> dict[int, Any]:
        """Which of these items are remembered as failed, as an outcome tells it."""
        wanted, ledger = {(item.index, item.key) for item in items}, self.engine.ledger
        return {
            entry.index: {"state": State.FAILED.value, "output": {"value": None}, "error": entry.error}
            for entry in latest(read(ledger.store, ledger.memory, path))
            if entry.index is not None and (entry.index, entry.key) in wanted and not entry.is_completed
        }

    async def _done(
        self,
        pool: str,
        name: str,
        files: Mapping[str, str],
        wait_seconds: float | None,
        stop: Stop,
        heard: Callable[[Child], None],
    ) -> dict[str, Any]:
        """One child run's outcome. Where its worker handed it over, another one goes on from what is remembered."""
        while True:
            await self._until_it_may_begin(stop)
            number = self._count = self._count + 1
            place = segment_name(self.engine.facts, number)
            for file, content in files.items():
                await asyncio.to_thread(self._store.write_bytes, f"{place}/{file}", content.encode())
            run = await self._create(pool, number, name, stop)
            child = Child(place, run.id, Life(self.silence_seconds), wait_seconds)
            if await self._until_over(child, stop, heard):
                outcome: dict[str, Any] = json.loads(
                    await asyncio.to_thread(self._store.read_bytes, f"{place}/outcome.json")
                )
                self.engine.artifacts += [Artifact.model_validate(artifact) for artifact in outcome["artifacts"]]
                return outcome

    async def _until_it_may_begin(self, stop: Stop) -> None:
        """Begin nothing under a pause, nor after a stop, be it that a child was handed over meanwhile."""
        while not stop.is_set():
            if not self.engine.line.paused:
                return
            await asyncio.sleep(PAUSE_LOOK_SECONDS)
        raise Stopped("The run was asked to stop.")

    async def _create(self, pool: str, number: int, name: str, stop: Stop) -> FlowRun:
        line, facts = self.engine.line, self.engine.facts

        async def create() -> FlowRun:
            """Asked twice, it is the same one."""
            deployment = await self.prefect.read_deployment_by_name(f"{SEGMENT_FLOW}/{pool}")
            return await self.prefect.create_flow_run_from_deployment(
                deployment.id,
                parameters={"run_id": str(line.run_id), "attempt_token": line.token, "segment": number},
                name=f"{facts.id[:8]} {name}"[:200],
                work_queue_name=self.queue,
                idempotency_key=f"{SEGMENT_FLOW}/{pool}:{facts.id}:{facts.attempt}:{number}",
            )

        return await answered(create, f"the child run for {name}", stop)

    async def _until_over(self, child: Child, stop: Stop, heard: Callable[[Child], None]) -> bool:
        """Look now and then until there is an outcome. False where the child was handed over; raises if it is lost."""
        pause, told = FIRST_LOOK_SECONDS, False
        while True:
            await asyncio.sleep(pause)
            pause = min(pause * 1.3, LONGEST_LOOK_SECONDS)
            is_over = await self._has_outcome(child)
            heard(child)
            if is_over:
                return True
            if stop.is_set() and not told and (told := await self._told_to_stop(child)):
                if child.sign is None:
                    await self._withdraw(child)
                if stop.reason != "over" or child.sign is None:
                    raise Stopped("The run was asked to stop.")
            now = time.monotonic()
            child.pass_time(now, is_paused=self.engine.line.paused)
            if child.waits_too_long(now):
                await self._withdraw(child)
                raise NoWorker(f"No worker took the child run up within {child.wait_seconds:.0f} s.")
            if child.life.is_over(child.sign, child.state, now):
                raise ChildLost(f"The child run for {child.place} has shown no life for {self.silence_seconds:.0f} s.")
            if now - child.asked_at > ASK_PREFECT_SECONDS:
                child.asked_at = now
                if (over := await self._judged(child)) is not None:
                    return over

    async def _has_outcome(self, child: Child) -> bool | None:
        """Look at what the child has left. None where storage does not say: an outage is not the end of a child.

        One that outlasts all patience is the end of waiting.
        """
        try:
            is_over, child.sign = await asyncio.to_thread(_look, self.engine.zones.runs, child.place)
        except Exception as error:
            allowed = self.engine.outage_seconds if outage_of(error) else self.silence_seconds
            if time.monotonic() - child.seen_at > allowed:
                raise
            log.warning("storage does not say how a child does", extra={"child": child.place, "error": str(error)})
            return None
        child.seen(time.monotonic())
        return is_over

    async def _told_to_stop(self, child: Child) -> bool:
        """Leave word for the child. False where storage does not take it now."""
        try:
            await asyncio.to_thread(self._store.write_bytes, f"{child.place}/stop", b"")
        except Exception as error:  # noqa: BLE001 - whatever a store raises
            log.warning("a child could not be told to stop", extra={"child": child.place, "error": str(error)})
            return False
        return True

    async def _judged(self, child: Child) -> bool | None:
        """What Prefect says: None while the child may still end well."""
        try:
            run = await self.prefect.read_flow_run(child.flow_run_id)
        except ObjectNotFound:
            raise ChildLost(f"The child run for {child.place} is gone from Prefect.") from None
        except (httpx.HTTPError, PrefectHTTPStatusError):
            return None  # its silence says nothing of the child
        child.state = run.state.type if run.state else None
        if run.state is None or not run.state.is_final():
            return None
        if (is_over := await self._has_outcome(child)) is not False:
            return is_over
        if run.state.name == HANDED_OVER:
            return False
        if run.state.type is StateType.CANCELLED:
            raise ChildCancelled(f"The child run for {child.place} was cancelled.")
        if run.state.name == HANDLER_MISSING:
            raise ChildRefused(run.state.message or HANDLER_MISSING)
        raise ChildLost(f"The child run for {child.place} ended as {run.state.name} without an outcome.")

    async def _withdraw(self, child: Child) -> None:
        with contextlib.suppress(httpx.HTTPError, PrefectHTTPStatusError, ObjectNotFound):
            await self.prefect.set_flow_run_state(child.flow_run_id, Cancelled(message="Withdrawn before it began."))


async def _all_of(shares: Iterable[Coroutine[Any, Any, dict[str, Any]]], enough: Stop) -> list[dict[str, Any]]:
    """What each share came to. Where one is lost, the others are stopped and waited for: none works on unwatched."""
    watching = [asyncio.ensure_future(one) for one in shares]
    try:
        return await asyncio.gather(*watching)
    except Exception:
        enough.set("over")
        await asyncio.gather(*watching, return_exceptions=True)
        raise


def _order(place: Place) -> dict[str, Any]:
    return {"path": place.path, "workflow": place.workflow, "inputs": dict(place.inputs)}


def _look(store: SmallStore, place: str) -> tuple[bool, bytes | None]:
    """Whether there is an outcome, and the sign of life."""
    name = sign_of_life(place)
    sign = store.read_bytes(name) if store.size_bytes(name) is not None else None
    return store.size_bytes(f"{place}/outcome.json") is not None, sign


def segment_name(facts: RunFacts, number: int) -> str:
    """Where a child run's order and outcome lie in run storage."""
    return f"{facts.id}/a{facts.attempt}/segment-{number}"


def sign_of_life(place: str) -> str:
    """The blob that a child run rewrites while it lives."""
    return f"{place}/alive"


@asynccontextmanager
async def showing_life(
    store: SmallStore, place: str, counts: Callable[[], tuple[int, int]], stop: Stop
) -> AsyncIterator[None]:
    """Rewrite the child's sign of life while the block runs, and see whether its parent wants it to stop.

    A beat that storage does not take is left out: the parent counts silence, and the next one may pass.
    """

    def beat(number: int) -> bool:
        done, failed = counts()
        sign = {"beat": number, "done": done, "failed": failed}
        store.write_bytes(sign_of_life(place), json.dumps(sign).encode())
        return store.size_bytes(f"{place}/stop") is not None

    async def beats() -> None:
        number = 0
        while True:
            number += 1
            try:
                if await asyncio.to_thread(beat, number):
                    stop.set("over")
            except Exception as error:  # noqa: BLE001 - whatever a store raises
                log.warning("a sign of life was not taken", extra={"child": place, "error": str(error)})
            await asyncio.sleep(BEAT_SECONDS)

    heart = asyncio.create_task(beats())
    try:
        yield
    finally:
        heart.cancel()
        await asyncio.gather(heart, return_exceptions=True)


def read_items(store: SmallStore, place: str) -> Iterable[Item]:
    """The share of a fan-out that a child run was given."""
    for line in store.read_bytes(f"{place}/items.jsonl").splitlines():
        yield Item(*json.loads(line))


def outcome_json(outcome: Outcome, values: Values) -> dict[str, Any]:
    error = error_json(outcome.error) if outcome.error else None
    return {"state": outcome.state.value, "output": values.told(outcome.output), "error": error}


def outcome_from_json(data: Mapping[str, Any], values: Values) -> Outcome:
    error = RunError(**data["error"]) if data["error"] else None
    return Outcome(State(data["state"]), values.heard(data["output"]), error)
