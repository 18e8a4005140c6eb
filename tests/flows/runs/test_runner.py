"""The runner and its hands in this process: what they keep in memory, and what they do again. Neither Prefect nor the
domain is there: the plan runs as one inside an item does, of which nobody is told.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Any, ClassVar, cast

import pytest
from pydantic import BaseModel

from domain.contracts.artifacts import Artifact
from domain.contracts.runs import NodeEvent, RunFacts
from flows.compiler import Finished, Node, NodeOutcome, Plan, Schedule, State
from flows.handlers import registry
from flows.handlers.context import Context
from flows.handlers.errors import HandlerError
from flows.handlers.registry import handler
from flows.memory import measured
from flows.memory.large_values import TRAVELS_BYTES, Stored, plain
from flows.memory.ledger import Ledger
from flows.runs.child_flow_runs.wants import ChildWants
from flows.runs.domain_client import AttemptClient
from flows.runs.run_context import ChildRuns, PlanPath, RunContext
from flows.runs.runner import Runner, Verdict
from flows.runs.stopping import Stop
from flows.storage import LocalStore, Zones
from tests.flows.compiler.support import plan_of
from tests.support.clock import PATIENCE_SECONDS, eventually

FACTS = RunFacts(id="run", request_id="request", received_at=datetime(2026, 1, 1, tzinfo=UTC), attempt=1)
NAME = "test.counted"


class Asked(BaseModel):
    name: str = ""
    fails: int = 0
    size: int = 0
    text: str = ""
    given: Any = None


class Made(BaseModel):
    text: str = ""
    size: int = 0
    artifacts: list[Artifact] = []


@pytest.fixture
def calls() -> Iterator["Counter[str]"]:
    """How often the handler of these tests was called, by the name that it was given."""
    counted: Counter[str] = Counter()

    @handler(NAME, pool="light", example=Made())
    def count(params: Asked, context: Context) -> Made:
        counted[params.name] += 1
        context.logger.info("counts %s", params.name)
        context.metric("calls", 1)
        context.metric("no name", 1)
        if counted[params.name] <= params.fails:
            raise HandlerError("failed as asked")
        left = Artifact(
            role="text", zone="silver", name=f"a/{params.name}", media_type="text/plain", sha256="0" * 64, size_bytes=1
        )
        return Made(text="x" * params.size, size=len(params.text), artifacts=[left])

    registry.registry.cache_clear()
    yield counted
    registry._declared.pop(NAME)
    registry.registry.cache_clear()


@dataclass(frozen=True)
class Ended:
    verdict: Verdict
    schedule: Schedule
    artifacts: list[Artifact]

    @property
    def outputs(self) -> dict[str, Any]:
        assert isinstance(self.verdict, Finished), self.verdict
        found: dict[str, Any] = plain(dict(self.verdict.outputs))
        return found

    def output(self, node: str) -> Any:
        return self.schedule.outcomes[node].output


def run_context_in(root: Path, plans: Mapping[str, Plan] | None = None) -> RunContext:
    zones = Zones.local(root)
    return RunContext(
        FACTS, "light", zones, cast("AttemptClient", Nobody()), Ledger(zones.runs, "run/m1", "a"), plans=plans or {}
    )


class Nobody:
    """Who is told of nodes that wait for another pool."""

    def note(self, event: NodeEvent) -> None:
        """Hear it."""


async def run(root: Path, plan: Plan, plans: Mapping[str, Plan] | None = None) -> Ended:
    run_context = run_context_in(root, plans)
    schedule = Schedule(plan, {}, run_context.schedule_facts)
    with closing(run_context):
        verdict = await Runner(run_context, schedule, Stop(), PlanPath("outer."), visible=False).run_plan()
    return Ended(verdict, schedule, run_context.left)


LARGE = f"""
  start: {{type: start, next: [large, each]}}
  large: {{handler: {NAME}, params: {{name: large, size: {TRAVELS_BYTES}}}, next: reads}}
  reads: {{handler: {NAME}, params: {{name: reads, text: "{{{{ nodes.large.output.text }}}}"}}, next: end}}
  each:
    type: fan_out
    source: [one, two]
    task: {{handler: {NAME}, params: {{name: "{{{{ item }}}}", size: {TRAVELS_BYTES}}}}}
    next: all
  all: {{type: fan_in, next: end}}
  end: {{type: end}}
"""
OUTPUTS = '{read: "{{ nodes.reads.output.size }}", all: "{{ nodes.all.output.results }}"}'


async def test_large_output_is_stored_and_read_by_templates(tmp_path: Path, calls: "Counter[str]") -> None:
    ended = await run(tmp_path, plan_of(LARGE, outputs=OUTPUTS))
    assert isinstance(ended.output("large"), Stored)
    assert not isinstance(ended.output("reads"), Stored)  # it is small
    items = ended.output("all")["results"]
    assert [type(item) for item in items] == [Stored, Stored]
    assert not any("content" in vars(item) for item in items)  # nobody has looked into them yet
    assert ended.outputs["read"] == TRAVELS_BYTES
    assert [len(item["text"]) for item in ended.outputs["all"]] == [TRAVELS_BYTES] * 2
    assert sorted(left.name for left in ended.artifacts) == ["a/large", "a/one", "a/reads", "a/two"]


@dataclass(frozen=True)
class Slow(LocalStore):
    """A zone that gives kept values only after the event loop has gone on meanwhile."""

    loop_went_on: ClassVar[Event] = Event()
    asked: ClassVar[Event] = Event()

    def read_bytes(self, name: str) -> bytes:
        if "/values/" in name:
            self.asked.set()
            assert self.loop_went_on.wait(PATIENCE_SECONDS), "the event loop stands still"
        return super().read_bytes(name)


@pytest.mark.usefixtures("calls")
async def test_event_loop_goes_on_while_storage_is_slow_to_return_a_kept_value(tmp_path: Path) -> None:
    """In a light worker it is the loop of hundreds of runs: none of them could say that it lives."""
    store = Slow(tmp_path / "runs")
    store.loop_went_on.clear()

    async def go_on() -> None:
        await eventually(store.asked.is_set)
        store.loop_went_on.set()

    run_context = run_context_in(tmp_path)
    run_context.zones, run_context.ledger = replace(run_context.zones, runs=store), Ledger(store, "run/m1", "a")
    for _ in ("does it", "remembers it"):
        store.asked.clear()
        store.loop_went_on.clear()
        going_on = asyncio.create_task(go_on())
        schedule = Schedule(plan_of(LARGE, outputs=OUTPUTS), {}, run_context.schedule_facts)
        verdict = await Runner(run_context, schedule, Stop(), visible=False).run_plan()
        assert isinstance(verdict, Finished), verdict
        await going_on
    run_context.close()


PASSED_ON = f"""
  start: {{type: start, next: large}}
  large: {{handler: {NAME}, params: {{name: large, size: {TRAVELS_BYTES}}}, next: [whole, each]}}
  whole: {{handler: {NAME}, params: {{name: whole, given: "{{{{ nodes.large.output }}}}"}}, next: end}}
  each:
    type: fan_out
    source: [one, two]
    task: {{handler: {NAME}, params: {{name: "{{{{ item }}}}", given: "{{{{ nodes.large.output }}}}"}}}}
    next: all
  all: {{type: fan_in, next: end}}
  end: {{type: end}}
"""


async def test_kept_value_is_passed_on_without_reading_storage_in_the_event_loop(
    tmp_path: Path, calls: "Counter[str]"
) -> None:
    """Stores refuse the loop's thread: the node that is given it, and its items, would fail."""
    for _ in ("does it", "remembers it"):
        ended = await run(tmp_path, plan_of(PASSED_ON))
        assert ended.outputs == {}
        assert ended.schedule.outcomes["all"].output["count"] == 2
    assert calls == {"large": 1, "whole": 1, "one": 1, "two": 1}


async def test_work_whose_kept_result_is_damaged_is_done_again(tmp_path: Path, calls: "Counter[str]") -> None:
    """As a power cut leaves it, or a disk that is worn."""
    await run(tmp_path, plan_of(LARGE, outputs=OUTPUTS))
    kept = list((tmp_path / "runs/run/m1/values").iterdir())
    damages: list[Callable[[bytes], bytes | None]] = [
        lambda whole: b"",
        lambda whole: b"\0" * len(whole),
        lambda whole: whole[: len(whole) // 2],
        lambda whole: None,
    ]
    for damage in damages:
        for file in kept:
            whole = file.read_bytes()
            file.unlink()
            if (left := damage(whole)) is not None:
                file.write_bytes(left)
        again = await run(tmp_path, plan_of(LARGE, outputs=OUTPUTS))
        assert again.outputs["read"] == TRAVELS_BYTES
        assert [len(item["text"]) for item in again.outputs["all"]] == [TRAVELS_BYTES] * 2
    assert calls == {"large": 5, "one": 5, "two": 5, "reads": 1}  # what is small is remembered


async def test_a_sub_workflow_that_is_tried_again_keeps_what_had_succeeded(
    tmp_path: Path, calls: "Counter[str]"
) -> None:
    inner = plan_of(
        f"""
  start: {{type: start, next: a}}
  a: {{handler: {NAME}, params: {{name: a}}, next: b}}
  b: {{handler: {NAME}, params: {{name: b, fails: 2}}, retry: {{max_attempts: 0}}, next: end}}
  end: {{type: end}}
"""
    )
    outer = plan_of(
        """
  start: {type: start, next: sub}
  sub: {type: workflow, workflow: inner, retry: {max_attempts: 2, delays_seconds: [0.01]}, next: end}
  end: {type: end}
""",
        siblings={"inner": inner},
    )
    ended = await run(tmp_path, outer, {"inner": inner})
    assert ended.outputs == {}
    assert calls == {"a": 1, "b": 3}
    assert sorted(left.name for left in ended.artifacts) == ["a/a", "a/b"]


SKIPPED = f"""
  start: {{type: start, next: a}}
  a: {{handler: {NAME}, queue: gdal, next: [b, c, end]}}
  b: {{handler: {NAME}, queue: gdal, when: "nodes.a.output.size > 0", next: end}}
  c: {{handler: {NAME}, when: "nodes.a.output.size > 0", next: end}}
  end: {{type: end}}
"""


class Elsewhere:
    """A child run, which has shown what it skipped."""

    async def run_stretch(
        self, wants: ChildWants, place: PlanPath, nodes: Sequence[str], *_: Any
    ) -> Mapping[str, NodeOutcome]:
        assert nodes == ["a", "b"]
        return {"a": NodeOutcome(State.COMPLETED, {"size": 0}), "b": NodeOutcome(State.SKIPPED)}


@pytest.mark.usefixtures("calls")
async def test_a_node_that_is_skipped_elsewhere_is_shown_there_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[str] = []

    async def show(node: Node) -> None:
        shown.append(node.id)

    monkeypatch.setattr("flows.runs.runner.show_skipped", show)
    run_context = run_context_in(tmp_path)
    run_context.children = cast("ChildRuns", Elsewhere())
    with closing(run_context):
        schedule = Schedule(plan_of(SKIPPED), {}, run_context.schedule_facts)
        verdict = await Runner(run_context, schedule, Stop(), PlanPath("outer.")).run_plan()
    assert isinstance(verdict, Finished)
    assert shown == ["c"]


class Told(Nobody):
    """Who is told of the run's own nodes."""

    def __init__(self) -> None:
        self.events: list[NodeEvent] = []

    def note(self, event: NodeEvent) -> None:
        self.events.append(event)


AGAIN = f"""
  start: {{type: start, next: [one, many]}}
  one: {{handler: {NAME}, params: {{name: one, fails: 2}}, retry: {{delays_seconds: [0.01, 0.01]}}, next: end}}
  many:
    type: fan_out
    source: [a, b, c]
    task: {{handler: {NAME}, params: {{name: "{{{{ item }}}}", fails: 1}}, retry: {{delays_seconds: [0.01]}}}}
    next: all
  all: {{type: fan_in, next: end}}
  end: {{type: end}}
"""


async def test_each_retry_of_a_node_is_told_with_its_reason_and_those_of_items_are_counted(
    tmp_path: Path, calls: "Counter[str]"
) -> None:
    run_context = replace(run_context_in(tmp_path), line=cast("AttemptClient", told := Told()))
    schedule = Schedule(plan_of(AGAIN), {}, run_context.schedule_facts)
    with closing(run_context):
        verdict = await Runner(run_context, schedule, Stop(), visible=False).run_plan()
    assert isinstance(verdict, Finished)
    of_one = [(event.state, event.tries, event.problem and event.problem.message) for event in told.events
              if event.node_id == "one"]  # fmt: skip
    assert of_one == [
        ("running", 1, None), ("ready", 1, "failed as asked"), ("running", 2, None), ("ready", 2, "failed as asked"),
        ("running", 3, None), ("completed", None, None),
    ]  # fmt: skip
    counted = [event for event in told.events if event.node_id == "many" and event.items_total]
    assert (counted[-1].items_done, counted[-1].items_retried) == (3, 3)
    assert all(event.state != "ready" for event in told.events if event.node_id == "many")


async def test_what_tries_measure_is_summed_once_whoever_goes_on(tmp_path: Path, calls: "Counter[str]") -> None:
    """Failed tries count; the attempt that remembers what was done adds nothing to it."""
    for _ in ("first attempt", "second attempt"):
        run_context = run_context_in(tmp_path)
        schedule = Schedule(plan_of(AGAIN), {}, run_context.schedule_facts)
        with closing(run_context):
            await Runner(run_context, schedule, Stop(), PlanPath("outer."), visible=False).run_plan()
        assert calls.total() == 3 + 3 * 2
        assert measured.sums(run_context.zones.runs, run_context.ledger.memory) == {"calls": 9.0}
