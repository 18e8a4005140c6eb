"""Child runs without Prefect: each order for one begins a task that does what a child run does, and can die.

Its worker takes a while to come, as its test says; what it would show in Prefect nobody sees.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import httpx
from prefect.client.schemas.objects import State as PrefectState
from prefect.client.schemas.objects import StateType

from domain.contracts.runs import RunFacts
from flows.compiler import Plan
from flows.handlers.errors import Outage
from flows.memory.ledger import Ledger
from flows.runs import segment
from flows.runs.child_flow_runs.liveness import tell_hand_over
from flows.runs.child_flow_runs.protocol import put_outcome, read_order, segment_name
from flows.runs.child_flow_runs.start import HANDED_OVER
from flows.runs.domain_client import AttemptClient
from flows.runs.run_context import PlanPath, RunContext
from flows.storage import LocalStore, Zones
from flows.storage.threads import in_storage_thread
from tests.support.many_flow_runs import ManyFlowRuns


@dataclass(frozen=True)
class CountingStore(LocalStore):
    """A folder that counts its calls, and can be out of reach."""

    calls: list[str] = field(default_factory=list)
    away: threading.Event = field(default_factory=threading.Event)

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name in {"size_bytes", "read_bytes", "read_range", "write_bytes", "write_new", "append", "names"}:
            if super().__getattribute__("away").is_set():
                raise Outage("out of reach")
            super().__getattribute__("calls").append(name)
        return found


@dataclass
class Child:
    """One child run, in this process."""

    number: int
    worker: str
    run_context: RunContext
    store: CountingStore
    task: "asyncio.Task[None] | None" = None
    state: StateType = StateType.SCHEDULED
    name: str = ""
    said: dict[str, Any] = field(default_factory=dict)


@dataclass
class ChildrenHere(ManyFlowRuns):
    """A stand-in for Prefect with workers: `worker_of` says which one takes a child, and after how long."""

    zones: Zones
    facts: RunFacts
    plan: Plan
    worker_of: Callable[[int], tuple[str, float]] = lambda number: (f"worker-{number}", 0.0)
    serving: int = 2
    silence_seconds: float = 60.0
    asked_for_workers: int = 0
    children: dict[int, Child] = field(default_factory=dict)
    tags: list[list[str] | None] = field(default_factory=list)

    async def read_work_pool(self, _name: str) -> Any:
        return SimpleNamespace(type="process")

    async def read_workers_for_work_pool(self, _name: str, **_named: Any) -> list[Any]:
        self.asked_for_workers += 1
        return [SimpleNamespace()] * self.serving

    async def read_deployment_by_name(self, _name: str) -> Any:
        return SimpleNamespace(id=UUID(int=0))

    async def create_flow_run_from_deployment(
        self, _deployment: UUID, parameters: dict[str, Any], tags: list[str] | None = None, **_named: Any
    ) -> Any:
        number = parameters["segment"]
        self.tags.append(tags)
        worker, after = self.worker_of(number)
        store = CountingStore(cast("LocalStore", self.zones.runs).root)
        zones = Zones(self.zones.bronze, self.zones.silver, self.zones.external, store)
        line = AttemptClient(cast("httpx.AsyncClient", None), UUID(int=1), "token", number)
        ledger = Ledger(store, "run/m1", f"child-{number}")
        run_context = RunContext(self.facts, "gdal", zones, line, ledger, worker_name=worker)
        run_context.silence_seconds = self.silence_seconds
        child = self.children[number] = Child(number, worker, run_context, store)
        child.task = asyncio.create_task(self._run(child, after))
        return SimpleNamespace(id=UUID(int=number))

    async def _run(self, child: Child, after: float) -> None:
        await asyncio.sleep(after)
        if child.state is StateType.CANCELLED:
            return
        child.state = StateType.RUNNING
        place = segment_name(self.facts, child.number)
        told = await in_storage_thread(read_order, child.store, place)
        outcome, _ = await segment._run_share(child.run_context, self.plan, PlanPath(), told, place)
        if child.run_context.line.stop.reason == "draining":
            await tell_hand_over(child.store, place)
            child.state, child.name = StateType.CANCELLED, HANDED_OVER
            return
        child.said = outcome
        await in_storage_thread(put_outcome, child.store, place, outcome | {"artifacts": []})
        child.state = StateType.COMPLETED

    def state_of(self, flow_run_id: UUID) -> "PrefectState[Any] | None":
        child = self.children[flow_run_id.int]
        return PrefectState(type=child.state, name=child.name or None)

    async def set_flow_run_state(self, flow_run_id: UUID, state: Any) -> None:
        self.children[flow_run_id.int].state = state.type

    async def kill(self, number: int) -> None:
        """End the child as SIGKILL does: it notes nothing down any more, and Prefect hears that it crashed."""
        child = self.children[number]
        child.store.away.set()
        child.run_context.line.stop.event.set()  # its handlers' threads leave
        assert child.task is not None
        child.task.cancel()
        with contextlib.suppress(BaseException):
            await child.task
        child.state = StateType.CRASHED

    async def close(self) -> None:
        for child in self.children.values():
            if child.task is not None:
                child.task.cancel()
                with contextlib.suppress(BaseException):
                    await child.task
