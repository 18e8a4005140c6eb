"""The scheduler, decision by decision: when nodes run, how they end, and what a run makes of it."""

from typing import Any

import pytest

from flows.compiler import (
    Cancelled,
    ExecuteNode,
    Failed,
    Finished,
    ItemCompleted,
    NodeCompleted,
    NodeFailed,
    NodeOutcome,
    NodeSkipped,
    NodeStarted,
    OutOfTurn,
    RunError,
    Schedule,
    Settled,
    Skipped,
    State,
    StopRunning,
)
from tests.flows.compiler.scheduling import DIAMOND, DONE, LINE, NUMBER
from tests.flows.compiler.support import BOOM, plan_of, run_through, states

# --- a line ---


def test_a_line_runs_one_node_after_the_other() -> None:
    plan = plan_of(LINE, inputs=NUMBER, outputs='{z: "{{ nodes.b.output.r }}"}'.replace(".output.r", ".status"))
    schedule = Schedule(plan, {"n": 5})
    assert schedule.begin() == [Settled("start", DONE, {}), ExecuteNode("a", {"x": 5})]
    assert schedule.apply(NodeCompleted("a", {"echoed_params": 7})) == [ExecuteNode("b", {"y": 7})]
    assert not schedule.is_over
    assert schedule.apply(NodeCompleted("b", {})) == [Settled("end", DONE, {}), Finished({"z": "completed"})]
    assert schedule.is_over
    assert set(schedule.states.values()) == {DONE}


def test_node_states_follow_its_events() -> None:
    schedule = Schedule(plan_of(LINE, inputs=NUMBER), {"n": 1})
    assert set(states(schedule).values()) == {"pending"}
    schedule.begin()
    assert states(schedule) == {"start": "completed", "a": "ready", "b": "pending", "end": "pending"}
    assert schedule.apply(NodeStarted("a")) == []
    assert schedule.states["a"] is State.RUNNING
    schedule.apply(NodeStarted("b"))
    assert schedule.states["b"] is State.PENDING
    schedule.apply(NodeCompleted("a", {"echoed_params": 1}))
    schedule.apply(NodeStarted("a"))
    assert schedule.states["a"] is DONE


def test_late_and_repeated_events_lead_to_no_decision() -> None:
    schedule = Schedule(plan_of(LINE, inputs=NUMBER), {"n": 1})
    schedule.begin()
    schedule.apply(NodeCompleted("a", {"echoed_params": 1}))
    for event in (NodeCompleted("a", {}), NodeFailed("a", BOOM), NodeSkipped("a")):
        assert schedule.apply(event) == []
    schedule.apply(NodeCompleted("b", {}))
    assert schedule.apply(NodeCompleted("nobody")) == []
    assert schedule.states["a"] is DONE


@pytest.mark.parametrize(
    "event", [NodeCompleted("b"), NodeCompleted("nobody"), ItemCompleted("a", 0), NodeStarted("no")]
)
def test_events_out_of_turn_are_refused(event: Any) -> None:
    schedule = Schedule(plan_of(LINE, inputs=NUMBER), {"n": 1})
    schedule.begin()
    with pytest.raises(OutOfTurn, match=r"before it was started|not part of this run|has no children"):
        schedule.apply(event)


def test_templates_see_inputs_run_and_upstream() -> None:
    nodes = """
  start: {type: start, next: a}
  a: {handler: echo, params: {id: "{{ run.id }}", none: "{{ run.asset_id }}", n: "{{ inputs.n }}"}, next: end}
  end: {type: end}
"""
    schedule = Schedule(plan_of(nodes, inputs=NUMBER), {"n": 3}, {"id": "r1"})
    assert schedule.begin()[-1] == ExecuteNode("a", {"id": "r1", "none": None, "n": 3})


# --- failing ---


def test_a_failure_stops_the_run_and_its_siblings() -> None:
    nodes = """
  start: {type: start, next: [a, b, c]}
  a: {handler: echo, next: end}
  b: {handler: echo, next: end}
  c: {handler: echo, next: d}
  d: {handler: echo, next: end}
  end: {type: end}
"""
    schedule = Schedule(plan_of(nodes))
    schedule.begin()
    schedule.apply(NodeStarted("b"))
    error = RunError("x", "it broke", "a", partner_may_read=True)
    assert schedule.apply(NodeFailed("a", error)) == [StopRunning(("b", "c")), Failed(error)]
    assert states(schedule) | {"start": ""} == {
        "start": "",
        "a": "failed",
        "b": "cancelled",
        "c": "cancelled",
        "d": "pending",
        "end": "pending",
    }
    assert schedule.is_over
    assert schedule.apply(NodeCompleted("b", {})) == []


def test_failure_of_the_only_running_node_stops_no_other() -> None:
    schedule = Schedule(plan_of(LINE, inputs=NUMBER), {"n": 1})
    schedule.begin()
    assert schedule.apply(NodeFailed("a", BOOM)) == [Failed(BOOM)]


def test_a_soft_failure_counts_as_completed() -> None:
    nodes = """
  start: {type: start, next: a}
  a: {handler: echo, on_failure: continue, next: b}
  b:
    handler: echo
    params: {s: "{{ nodes.a.status }}", e: "{{ nodes.a.error }}", o: "{{ nodes.a.output | default(0) }}"}
    next: end
  end: {type: end}
"""
    schedule = Schedule(plan_of(nodes))
    schedule.begin()
    assert schedule.apply(NodeFailed("a", BOOM)) == [ExecuteNode("b", {"s": "failed", "e": "boom", "o": 0})]
    assert schedule.states["a"] is State.FAILED
    assert schedule.outcomes["a"] == NodeOutcome(State.FAILED, None, BOOM)


def test_a_template_that_cannot_be_rendered_fails_the_node_before_it_starts() -> None:
    nodes = """
  start: {type: start, next: [a, b]}
  a: {handler: echo, params: {x: "{{ inputs.gone }}"}, next: end}
  b: {handler: echo, next: end}
  end: {type: end}
"""
    schedule = Schedule(plan_of(nodes, inputs="{gone: {type: string}}"))
    _, settled, failed = schedule.begin()
    assert isinstance(settled, Settled)
    assert isinstance(failed, Failed)
    assert (settled.node_id, settled.state) == ("a", State.FAILED)
    assert settled.error is not None
    assert settled.error == failed.error
    assert (failed.error.code, failed.error.node_id) == ("template-error", "a")
    assert "gone" in failed.error.message


def test_outputs_that_cannot_be_rendered_fail_the_run() -> None:
    plan = plan_of(
        "  start: {type: start, next: end}\n  end: {type: end}",
        inputs="{x: {type: string}}",
        outputs='{y: "{{ inputs.x }}"}',
    )
    failed = Schedule(plan).begin()[-1]
    assert isinstance(failed, Failed)
    assert failed.error.code == "template-error"
    assert failed.error.message.startswith("outputs: ")


def test_cancelling_ends_every_node() -> None:
    schedule = Schedule(plan_of(LINE, inputs=NUMBER), {"n": 1})
    schedule.begin()
    stop, failed = schedule.apply(Cancelled())
    assert stop == StopRunning(("a",))
    assert isinstance(failed, Failed)
    assert failed.error.code == "cancelled"
    assert states(schedule) == {"start": "completed", "a": "cancelled", "b": "cancelled", "end": "cancelled"}
    assert schedule.apply(Cancelled()) == []


# --- branching ---


@pytest.mark.parametrize(
    ("n", "chosen", "ran", "skipped"),
    [(5, ["big"], ["big", "both", "joined"], ["small"]), (1, ["small", "both"], ["small", "both", "joined"], ["big"])],
)
def test_conditional_runs_the_branch_of_its_condition(
    n: int, chosen: list[str], ran: list[str], skipped: list[str]
) -> None:
    schedule = Schedule(plan_of(DIAMOND, inputs=NUMBER), {"n": n})
    seen = run_through(schedule)
    assert Settled("a", DONE, {"chosen": chosen}) in seen
    assert {decision.node_id for decision in seen if isinstance(decision, ExecuteNode)} == set(ran)
    assert [decision.node_id for decision in seen if isinstance(decision, Skipped)] == skipped
    assert isinstance(seen[-1], Finished)


@pytest.mark.parametrize(
    ("value", "went"), [(50, "low"), (100, "middle"), (499, "middle"), (500, "high"), (900, "other")]
)
def test_the_first_branch_that_holds_is_taken(value: int, went: str) -> None:
    nodes = """
  start: {type: start, next: a}
  a:
    type: conditional
    condition_field: "{{ inputs.n }}"
    branches:
      - {condition: "< 100", next: low}
      - {condition: ">= 100 and < 500", next: middle}
      - {condition: "in [500, 50]", next: high}
      - {default: true, next: other}
  low: {type: end}
  middle: {type: end}
  high: {type: end}
  other: {type: end}
"""
    schedule = Schedule(plan_of(nodes, inputs=NUMBER), {"n": value})
    assert isinstance(run_through(schedule)[-1], Finished)
    completed = {name for name, state in schedule.states.items() if state is DONE}
    assert completed == {"start", "a", went}


def test_a_branch_that_cannot_be_applied_fails_the_conditional() -> None:
    nodes = """
  start: {type: start, next: a}
  a:
    type: conditional
    condition_field: "{{ inputs.n }}"
    branches: [{condition: "< 1", next: end}, {default: true, next: end}]
  end: {type: end}
"""
    failed = Schedule(plan_of(nodes, inputs=NUMBER), {"n": "text"}).begin()[-1]
    assert isinstance(failed, Failed)
    assert (failed.error.code, failed.error.node_id) == ("template-error", "a")


@pytest.mark.parametrize("rule", ["[a, b]", "{all_of: [a, b]}", "{any_of: [a, b]}"])
@pytest.mark.parametrize(("a", "b", "runs"), [(0, 0, False), (0, 1, True), (1, 0, True), (1, 1, True)])
def test_any_of_needs_one_completed_predecessor(rule: str, a: int, b: int, runs: bool) -> None:
    nodes = f"""
  start: {{type: start, next: [a, b, end]}}
  a: {{handler: echo, when: "inputs.a"}}
  b: {{handler: echo, when: "inputs.b"}}
  c: {{handler: echo, depends_on: {rule}, next: end}}
  end: {{type: end}}
"""
    schedule = Schedule(plan_of(nodes, inputs="{a: {type: integer}, b: {type: integer}}"), {"a": a, "b": b})
    assert isinstance(run_through(schedule)[-1], Finished)
    assert (schedule.states["c"] is DONE) == runs


@pytest.mark.parametrize(("a", "b", "runs"), [(0, 0, False), (0, 1, False), (1, 0, False), (1, 1, True)])
def test_all_of_and_any_of_together_mean_both(a: int, b: int, runs: bool) -> None:
    nodes = """
  start: {type: start, next: [a, b, end]}
  a: {handler: echo, when: "inputs.a", next: c}
  b: {handler: echo, when: "inputs.b", next: c}
  c: {handler: echo, depends_on: {any_of: [b]}, next: end}
  end: {type: end}
"""
    schedule = Schedule(plan_of(nodes, inputs="{a: {type: integer}, b: {type: integer}}"), {"a": a, "b": b})
    run_through(schedule)
    assert (schedule.states["c"] is DONE) == runs


def test_a_node_waits_for_all_its_predecessors_even_with_any_of() -> None:
    nodes = """
  start: {type: start, next: [a, b]}
  a: {handler: echo}
  b: {handler: echo}
  c: {handler: echo, depends_on: {any_of: [a, b]}, next: end}
  end: {type: end}
"""
    schedule = Schedule(plan_of(nodes))
    schedule.begin()
    assert schedule.apply(NodeCompleted("a", {})) == []
    assert schedule.apply(NodeCompleted("b", {})) == [ExecuteNode("c", {})]


def test_false_when_skips_the_node_and_its_followers() -> None:
    nodes = """
  start: {type: start, next: [a, end]}
  a: {handler: echo, when: "{{ inputs.n }} > 1", next: b}
  b: {handler: echo, next: end}
  end: {type: end}
"""
    seen = Schedule(plan_of(nodes, inputs=NUMBER), {"n": 1}).begin()
    assert seen[1:] == [Skipped("a"), Skipped("b"), Settled("end", DONE, {}), Finished({})]


def test_a_run_that_reaches_no_end_fails() -> None:
    nodes = """
  start: {type: start, next: a}
  a: {handler: echo, when: "false", next: end}
  end: {type: end}
"""
    failed = Schedule(plan_of(nodes)).begin()[-1]
    assert isinstance(failed, Failed)
    assert failed.error.code == "no-end-reached"
