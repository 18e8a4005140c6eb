"""Shares of a fan-out that end early: what a child tells of its items, and what its run makes of that. No Prefect."""

import asyncio
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import httpx
import pytest
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import State as PrefectState
from prefect.client.schemas.objects import StateType
from prefect.states import Failed as FailedState

from domain.contracts.runs import RunFacts
from flows.compiler import Cancelled, Failed, Item, NodeOutcome, RunError, Schedule, State
from flows.handlers.errors import InvalidInput, Stopped, Transient
from flows.memory.ledger import Ledger
from flows.prefect_engine.node_tasks import TaskRuns
from flows.runs import segment, taking
from flows.runs.child_flow_runs import prefect_states
from flows.runs.child_flow_runs.prefect_states import ChildStates
from flows.runs.child_flow_runs.protocol import segment_name, shared_folder, sign_of_life
from flows.runs.child_flow_runs.start import HANDED_OVER, SegmentRuns
from flows.runs.domain_client import AttemptClient
from flows.runs.fan_out import Share, Tell, run_items
from flows.runs.node_executor import NodeExecutor, Work
from flows.runs.run_context import PlanPath, RunContext
from flows.runs.runner import Runner
from flows.runs.shared_items import SharedItems
from flows.runs.stopping import Stop
from flows.storage import Store, Zones
from tests.flows.compiler.support import plan_of
from tests.support.clock import PATIENCE_SECONDS, eventually
from tests.support.many_flow_runs import ManyFlowRuns

FACTS = RunFacts(id="run", request_id="request", received_at=datetime(2026, 1, 1, tzinfo=UTC), attempt=1)
PLAN = plan_of(
    """
  start: {type: start, next: each}
  each:
    type: fan_out
    source: [0, 1, 2, 3]
    shards: 2
    task: {handler: scripted, queue: gdal, params: {n: "{{ item }}"}, retry: {delays_seconds: [600]}}
    next: all
  all: {type: fan_in, next: end}
  end: {type: end}"""
)
EACH = PLAN.nodes["each"]
FAILS = {"fails": None, "partner_fault": True}  # at once, and is not tried again
FAILS_ONCE = {"fails": 1}  # and waits ten minutes for its next try
LASTS = {"seconds": 600}


@pytest.fixture
def run_context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunContext:
    """A run context that tells nobody."""

    async def tell_nobody(_line: AttemptClient, _pool: str) -> None:
        """No domain is there."""

    monkeypatch.setattr(AttemptClient, "tell_worker", tell_nobody)
    zones = Zones.local(tmp_path)
    line = AttemptClient(cast("httpx.AsyncClient", None), UUID(int=1), "token")
    return RunContext(FACTS, "light", zones, line, Ledger(zones.runs, "run/m1", "a"))


@pytest.fixture(autouse=True)
def no_worker_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of child runs: there is no domain that would pass it on."""

    async def pass_on_nothing(*_: Any) -> None:
        """Nobody hears it."""

    monkeypatch.setattr(AttemptClient, "tell_worker", pass_on_nothing)


def items(params: Sequence[dict[str, Any]]) -> list[Item]:
    return [Item(index, str(index), one) for index, one in enumerate(params)]


async def share_done(
    run_context: RunContext,
    monkeypatch: pytest.MonkeyPatch,
    params: Sequence[dict[str, Any]],
    stop_once: Callable[[set[int]], bool] = lambda _told: False,
) -> tuple[dict[int, Any], str]:
    """What a child tells of these items, without task runs, and its end.

    It is stopped as soon as the question is answered with yes, which is asked with the items that were told.
    """
    heard: set[int] = set()

    async def unseen(executor: NodeExecutor, share: Share, tell: Tell, *, visible: bool, **more: Any) -> None:
        async def hear(index: int, outcome: NodeOutcome) -> None:
            await tell(index, outcome)
            heard.add(index)

        await run_items(executor, share, hear, visible=not visible, **more)

    async def stop() -> None:
        await eventually(lambda: stop_once(heard))
        run_context.line.stop.set("over")

    monkeypatch.setattr(taking, "run_items", unseen)
    place, folder = segment_name(FACTS, 1), shared_folder(FACTS, 1)
    SharedItems(run_context.zones.runs, folder).put(items(params), 1)
    order = {"node": "each", "shared": folder, "alone": False, "at_once": None, "task_runs_cap": 10, "count": 2}
    stopping = asyncio.create_task(stop())
    async with asyncio.timeout(PATIENCE_SECONDS):
        told, verdict = await segment._run_share(run_context, PLAN, PlanPath(), order, place)
    stopping.cancel()
    await asyncio.gather(stopping, return_exceptions=True)
    return told["items"], segment._final_state(verdict).name or ""


async def test_item_cut_short_by_a_stop_is_not_reported_as_failed(
    run_context: RunContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its run applies what it is told in item order: the first failure would be "asked to stop", and speak for all."""
    ended, end = await share_done(run_context, monkeypatch, [LASTS, FAILS], lambda told: 1 in told)
    assert {index: outcome["error"]["code"] for index, outcome in ended.items()} == {1: "invalid-input"}
    assert end == "Cancelled"


async def test_handler_that_raises_stopped_without_a_stop_has_failed(run_context: RunContext) -> None:
    """Were it only stopped, whoever waits for the item would do so for ever."""
    executor, (item,) = NodeExecutor(run_context, run_context.line.stop), items([LASTS])
    outcome = await executor.outcome_of_failure(Work(EACH, "each", item.params, item), 0, Stopped("on a whim"))
    assert outcome.state is State.FAILED
    run_context.line.stop.set("over")
    outcome = await executor.outcome_of_failure(Work(EACH, "each", item.params, item), 0, Stopped("as asked"))
    assert outcome.state is State.CANCELLED


async def test_stopped_shard_does_not_wait_for_another_try(
    run_context: RunContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its next would be due in ten minutes, as the other item would end."""

    def has_failed(_told: set[int]) -> bool:
        runs = run_context.zones.runs
        return any(b'"failed": true' in runs.read_bytes(name) for name in runs.names(f"trials/{FACTS.id}"))

    assert await share_done(run_context, monkeypatch, [FAILS_ONCE, LASTS], has_failed) == ({}, "Cancelled")


async def test_item_that_fails_during_a_stop_is_cancelled_and_not_retried(
    run_context: RunContext,
) -> None:
    """A handler may make a fault of its own of being told to leave."""
    executor, (item,) = NodeExecutor(run_context, Stop()), items([LASTS])
    work, error = Work(EACH, "each", item.params, item), Transient("The connection was cut.")
    task: Any = TaskRuns(executor, EACH, of_items=True)._task
    assert task.retry_condition_fn(task, None, FailedState(data=error))
    assert not task.retry_condition_fn(task, None, FailedState(data=InvalidInput("no raster")))
    assert inspect.isfunction(task.retry_condition_fn)  # Prefect calls nothing else, and says nothing of it
    executor.stop.set("draining")
    assert not task.retry_condition_fn(task, None, FailedState(data=error))
    tries = len(EACH.retry.delays())
    assert (await executor.outcome_of_failure(work, tries - 1, error)).state is State.CANCELLED
    assert (await executor.outcome_of_failure(work, tries, error)).state is State.FAILED
    assert (await executor.outcome_of_failure(work, 0, InvalidInput("no raster"))).state is State.FAILED


@dataclass
class Draining(ManyFlowRuns):
    """A stand-in for Prefect whose workers drain: each takes a child, has it show a failed item, and hands over.

    What comes after the first two stays in the queue.
    """

    store: Store
    created: list[int] = field(default_factory=list)

    async def read_deployment_by_name(self, name: str) -> Any:
        return SimpleNamespace(id=UUID(int=0))

    async def create_flow_run_from_deployment(
        self, _deployment: UUID, parameters: dict[str, Any], **_named: Any
    ) -> Any:
        number = parameters["segment"]
        self.created.append(number)
        if number <= 2:
            self.store.write_bytes(sign_of_life(segment_name(FACTS, number)), b'{"beat": 1, "done": 0, "failed": 1}')
        return SimpleNamespace(id=UUID(int=number))

    def state_of(self, flow_run_id: UUID) -> PrefectState[Any] | None:
        if flow_run_id.int <= 2:
            return PrefectState(type=StateType.CANCELLED, name=HANDED_OVER)
        return PrefectState(type=StateType.SCHEDULED)

    async def set_flow_run_state(self, *_: Any) -> None:
        """A child is withdrawn."""


async def run_over(run_context: RunContext, monkeypatch: pytest.MonkeyPatch) -> tuple[Failed, list[int]]:
    """How a run ends whose children are handed over after failures, and which children it had."""
    monkeypatch.setattr(prefect_states, "ASK_SECONDS", 0.0)
    prefect = Draining(run_context.zones.runs)
    run_context.children = SegmentRuns(
        cast("PrefectClient", prefect), run_context, silence_seconds=60, states=ChildStates()
    )
    async with asyncio.timeout(PATIENCE_SECONDS):
        verdict = await Runner(run_context, Schedule(PLAN), Stop(), visible=False).run_plan()
    assert isinstance(verdict, Failed)
    return verdict, prefect.created


async def test_failed_item_is_known_after_its_child_run_is_handed_over(
    run_context: RunContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other children were withdrawn or handed over too: nobody but the ledger knows what failed."""
    executor = NodeExecutor(run_context, Stop())
    third = Item(2, "2", {"n": 2})
    await executor.outcome_of_failure(
        Work(EACH, "each", third.params, third), 0, InvalidInput("The third is no raster.")
    )
    verdict, created = await run_over(run_context, monkeypatch)
    assert verdict.error.code == "too-many-failures"
    assert (
        verdict.error.message
        == "1 of 4 children failed, 0 succeeded, 3 not begun or cut short; each__2: The third is no raster."
    )
    assert verdict.error.partner_may_read
    assert set(created) <= {1, 2}


async def test_fan_out_with_too_many_failures_ends_without_their_outcomes(
    run_context: RunContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    verdict, _ = await run_over(run_context, monkeypatch)
    assert (verdict.error.code, verdict.error.node_id) == ("too-many-failures", "each")


def told_of(run_context: RunContext, node_id: str) -> list[str]:
    """The states that the domain is told of the node, without repetitions."""
    states = [event.state for event in run_context.line._events if event.node_id == node_id]
    return [state for number, state in enumerate(states) if number == 0 or state != states[number - 1]]


@dataclass
class Queued(Draining):
    """A stand-in for Prefect whose pool nobody serves: children begin and are handed over where a test says so."""

    handed_over: set[int] = field(default_factory=set)

    async def create_flow_run_from_deployment(
        self, _deployment: UUID, parameters: dict[str, Any], **_named: Any
    ) -> Any:
        self.created.append(parameters["segment"])
        return SimpleNamespace(id=UUID(int=parameters["segment"]))

    def begin(self, number: int) -> None:
        self.store.write_bytes(sign_of_life(segment_name(FACTS, number)), b'{"beat": 1, "done": 0, "failed": 0}')

    def state_of(self, flow_run_id: UUID) -> PrefectState[Any] | None:
        if flow_run_id.int in self.handed_over:
            return PrefectState(type=StateType.CANCELLED, name=HANDED_OVER)
        return PrefectState(type=StateType.RUNNING)


async def test_fan_out_is_dispatched_until_one_of_its_shards_has_begun(
    run_context: RunContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where its row says that it runs, nobody ever hears that no worker serves its pool."""
    monkeypatch.setattr(prefect_states, "ASK_SECONDS", 0.0)
    prefect, stop = Queued(run_context.zones.runs), Stop()
    run_context.children = SegmentRuns(
        cast("PrefectClient", prefect), run_context, silence_seconds=600, states=ChildStates()
    )
    running = asyncio.create_task(Runner(run_context, Schedule(PLAN), stop, visible=False).run_plan())
    await eventually(lambda: len(prefect.created) == 2)
    assert told_of(run_context, "each") == ["dispatched"]
    prefect.begin(2)
    await eventually(lambda: told_of(run_context, "each") == ["dispatched", "running"])
    prefect.handed_over.add(2)
    await eventually(lambda: len(prefect.created) == 3)  # and the first has never begun
    await eventually(lambda: told_of(run_context, "each") == ["dispatched", "running", "dispatched"])
    prefect.begin(3)
    await eventually(lambda: told_of(run_context, "each")[3:] == ["running"])
    stop.set("over")
    await asyncio.wait_for(running, PATIENCE_SECONDS)


async def test_finished_shard_is_completed_whatever_items_failed(
    run_context: RunContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended, end = await share_done(run_context, monkeypatch, [FAILS, {}])
    assert {index: outcome["state"] for index, outcome in ended.items()} == {0: "failed", 1: "completed"}
    assert end == "Completed"


def test_segment_ends_failed_by_itself_and_cancelled_by_its_run() -> None:
    schedule = Schedule(PLAN)
    schedule.begin()
    [*_, stopped] = schedule.apply(Cancelled())
    assert isinstance(stopped, Failed)
    assert segment._final_state(stopped).name == "Cancelled"
    assert segment._final_state(Failed(RunError("handler-failed", "boom", "each"))).message == "each: boom"
