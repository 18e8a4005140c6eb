"""A run without workers: the same Plan through the same Schedule, with fixtures for work and a virtual clock.

Knows no Prefect, no storage and no handler code: a try returns its fixture, or its handler's declared example, and
fails where it was told to. Time passes only in the heap of what comes next.
"""

from collections import deque
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from types import MappingProxyType
from typing import Any, assert_never

from flows.compiler.messages import (
    Decision,
    ExecuteNode,
    Expand,
    Failed,
    Finished,
    Item,
    ItemCompleted,
    ItemFailed,
    NodeCompleted,
    NodeFailed,
    NodeOutcome,
    RunError,
    Settled,
    Skipped,
    StopRunning,
)
from flows.compiler.plan import Node, Plan
from flows.compiler.schedule import Schedule
from flows.compiler.states import State
from flows.handlers.registry import AnyHandler

TRY_SECONDS = 1.0
RUN = {"id": "simulated-run", "request_id": "simulated-request", "asset_id": "simulated-asset", "version_ordinal": 0}
_MAX_DEPTH = 20
_End = NodeCompleted | NodeFailed | ItemCompleted | ItemFailed


class NoFixture(LookupError):
    """Nothing says what a node returns."""


@dataclass(frozen=True)
class TraceLine:
    """One line of the trace: a node, or a child of a fan-out, enters a state."""

    at_seconds: float
    node_id: str
    state: State
    try_number: int = 0
    params: Mapping[str, Any] | None = None
    output: Any = None
    error: str | None = None


@dataclass(frozen=True)
class World:
    """What a simulation may draw on instead of workers."""

    handlers: Mapping[str, AnyHandler] = field(default_factory=dict)
    plans: Mapping[str, Plan] = field(default_factory=dict)
    fixtures: Mapping[str, Any] = field(default_factory=dict)
    failures: Mapping[str, int | None] = field(default_factory=dict)  # how many tries fail; None: all of them


@dataclass(frozen=True)
class Simulation:
    """How a simulated run went."""

    trace: tuple[TraceLine, ...]
    states: Mapping[str, State]
    outputs: Mapping[str, Any] | None
    error: RunError | None
    seconds: float

    @property
    def succeeded(self) -> bool:
        return self.error is None

    def to_json(self) -> dict[str, Any]:
        error = self.error.__dict__ if self.error else None
        steps = [{key: value for key, value in step.__dict__.items() if value is not None} for step in self.trace]
        return {
            "outputs": self.outputs,
            "error": error,
            "seconds": self.seconds,
            "states": dict(self.states),
            "trace": steps,
        }


@dataclass
class _Work:
    """One try-able piece of work: a node, or one item of a fan-out."""

    node: Node
    name: str
    params: Mapping[str, Any]
    item: Item | None = None
    tries: int = 0


def simulate(
    plan: Plan,
    inputs: Mapping[str, Any],
    world: World,
    *,
    only: Collection[str] | None = None,
    known: Mapping[str, NodeOutcome] | None = None,
    depth: int = 0,
) -> Simulation:
    """Run the plan. Raises InputFault for bad inputs and NoFixture where nothing says what a node returns."""
    resolved = plan.resolve_inputs(inputs) if only is None else {**_defaults(plan), **inputs}
    told = known if known is not None or only is None else _known_from_fixtures(plan, world, only)
    return _Simulator(plan, Schedule(plan, resolved, RUN, only, told), world, depth).run()


def _defaults(plan: Plan) -> dict[str, Any]:
    return {name: item.default for name, item in plan.inputs.items() if item.has_default}


def _known_from_fixtures(plan: Plan, world: World, only: Collection[str]) -> dict[str, NodeOutcome]:
    """Upstream outputs of a part: fixtures, else examples."""
    known = {}
    for name, node in plan.nodes.items():
        if name not in only and (name in world.fixtures or node.handler in world.handlers) and not node.fan_out:
            known[name] = NodeOutcome(State.COMPLETED, _work_output(_Work(node, name, {}), world))
    return known


def _work_output(work: _Work, world: World) -> Any:
    """What a try returns: the fixture of the child, of the node (one per child, if a list), or the example."""
    if work.name in world.fixtures:
        return world.fixtures[work.name]
    if work.node.id in world.fixtures:
        given = world.fixtures[work.node.id]
        by_index = isinstance(given, list) and work.item and work.item.index < len(given)
        return given[work.item.index] if by_index and work.item else given
    if work.node.handler is not None and work.node.handler in world.handlers:
        return world.handlers[work.node.handler].example.model_dump(mode="json")
    raise NoFixture(f"nothing says what {work.name!r} returns: give it in a fixtures file")


class _Simulator:
    """Drives one schedule by the clock."""

    def __init__(self, plan: Plan, schedule: Schedule, world: World, depth: int) -> None:
        self.plan, self.schedule, self.world, self.depth = plan, schedule, world, depth
        self.now = 0.0
        self.trace: list[TraceLine] = []
        self.outputs: Mapping[str, Any] | None = None
        self.error: RunError | None = None
        self._order = count()
        self._agenda: list[tuple[float, int, _Work, _End | None]] = []
        self._queues: dict[str, deque[_Work]] = {}

    def run(self) -> Simulation:
        self._carry_out(self.schedule.begin())
        while self._agenda:
            self.now, _, work, event = heappop(self._agenda)
            if event is None:
                self._try(work)
            else:
                self._conclude(work, event)
        states = MappingProxyType(dict(self.schedule.states))
        return Simulation(tuple(self.trace), states, self.outputs, self.error, self.now)

    def _carry_out(self, decisions: list[Decision]) -> None:
        for decision in decisions:
            match decision:
                case ExecuteNode():
                    node = self.plan.nodes[decision.node_id]
                    self._begin(_Work(node, node.id, decision.params))
                case Expand():
                    self._expand(decision)
                case Settled():
                    message = decision.error.message if decision.error else None
                    self._note(decision.node_id, decision.state, output=decision.output, error=message)
                case Skipped():
                    self._note(decision.node_id, State.SKIPPED)
                case StopRunning():
                    self._stop(decision.node_ids)
                case Finished():
                    self.outputs = decision.outputs
                case Failed():
                    self.error = decision.error
                case _:
                    assert_never(decision)

    def _expand(self, decision: Expand) -> None:
        node = self.plan.nodes[decision.node_id]
        self._note(node.id, State.READY)
        queue = deque(_Work(node, f"{node.id}__{item.index}", item.params, item) for item in decision.items)
        self._queues[node.id] = queue
        for _ in range(min(len(queue), decision.max_concurrency or len(queue))):
            self._begin(queue.popleft())

    def _begin(self, work: _Work) -> None:
        self._note(work.name, State.READY, work.tries, params=work.params)
        self._later(0, work, None)

    def _try(self, work: _Work) -> None:
        self._note(work.name, State.DISPATCHED, work.tries)
        self._note(work.name, State.RUNNING, work.tries)
        failing = self._failure_of(work)
        if failing is None or work.tries < failing:
            self._later(TRY_SECONDS, work, self._failed(work, "failed as asked"))
        elif work.node.workflow and not self._has_fixture(work):
            self._run_inner(work)
        else:
            self._later(TRY_SECONDS, work, self._completed(work, _work_output(work, self.world)))

    def _failure_of(self, work: _Work) -> int | None:
        failures = self.world.failures
        return failures.get(work.name, failures.get(work.node.id, 0))

    def _has_fixture(self, work: _Work) -> bool:
        return work.name in self.world.fixtures or work.node.id in self.world.fixtures

    def _run_inner(self, work: _Work) -> None:
        """Simulate a sub-workflow in its own time; its outputs are the node's."""
        inner = self.world.plans.get(work.node.workflow or "")
        if inner is None or self.depth >= _MAX_DEPTH:
            raise NoFixture(
                f"nothing says what {work.name!r} returns: give workflow {work.node.workflow!r}, or a fixture"
            )
        result = simulate(inner, work.params, World(self.world.handlers, self.world.plans), depth=self.depth + 1)
        event = self._failed(work, result.error.message) if result.error else self._completed(work, result.outputs)
        self._later(result.seconds, work, event)

    def _conclude(self, work: _Work, event: _End) -> None:
        """A try ended: retry it, or tell the schedule."""
        if isinstance(event, NodeFailed | ItemFailed):
            self._note(work.name, State.FAILED, work.tries, error=event.error.message)
            delays = work.node.retry.delays()
            if work.tries < len(delays):
                delay = delays[work.tries]
                work.tries += 1
                self._note(work.name, State.READY, work.tries)
                self._later(delay, work, None)
                return
        else:
            self._note(work.name, State.COMPLETED, work.tries, output=event.output)
        queue = self._queues.get(work.node.id)
        self._carry_out(self.schedule.apply(event))
        if queue and not self.schedule.is_over:
            self._begin(queue.popleft())

    def _stop(self, names: tuple[str, ...]) -> None:
        for name in names:
            self._note(name, State.CANCELLED)
        self._agenda.clear()

    def _completed(self, work: _Work, output: Any) -> _End:
        if work.item:
            return ItemCompleted(work.node.id, work.item.index, output)
        return NodeCompleted(work.node.id, output)

    def _failed(self, work: _Work, message: str) -> _End:
        error = RunError("handler-failed", message, work.node.id)
        return ItemFailed(work.node.id, work.item.index, error) if work.item else NodeFailed(work.node.id, error)

    def _later(self, seconds: float, work: _Work, event: _End | None) -> None:
        heappush(self._agenda, (self.now + seconds, next(self._order), work, event))

    def _note(
        self,
        name: str,
        state: State,
        try_number: int = 0,
        *,
        params: Mapping[str, Any] | None = None,
        output: Any = None,
        error: str | None = None,
    ) -> None:
        self.trace.append(TraceLine(self.now, name, state, try_number, params, output, error))


def story(simulation: Simulation) -> Iterator[str]:
    """The trace as lines for people."""
    for step in simulation.trace:
        retry = f" (retry {step.try_number})" if step.try_number else ""
        facts = [("params", step.params), ("output", step.output), ("error", step.error)]
        told = "".join(f"  {name}={_short(value)}" for name, value in facts if value not in (None, {}))
        yield f"{step.at_seconds:9.1f} s  {step.node_id:24} {step.state.value}{retry}{told}"


def _short(value: Any, limit: int = 200) -> str:
    shown = str(value)
    return shown if len(shown) <= limit else shown[:limit] + "…"
