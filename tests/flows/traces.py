"""What a simulated run and a real one of the same workflow must have in common, and where they differ.

A real run is read where it cannot flatter itself: the marks that each try left, and the domain's record. Where a run
fails at once, what ran beside the failing node is a matter of luck. So the simulation is asked twice: as it is, and
with every node allowed to fail; what does not follow from a fatal node must be as there, or not have ended.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from hypothesis import strategies as st

from flows.compiler import Node, Plan, State, following
from flows.compiler.simulate import Simulation, World, simulate
from flows.handlers.registry import registry
from flows.handlers.trials import ScriptedParams
from tests.flows.compiler.random_workflows import workflows

RETRY = "retry: {max_attempts: %d, delays_seconds: [0.01]}"
UNENDED = ("pending", "ready", "running", "cancelled")


# --- random workflows that fail ---


def task(draw: st.DrawFn, name: str, read: str) -> str:
    """A task that fails as often as told, and reads a node before it."""
    fails = draw(st.sampled_from(("0", "0", "0", "0", "0", "1", "2", "null")))
    seen = f'x: "{{{{ nodes.{read}.status }}}}", y: "{{{{ nodes.{read}.output | default(0) }}}}"'
    params = f"{seen}, fails: {fails}, returns: {{from: {name}, n: {draw(st.integers(0, 9))}}}"
    return f"handler: scripted, params: {{{params}}}, {RETRY % draw(st.integers(0, 2))}"


def fan_out(draw: st.DrawFn, name: str, read: str) -> str:
    """A fan-out whose children fail each in its own way."""
    children = draw(st.lists(st.sampled_from(("0", "0", "0", "1", "null")), max_size=5))
    source = ", ".join(f"{{v: {place}, fails: {fails}}}" for place, fails in enumerate(children))
    params = '{v: "{{ item.v }}", i: "{{ index }}", fails: "{{ item.fails }}", returns: "{{ item.v * 2 }}"}'
    limit = draw(st.sampled_from(("", "", "max_concurrency: 1, ", "max_concurrency: 2, ")))
    tolerated = draw(st.sampled_from(("0", "1", '"50%"', '"100%"')))
    work = f"{{handler: scripted, params: {params}, {RETRY % draw(st.integers(0, 2))}}}"
    return f"source: [{source}], {limit}tolerated_failures: {tolerated}, task: {work}"


def failing_workflows() -> st.SearchStrategy[str]:
    """Random workflows with fan-outs, conditionals and failures, whose outputs tell what every node returned."""
    return workflows(task, fan_out, most=8).map(_with_outputs)


def _with_outputs(text: str) -> str:
    names = [line.split(":")[0].strip() for line in text.partition("nodes:\n")[2].splitlines()]
    told = ", ".join(f'{name}: "{{{{ nodes.{name}.output | default(none) }}}}"' for name in names if name != "end")
    return f"{text}outputs: {{{told}}}\n"


# --- what should happen ---


@dataclass(frozen=True)
class Expected:
    """A simulation, and the same with nothing fatal."""

    plan: Plan
    whole: Simulation
    tolerant: Simulation
    fatal: frozenset[str]
    doomed: frozenset[str]

    @property
    def fails_at_once(self) -> bool:
        return self.whole.error is not None and self.whole.error.node_id in self.fatal


def expected(plan: Plan, inputs: Mapping[str, Any]) -> Expected:
    """Simulate, with what the workflow's own parameters say of failing and returning."""
    world = World(registry(), fixtures=_fixtures(plan), failures=_failures(plan))
    nodes = {name: replace(node, on_failure="continue") for name, node in plan.nodes.items()}
    tolerant = simulate(replace(plan, nodes=MappingProxyType(nodes)), inputs, world)
    fatal = frozenset(
        name for name, node in plan.nodes.items() if node.on_failure == "fail" and tolerant.states[name] is State.FAILED
    )
    doomed = frozenset(other for name in fatal for other in following(plan, [name]) if other != name)
    return Expected(plan, simulate(plan, inputs, world), tolerant, fatal - doomed, doomed)


def _children(node: Node) -> list[tuple[str, Any]]:
    source = node.fan_out.source if node.fan_out else []
    return [(f"{node.id}__{place}", child) for place, child in enumerate(source)]


def _fixtures(plan: Plan) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for node in plan.nodes.values():
        if node.type == "task":
            made[node.id] = {"returns": node.params["returns"]}
        made |= {name: {"returns": child["v"] * 2} for name, child in _children(node)}
    return made


def _failures(plan: Plan) -> dict[str, int | None]:
    made = {node.id: node.params["fails"] for node in plan.nodes.values() if node.type == "task"}
    return made | {name: child["fails"] for node in plan.nodes.values() for name, child in _children(node)}


# --- what did happen ---


@dataclass(frozen=True)
class Observed:
    """A real run: the domain's record of it, and the marks of its tries by name."""

    record: Mapping[str, Any]
    marks: Mapping[str, list[dict[str, Any]]] = field(default_factory=dict)

    def state(self, name: str) -> str:
        return str(self._stage(name)["status"])

    def has_ended(self, name: str) -> bool:
        """Whether the node came to its own end: one that was stopped with the run did not."""
        return self.state(name) not in UNENDED

    def error(self, name: str) -> str | None:
        problem = self._stage(name)["problem"]
        return problem["message"] if problem else None

    def _stage(self, name: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = next(stage for stage in self.record["stages"] if stage["id"] == name)
        return found

    def span(self, node: Node) -> tuple[float, float] | None:
        """When the node's first try began and its last one ended, children included."""
        names = [name for name, _ in _children(node)] or [node.id]
        marks = [mark for name in names for mark in self.marks.get(name, ())]
        return (min(m["began"] for m in marks), max(m.get("ended", m["began"]) for m in marks)) if marks else None

    def peak(self, node: Node) -> int:
        """The most children of the fan-out that ran at once."""
        marks = [mark for name, _ in _children(node) for mark in self.marks.get(name, ()) if "ended" in mark]
        moves = sorted([(m["began"], 1) for m in marks] + [(m["ended"], -1) for m in marks])
        running = most = 0
        for _, move in moves:
            running += move
            most = max(most, running)
        return most


def read_marks(runs: Path, run_id: str) -> dict[str, list[dict[str, Any]]]:
    """The marks of a run, each name's in the order in which they were begun."""
    found: dict[str, list[dict[str, Any]]] = {}
    made = [json.loads(file.read_text()) for file in (runs / "trials" / run_id).glob("*.json")]
    for mark in sorted(made, key=lambda mark: float(mark["began"])):
        found.setdefault(mark["node"], []).append(mark)
    return found


# --- the difference ---


def differences(wanted: Expected, seen: Observed) -> Iterator[str]:
    """Everything in which the real run is not as the simulated one, in words."""
    yield from _verdict(wanted, seen)
    for node in wanted.plan.nodes.values():
        yield from _node(wanted, seen, node)
        yield from _order(wanted.plan, seen, node)
        if node.fan_out and node.fan_out.max_concurrency and seen.peak(node) > node.fan_out.max_concurrency:
            yield f"{node.id}: {seen.peak(node)} children at once"


def _verdict(wanted: Expected, seen: Observed) -> Iterator[str]:
    state, problem, error = seen.record["state"], seen.record["problem"] or {}, wanted.whole.error
    if error is None:
        if state != "completed":
            yield f"the run is {state}, not completed: {problem.get('message')}"
        elif seen.record["outputs"] != wanted.whole.outputs:
            yield f"outputs are {seen.record['outputs']}, not {wanted.whole.outputs}"
    elif state != "failed":
        yield f"the run is {state}, not failed"
    elif wanted.fails_at_once and problem["node_id"] not in wanted.fatal:
        yield f"the run failed at {problem['node_id']}, not at one of {sorted(wanted.fatal)}"
    elif not wanted.fails_at_once and problem["message"] != error.message:
        yield f"the run failed because {problem['message']!r}, not because {error.message!r}"


def _node(wanted: Expected, seen: Observed, node: Node) -> Iterator[str]:
    names = [node.id, *(name for name, _ in _children(node))]
    if wanted.fails_at_once and node.id in wanted.doomed:
        yield from (f"{name}: ran after a fatal failure" for name in names if name in seen.marks)
        if seen.state(node.id) not in UNENDED:
            yield f"{node.id}: is {seen.state(node.id)} after a fatal failure"
        return
    simulation = wanted.tolerant if wanted.fails_at_once else wanted.whole
    unended = wanted.fails_at_once and not seen.has_ended(node.id)
    partly = unended or (wanted.fails_at_once and node.id in wanted.fatal)
    if not unended and seen.state(node.id) != simulation.states[node.id].value:
        yield f"{node.id}: is {seen.state(node.id)}, not {simulation.states[node.id].value}"
    for name in names:
        yield from _tries(name, simulation, seen, partly=partly)
    told = [step.error for step in simulation.trace if step.node_id == node.id and step.state is State.FAILED]
    if simulation.states[node.id] is State.FAILED and not partly and seen.error(node.id) != told[-1]:
        yield f"{node.id}: failed because {seen.error(node.id)!r}, not because {told[-1]!r}"


def _tries(name: str, simulation: Simulation, seen: Observed, *, partly: bool) -> Iterator[str]:
    steps = [step for step in simulation.trace if step.node_id == name]
    wanted = [step.try_number for step in steps if step.state is State.RUNNING]
    marks = seen.marks.get(name, [])
    tries = [mark["try"] for mark in marks]
    if tries != (wanted[: len(tries)] if partly else wanted):
        yield f"{name}: was tried as {tries}, not as {wanted}"
    params = [_extras(step.params) for step in steps if step.params is not None]
    yield from (f"{name}: got {m['params']}, not {params[0]}" for m in marks if params and m["params"] != params[0])


def _extras(params: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in params.items() if key not in ScriptedParams.model_fields}


def _order(plan: Plan, seen: Observed, node: Node) -> Iterator[str]:
    """Nothing begins before what it depends on has ended, directly or through nodes that do no work of their own."""
    span = seen.span(node)
    for name in plan.nodes:
        earlier = seen.span(plan.nodes[name])
        if span and earlier and name != node.id and node.id in following(plan, [name]) and earlier[1] > span[0]:
            yield f"{node.id}: began before {name} had ended"
