"""The scheduler: the state of a run in, decisions out. Pure; it starts nothing, waits for nothing, reads no clock.

The simulator and the Prefect runner both drive this class, so what a simulation shows is what a run does. A node is
decided once, when its last predecessor ends; an event costs as much as the node has successors.
"""

from collections import deque
from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Any, assert_never

from flows.compiler.expressions import ExpressionError, holds, render
from flows.compiler.fanout import CannotAggregate, CannotExpand, Expansion, aggregate, expand
from flows.compiler.messages import (
    Cancelled,
    Decision,
    Event,
    ExecuteNode,
    Expand,
    Failed,
    Finished,
    ItemCompleted,
    ItemFailed,
    NodeCompleted,
    NodeFailed,
    NodeOutcome,
    NodeSkipped,
    NodeStarted,
    RunError,
    Settled,
    Skipped,
    StopRunning,
)
from flows.compiler.needs import rendered_needs
from flows.compiler.plan import Node, Plan
from flows.compiler.routing import chosen_targets, edge_is_active
from flows.compiler.run_facts import RUN_FACTS
from flows.compiler.states import State

_STARTED = (State.READY, State.RUNNING)


class OutOfTurn(ValueError):
    """An event names a node that does not exist here or was never started."""


class Schedule:
    """One run of a plan, or of a part of it.

    `only` limits the run to these nodes; `known` tells how nodes outside of it ended. Predecessors outside that
    nobody told about count as completed, and templates that read them fail.
    """

    def __init__(
        self,
        plan: Plan,
        inputs: Mapping[str, Any] | None = None,
        run: Mapping[str, Any] | None = None,
        only: Collection[str] | None = None,
        known: Mapping[str, NodeOutcome] | None = None,
    ) -> None:
        self.plan = plan
        self._scope = _scope(plan, only)
        self._is_part = only is not None
        self._states = dict.fromkeys(self._scope, State.PENDING)
        self._outcomes = {name: outcome for name, outcome in (known or {}).items() if name not in self._states}
        self._waiting = {name: self._undecided(node) for name, node in self._scope.items()}
        self._expansions: dict[str, Expansion] = {}
        self._open = len(self._scope)
        self._over = False
        facts = dict.fromkeys(RUN_FACTS) | dict(run or {})
        self._names: dict[str, Any] = {"inputs": dict(inputs or {}), "run": facts, "nodes": {}}
        for name, outcome in self._outcomes.items():
            self._show(name, outcome)

    @property
    def states(self) -> Mapping[str, State]:
        """The state of every node of this run."""
        return MappingProxyType(self._states)

    @property
    def outcomes(self) -> Mapping[str, NodeOutcome]:
        """How every ended node ended, with those known before: what another schedule may be given."""
        return MappingProxyType(self._outcomes)

    @property
    def is_over(self) -> bool:
        return self._over

    def begin(self) -> list[Decision]:
        """The first decisions. Call once."""
        return list(self._decide(deque(name for name, waiting in self._waiting.items() if not waiting)))

    def apply(self, event: Event) -> list[Decision]:
        """Return the decisions that follow from an event. Late and repeated events lead to none."""
        if not self._over:
            return list(self._following(event))
        if isinstance(event, ItemCompleted | ItemFailed):
            self._count_late(event)
        return []

    def _following(self, event: Event) -> Iterator[Decision]:
        match event:
            case NodeStarted():
                self._start(event.node_id)
            case NodeCompleted():
                yield from self._on_end(event.node_id, NodeOutcome(State.COMPLETED, event.output))
            case NodeFailed():
                yield from self._on_end(event.node_id, NodeOutcome(State.FAILED, None, event.error))
            case NodeSkipped():
                yield from self._on_end(event.node_id, NodeOutcome(State.SKIPPED))
            case ItemCompleted() | ItemFailed():
                yield from self._on_item(event)
            case Cancelled():
                yield from self._cancel()
            case _:
                assert_never(event)

    # --- events ---

    def _start(self, name: str) -> None:
        if self._state_of(name) is State.READY:
            self._states[name] = State.RUNNING

    def _on_end(self, name: str, outcome: NodeOutcome) -> list[Decision]:
        state = self._state_of(name)
        if state.is_terminal:
            return []
        if state not in _STARTED:
            raise OutOfTurn(f"node {name!r} ended before it was started")
        self._expansions.pop(name, None)  # whoever ended a whole fan-out also ends its fan-in
        return list(self._end_and_go_on(self._scope[name], outcome))

    def _on_item(self, event: ItemCompleted | ItemFailed) -> list[Decision]:
        state, expansion = self._state_of(event.node_id), self._expansions.get(event.node_id)
        if state.is_terminal:
            return []
        if expansion is None:
            raise OutOfTurn(f"node {event.node_id!r} has no children")
        if not expansion.is_open(event.index):
            return []
        expansion.note(event)
        return list(self._after_item(self._scope[event.node_id], expansion))

    def _count_late(self, event: ItemCompleted | ItemFailed) -> None:
        """Count an item that was under way when its fan-out failed: its outcome tells how all of them ended."""
        expansion, outcome = self._expansions.get(event.node_id), self._outcomes.get(event.node_id)
        if expansion and outcome and outcome.state is State.FAILED and expansion.is_open(event.index):
            expansion.note(event)
            self._outcomes[event.node_id] = NodeOutcome(State.FAILED, None, expansion.error())

    def _after_item(self, node: Node, expansion: Expansion) -> Iterator[Decision]:
        if not expansion.is_tolerable and node.on_failure == "fail":
            yield from self._settle_and_go_on(node, NodeOutcome(State.FAILED, None, expansion.error()))
        elif expansion.is_done:
            yield from self._settle_and_go_on(node, _end_of(expansion))

    def _cancel(self) -> list[Decision]:
        stopped = self._stop_started()
        for name, state in self._states.items():
            if not state.is_terminal:
                self._states[name] = State.CANCELLED
        return [*stopped, *self._fail_run(RunError("cancelled", "The run was cancelled."))]

    def _state_of(self, name: str) -> State:
        try:
            return self._states[name]
        except KeyError:
            raise OutOfTurn(f"node {name!r} is not part of this run") from None

    # --- deciding ---

    def _decide(self, ready: deque[str]) -> Iterator[Decision]:
        """Decide these nodes, and all that can be decided because of them."""
        while ready and not self._over:
            node = self._scope[ready.popleft()]
            for decision in self._decide_one(node):
                yield decision
                if isinstance(decision, Settled | Skipped):
                    ready.extend(self._now_decidable(node))
        if not self._over and not self._open:
            yield self._finish()

    def _decide_one(self, node: Node) -> Iterator[Decision]:
        if not self._is_triggered(node):
            yield self._skip(node)
            return
        try:
            yield from self._begin_node(node)
        except (ExpressionError, CannotExpand) as error:
            if node.fan_out:  # its fan-in has nothing to wait for
                self._expansions[node.id] = Expansion(node.fan_out, node.id, 0)
            yield from self._settle(node, _failure("template-error", error, node))
        except CannotAggregate as error:
            yield from self._settle(node, _failure("cannot-aggregate", error, node))

    def _begin_node(self, node: Node) -> Iterator[Decision]:
        if node.when is not None and not holds(node.when, self._names):
            yield self._skip(node)
            return
        match node.type:
            case "start" | "end":
                yield from self._settle(node, NodeOutcome(State.COMPLETED, {}))
            case "conditional":
                chosen = list(chosen_targets(node, self._names))
                yield from self._settle(node, NodeOutcome(State.COMPLETED, {"chosen": chosen}))
            case "task" | "workflow":
                params, needs = render(node.params, self._names), rendered_needs(node.resources, self._names)
                self._states[node.id] = State.READY
                yield ExecuteNode(node.id, params, needs)
            case "fan_out":
                yield from self._expand(node)
            case "fan_in":
                yield from self._collect(node)
            case _:
                assert_never(node.type)

    def _expand(self, node: Node) -> Iterator[Decision]:
        expansion, needs = expand(node, self._names), rendered_needs(node.resources, self._names)
        self._expansions[node.id] = expansion
        hopeless = not expansion.is_tolerable and node.on_failure == "fail"
        if expansion.is_done or hopeless:
            yield from self._settle(node, _end_of(expansion))
            return
        self._states[node.id] = State.READY
        fan_out = expansion.fan_out
        yield Expand(node.id, expansion.items, expansion.count, fan_out.max_concurrency, fan_out.shards, needs)

    def _collect(self, node: Node) -> Iterator[Decision]:
        fan_in = node.fan_in
        assert fan_in is not None  # noqa: S101 - a fan_in node has its fan-in by construction
        expansion = self._expansions.pop(fan_in.source, None)
        if expansion is None:
            # The children ran elsewhere, and so does the fan-in: its end will be reported.
            self._states[node.id] = State.READY
        else:
            yield from self._settle(node, NodeOutcome(State.COMPLETED, aggregate(fan_in, expansion)))

    def _is_triggered(self, node: Node) -> bool:
        groups = [group for group in (node.all_of, node.any_of) if group]
        return all(any(self._is_active(name, node.id) for name in group) for group in groups)

    def _is_active(self, predecessor: str, name: str) -> bool:
        outcome = self._outcomes.get(predecessor)
        return outcome is None or edge_is_active(self.plan.nodes[predecessor], outcome, name)

    # --- ending ---

    def _skip(self, node: Node) -> Skipped:
        self._record(node, NodeOutcome(State.SKIPPED))
        return Skipped(node.id)

    def _settle(self, node: Node, outcome: NodeOutcome) -> Iterator[Decision]:
        self._record(node, outcome)
        yield Settled(node.id, outcome.state, outcome.output, outcome.error)
        yield from self._fail_fast(node, outcome)

    def _settle_and_go_on(self, node: Node, outcome: NodeOutcome) -> Iterator[Decision]:
        yield from self._settle(node, outcome)
        yield from self._decide(deque(self._now_decidable(node)))

    def _end_and_go_on(self, node: Node, outcome: NodeOutcome) -> Iterator[Decision]:
        self._record(node, outcome)
        yield from self._fail_fast(node, outcome)
        yield from self._decide(deque(self._now_decidable(node)))

    def _record(self, node: Node, outcome: NodeOutcome) -> None:
        self._states[node.id] = outcome.state
        self._outcomes[node.id] = outcome
        self._open -= 1
        self._show(node.id, outcome)

    def _show(self, name: str, outcome: NodeOutcome) -> None:
        """Let templates see how the node ended."""
        seen = {"status": outcome.state.value, "error": outcome.error.message if outcome.error else None}
        if outcome.state is State.COMPLETED:
            seen["output"] = outcome.output
        self._names["nodes"][name] = seen

    def _now_decidable(self, node: Node) -> Iterator[str]:
        for successor in node.successors:
            if successor in self._waiting:
                self._waiting[successor] -= 1
                if not self._waiting[successor]:
                    yield successor

    def _fail_fast(self, node: Node, outcome: NodeOutcome) -> Iterator[Decision]:
        if outcome.state is State.FAILED and node.on_failure == "fail":
            error = outcome.error or RunError("handler-failed", "The node failed.", node.id)
            yield from self._stop_started()
            yield from self._fail_run(error)

    def _stop_started(self) -> list[Decision]:
        running = tuple(name for name, state in self._states.items() if state in _STARTED)
        self._states.update(dict.fromkeys(running, State.CANCELLED))
        return [StopRunning(running)] if running else []

    def _fail_run(self, error: RunError) -> list[Decision]:
        self._over = True
        return [Failed(error)]

    def _finish(self) -> Decision:
        self._over = True
        ends = [name for name, node in self._scope.items() if node.type == "end"]
        if not any(self._states[name] is State.COMPLETED for name in ends):
            reached = not ends and self._is_part
            error = RunError("no-end-reached", "No end of the workflow was reached.")
            return Finished({}) if reached else Failed(error)
        try:
            return Finished(render(self.plan.outputs, self._names))
        except ExpressionError as error:
            return Failed(RunError("template-error", f"outputs: {error}"))

    def _undecided(self, node: Node) -> int:
        return sum(1 for name in node.predecessors if name in self._scope)


def _failure(code: str, error: Exception, node: Node) -> NodeOutcome:
    return NodeOutcome(State.FAILED, None, RunError(code, str(error), node.id))


def _end_of(expansion: Expansion) -> NodeOutcome:
    if expansion.is_tolerable:
        return NodeOutcome(State.COMPLETED, expansion.output())
    return NodeOutcome(State.FAILED, None, expansion.error())


def _scope(plan: Plan, only: Collection[str] | None) -> dict[str, Node]:
    """The nodes of the run, in topological order. A fan-in needs the children, so it never runs without its fan-out."""
    if only is None:
        return dict(plan.nodes)
    unknown = sorted(set(only) - plan.nodes.keys())
    if unknown:
        raise OutOfTurn(f"there is no node {unknown[0]!r} in {plan.workflow_id}")
    scope = {name: node for name, node in plan.nodes.items() if name in only}
    for node in scope.values():
        if node.fan_in and node.fan_in.source not in scope:
            raise OutOfTurn(f"the fan_in {node.id!r} runs only together with its fan_out {node.fan_in.source!r}")
    return scope
