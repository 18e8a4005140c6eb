"""Simulation: the path taken, retries, skips, time, failures on order, parts, sub-workflows."""

import time
from itertools import pairwise
from typing import Any

import pytest

from flows.compiler import TRANSITIONS, InputFault, NodeOutcome, Plan, Schedule, State
from flows.compiler.selection import UnknownNode, following, selected
from flows.compiler.simulate import NoFixture, Simulation, World, _Simulator, simulate, story
from flows.handlers.registry import registry
from tests.flows.compiler.support import plan_of

NUMBER = "{n: {type: integer, default: 1}}"
LINE = """
  start: {type: start, next: a}
  a: {handler: echo, params: {x: "{{ inputs.n }}"}, next: b}
  b:
    handler: echo
    params: {y: "{{ nodes.a.output.echoed_params }}"}
    retry: {max_attempts: 2, backoff: fixed}
    next: end
  end: {type: end}
"""
FAN = """
  start: {type: start, next: each}
  each:
    type: fan_out
    source: "{{ inputs.list }}"
    max_concurrency: 2
    tolerated_failures: 1
    task: {handler: echo, params: {x: "{{ item }}"}, retry: {max_attempts: 1, delays_seconds: [10]}}
    next: all
  all: {type: fan_in, next: end}
  end: {type: end}
"""
LIST = "{list: {type: array, default: [1, 2, 3, 4]}}"


def go(plan: Plan, inputs: dict[str, Any] | None = None, **world: Any) -> Simulation:
    options = {key: world.pop(key) for key in ("only", "known") if key in world}
    return simulate(plan, inputs or {}, World(registry(), **world), **options)


def moves(simulation: Simulation, name: str) -> list[str]:
    return [step.state.value for step in simulation.trace if step.node_id == name]


def test_a_line_runs_in_virtual_time() -> None:
    plan = plan_of(LINE, inputs=NUMBER, outputs='{y: "{{ nodes.b.output.echoed_params }}"}')
    result = go(plan, fixtures={"b": {"echoed_params": 7}})
    assert result.succeeded
    assert result.outputs == {"y": 7}
    assert result.seconds == 2
    assert moves(result, "a") == ["ready", "dispatched", "running", "completed"]
    (params,) = [step.params for step in result.trace if step.node_id == "b" and step.params is not None]
    assert params == {"y": {"message": "hello"}}
    assert [step.at_seconds for step in result.trace if step.node_id == "b"] == [1, 1, 1, 2]


def test_failures_are_retried_after_their_delays() -> None:
    result = go(plan_of(LINE, inputs=NUMBER), failures={"b": 2})
    assert result.succeeded
    assert moves(result, "b") == [
        *["ready", "dispatched", "running", "failed"] * 2,
        "ready",
        "dispatched",
        "running",
        "completed",
    ]
    assert result.seconds == 1 + (1 + 1) + (1 + 1) + 1
    assert [step.try_number for step in result.trace if step.state is State.RUNNING and step.node_id == "b"] == [
        0,
        1,
        2,
    ]


def test_a_failure_that_outlasts_its_retries_fails_the_run() -> None:
    result = go(plan_of(LINE, inputs=NUMBER), failures={"b": None})
    assert result.error is not None
    assert (result.error.node_id, result.error.message) == ("b", "failed as asked")
    assert result.outputs is None
    assert moves(result, "b").count("failed") == 3
    assert result.states["end"] is State.PENDING


def test_children_run_at_most_max_concurrent_at_a_time() -> None:
    result = go(plan_of(FAN, inputs=LIST))
    assert result.succeeded
    assert result.seconds == 2
    running, most = 0, 0
    for step in result.trace:
        if step.node_id.startswith("each__"):
            running += {State.RUNNING: 1, State.COMPLETED: -1}.get(step.state, 0)
            most = max(most, running)
    assert most == 2


def test_single_failed_child_is_tolerated() -> None:
    result = go(plan_of(FAN, inputs=LIST, outputs='{f: "{{ nodes.all.output.failed }}"}'), failures={"each__1": None})
    assert result.outputs == {"f": [{"key": "1", "index": 1, "error": "failed as asked"}]}
    assert moves(result, "each__1") == ["ready", "dispatched", "running", "failed"] * 2
    assert result.seconds == 1 + 10 + 1


def test_all_children_fail_when_the_fan_out_is_named() -> None:
    result = go(plan_of(FAN, inputs=LIST), failures={"each": None})
    assert result.error is not None
    assert result.error.code == "too-many-failures"
    assert "each__3" not in {step.node_id for step in result.trace}


def test_fixtures_are_given_per_child_or_as_a_list() -> None:
    plan = plan_of(FAN, inputs=LIST, outputs='{r: "{{ nodes.all.output.results }}"}')
    assert go(plan, fixtures={"each": [1, 2, 3, 4], "each__2": "own"}).outputs == {"r": [1, 2, "own", 4]}
    assert go(plan, fixtures={"each": "same"}).outputs == {"r": ["same"] * 4}
    assert go(plan, fixtures={"each": ["short"]}).outputs == {"r": ["short", ["short"], ["short"], ["short"]]}


def test_the_run_stops_what_is_running() -> None:
    nodes = """
  start: {type: start, next: [a, b]}
  a: {handler: echo, retry: {max_attempts: 0}, next: end}
  b: {handler: echo, next: c}
  c: {handler: echo, next: end}
  end: {type: end}
"""
    result = go(plan_of(nodes), failures={"a": None})
    assert result.states["b"] is State.CANCELLED
    assert moves(result, "b") == ["ready", "dispatched", "running", "cancelled"]
    assert result.seconds == 1


def test_a_sub_workflow_is_simulated_in_its_own_time() -> None:
    inner = plan_of(LINE, inputs=NUMBER, outputs='{y: "{{ nodes.b.output.echoed_params }}"}')
    outer = """
  start: {type: start, next: a}
  a: {type: workflow, workflow: inner, inputs: {n: 5}, next: end}
  end: {type: end}
"""
    plan = plan_of(outer, outputs='{z: "{{ nodes.a.output.y }}"}', siblings={"inner": inner})
    result = go(plan, plans={"inner": inner})
    assert result.outputs == {"z": {"message": "hello"}}
    assert result.seconds == 2
    assert go(plan, fixtures={"a": {"y": 1}}).outputs == {"z": 1}
    with pytest.raises(NoFixture, match="give workflow 'inner'"):
        go(plan)


def test_a_sub_workflow_that_fails_fails_its_node() -> None:
    inner = plan_of(
        "  start: {type: start, next: a}\n  a: {handler: echo, when: 'false', next: end}\n  end: {type: end}"
    )
    outer = """
  start: {type: start, next: a}
  a: {type: workflow, workflow: inner, retry: {max_attempts: 0}, next: end}
  end: {type: end}
"""
    result = go(plan_of(outer, siblings={"inner": inner}), plans={"inner": inner})
    assert result.error is not None
    assert result.error.message == "No end of the workflow was reached."


def test_wrong_inputs_of_a_simulation_are_refused() -> None:
    with pytest.raises(InputFault):
        go(plan_of(LINE, inputs=NUMBER), {"n": "x"})


def test_undeclared_handler_needs_a_fixture() -> None:
    plan = plan_of(LINE, inputs=NUMBER)
    with pytest.raises(NoFixture, match="nothing says what 'a' returns"):
        simulate(plan, {}, World())
    assert simulate(plan, {}, World(fixtures={"a": {"echoed_params": 1}, "b": {}})).succeeded


def test_a_part_takes_the_rest_from_fixtures_or_examples() -> None:
    plan = plan_of(LINE, inputs=NUMBER, outputs='{a: "{{ nodes.a.output.echoed_params }}"}')
    result = go(plan, only=selected(plan, start_from=["b"]), fixtures={"a": {"echoed_params": 42}})
    assert set(result.states) == {"b", "end"}
    assert result.outputs == {"a": 42}
    assert go(plan, only={"b"}).outputs == {}
    assert go(plan, only={"b"}, known={"a": NodeOutcome(State.SKIPPED)}).states == {"b": State.SKIPPED}


def test_selection_names_known_nodes_only() -> None:
    plan = plan_of(LINE, inputs=NUMBER)
    assert selected(plan) is None
    assert selected(plan, ["a"]) == frozenset({"a"})
    assert selected(plan, ["start"], ["b"]) == frozenset({"start", "b", "end"})
    assert following(plan, ["a"]) == {"a", "b", "end"}
    with pytest.raises(UnknownNode, match=r"there is no node 'ende' in test; did you mean 'end'\?"):
        selected(plan, ["ende"])


def test_every_move_is_one_the_table_allows() -> None:
    result = go(plan_of(FAN, inputs=LIST), failures={"each__0": 1, "each__3": None})
    names = {step.node_id for step in result.trace if step.node_id.startswith("each__")}
    for name in names:
        path = [State.PENDING, *(State(move) for move in moves(result, name))]
        assert [(here, there) for here, there in pairwise(path) if there not in TRANSITIONS[here]] == []


def test_trace_is_printed_one_line_per_move() -> None:
    lines = list(
        story(go(plan_of(LINE, inputs=NUMBER), fixtures={"a": {"echoed_params": "x" * 300}}, failures={"b": 1}))
    )
    assert lines[0].split() == ["0.0", "s", "start", "completed"]
    assert any("(retry 1)" in line for line in lines)
    assert any("error=failed as asked" in line for line in lines)
    assert all(len(line) < 300 for line in lines)


def test_result_of_a_simulation_is_json() -> None:
    data = go(plan_of(LINE, inputs=NUMBER), failures={"a": None}).to_json()
    assert data["error"]["node_id"] == "a"
    assert data["trace"][0] == {
        "at_seconds": 0.0,
        "node_id": "start",
        "state": "completed",
        "try_number": 0,
        "output": {},
    }
    assert go(plan_of(LINE, inputs=NUMBER)).to_json()["error"] is None


def test_thousand_children_are_simulated_quickly() -> None:
    started = time.process_time()
    result = go(plan_of(FAN, inputs="{list: {type: array}}"), {"list": list(range(1000))})
    assert result.succeeded
    assert time.process_time() - started < 2


def test_unknown_decision_is_refused() -> None:
    plan = plan_of(LINE, inputs=NUMBER)
    nobody: Any = "nobody"
    with pytest.raises(AssertionError):
        _Simulator(plan, Schedule(plan), World(), 0)._carry_out([nobody])
