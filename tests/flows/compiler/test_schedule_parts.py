"""The scheduler on a part of a workflow, and what others tell it of the rest."""

from dataclasses import replace
from typing import Any

import pytest

from flows.compiler import (
    Arm,
    Choice,
    ExecuteNode,
    Failed,
    Finished,
    ItemCompleted,
    ItemFailed,
    Node,
    NodeCompleted,
    NodeFailed,
    NodeOutcome,
    NodeSkipped,
    OutOfTurn,
    Schedule,
    Skipped,
    State,
)
from tests.flows.compiler.scheduling import DIAMOND, DONE, LINE, NUMBER, fan, fan_schedule
from tests.flows.compiler.support import BOOM, known, plan_of, run_through


def test_part_runs_with_the_known_outcomes_of_the_rest() -> None:
    plan = plan_of(LINE, inputs=NUMBER)
    schedule = Schedule(plan, {"n": 1}, only={"b"}, known=known(a=NodeOutcome(DONE, {"echoed_params": 9})))
    assert schedule.begin() == [ExecuteNode("b", {"y": 9})]
    assert schedule.apply(NodeCompleted("b", {})) == [Finished({})]
    assert set(schedule.states) == {"b"}
    assert set(schedule.outcomes) == {"a", "b"}


def test_a_part_with_the_end_has_outputs() -> None:
    plan = plan_of(LINE, inputs=NUMBER, outputs='{a: "{{ nodes.a.output.echoed_params }}"}')
    schedule = Schedule(plan, {"n": 1}, only=["b", "end"], known=known(a=NodeOutcome(DONE, {"echoed_params": 9})))
    schedule.begin()
    assert schedule.apply(NodeCompleted("b", {}))[-1] == Finished({"a": 9})


def test_predecessor_without_a_known_outcome_counts_as_completed() -> None:
    schedule = Schedule(plan_of(DIAMOND, inputs=NUMBER), {"n": 1}, only={"big", "joined"})
    assert schedule.begin() == [ExecuteNode("big", {})]


@pytest.mark.parametrize(("state", "decision"), [(State.SKIPPED, Skipped("joined")), (DONE, ExecuteNode("joined", {}))])
def test_known_outcome_of_a_predecessor_decides_the_node(state: State, decision: Any) -> None:
    told = known(big=NodeOutcome(state, {}), small=NodeOutcome(State.SKIPPED))
    assert Schedule(plan_of(DIAMOND, inputs=NUMBER), only={"joined"}, known=told).begin()[0] == decision


def test_a_known_conditional_keeps_its_choice() -> None:
    told = known(a=NodeOutcome(DONE, {"chosen": ["small"]}))
    assert Schedule(plan_of(DIAMOND, inputs=NUMBER), only={"big"}, known=told).begin()[0] == Skipped("big")
    assert Schedule(plan_of(DIAMOND, inputs=NUMBER), only={"small"}, known=told).begin() == [ExecuteNode("small", {})]


def test_known_outcome_of_a_node_that_runs_again_is_forgotten() -> None:
    plan = plan_of(LINE, inputs=NUMBER)
    told = known(a=NodeOutcome(State.FAILED, None, BOOM), start=NodeOutcome(DONE, {}))
    schedule = Schedule(plan, {"n": 1}, only={"a", "b", "end"}, known=told)
    assert schedule.begin() == [ExecuteNode("a", {"x": 1})]
    assert set(schedule.outcomes) == {"start"}


def test_a_fan_in_runs_only_with_its_fan_out() -> None:
    plan = plan_of(fan())
    with pytest.raises(OutOfTurn, match="only together with its fan_out 'each'"):
        Schedule(plan, only={"all"})
    with pytest.raises(OutOfTurn, match="there is no node 'nobody' in test"):
        Schedule(plan, only={"nobody", "each"})


def test_child_run_and_parent_come_to_the_same_decisions() -> None:
    """A stretch runs elsewhere; the parent hears of its nodes in topological order and decides the rest."""
    nodes = """
  start: {type: start, next: a}
  a: {handler: echo, next: each}
  each: {type: fan_out, source: [1, 2], task: {handler: echo}, next: all}
  all: {type: fan_in, next: way}
  way: {type: conditional, condition: "{{ nodes.all.output.count }} > 1", on_true: b, on_false: c}
  b: {handler: echo, when: "false", next: d}
  c: {handler: echo, next: d}
  d: {handler: echo, depends_on: [a], next: end}
  end: {type: end}
"""
    plan = plan_of(nodes, outputs='{n: "{{ nodes.all.output.results }}"}')
    parent = Schedule(plan)
    assert parent.begin()[-1] == ExecuteNode("a", {})
    stretch = ["a", "each", "all", "way", "b", "c"]
    child = Schedule(plan, only=stretch, known=dict(parent.outcomes))
    assert run_through(child, outputs=lambda name: name)[-1] == Finished({})
    decided = []
    for name in stretch:
        outcome = child.outcomes[name]
        skipped = outcome.state is State.SKIPPED
        decided += parent.apply(NodeSkipped(name) if skipped else NodeCompleted(name, outcome.output))
    assert [decision for decision in decided if isinstance(decision, ExecuteNode)] == [ExecuteNode("d", {})]
    assert {name: parent.states[name] for name in stretch} == dict(child.states)
    assert parent.apply(NodeCompleted("d", {}))[-1] == Finished({"n": ["each__0", "each__1"]})


def test_fan_in_of_a_child_runs_fan_out_waits_for_its_outcome() -> None:
    schedule = fan_schedule()
    assert schedule.apply(NodeCompleted("each", {"fan_out_count": 3})) == []
    assert schedule.states["all"] is State.READY
    assert schedule.apply(NodeCompleted("all", {"results": []}))[-1] == Finished({})


def test_fan_out_that_failed_in_a_child_run_fails_the_run() -> None:
    schedule = fan_schedule()
    assert schedule.apply(NodeFailed("each", BOOM)) == [Failed(BOOM)]


def test_nodes_behind_a_skipped_segment_are_skipped() -> None:
    schedule = Schedule(plan_of(LINE, inputs=NUMBER), {"n": 1})
    schedule.begin()
    assert schedule.apply(NodeSkipped("a"))[:2] == [Skipped("b"), Skipped("end")]


def test_a_sub_workflow_is_executed_with_its_inputs() -> None:
    inner = plan_of("  start: {type: start, next: end}\n  end: {type: end}", inputs=NUMBER, outputs="{total: 5}")
    nodes = """
  start: {type: start, next: a}
  a: {type: workflow, workflow: inner, inputs: {n: "{{ inputs.n }}"}, next: end}
  end: {type: end}
"""
    plan = plan_of(nodes, inputs=NUMBER, outputs='{t: "{{ nodes.a.output.total }}"}', siblings={"inner": inner})
    schedule = Schedule(plan, {"n": 4})
    assert schedule.begin()[-1] == ExecuteNode("a", {"n": 4})
    assert schedule.apply(NodeCompleted("a", {"total": 5}))[-1] == Finished({"t": 5})


def test_child_that_ends_after_its_fan_out_leads_to_no_decision() -> None:
    nodes = """
  start: {type: start, next: each}
  each: {type: fan_out, source: [1], task: {handler: echo}, next: all}
  all: {type: fan_in, next: a}
  a: {handler: echo, next: end}
  end: {type: end}
"""
    schedule = Schedule(plan_of(nodes))
    schedule.begin()
    assert schedule.apply(ItemCompleted("each", 0, "x"))[-1] == ExecuteNode("a", {})
    assert schedule.apply(ItemFailed("each", 0, BOOM)) == []
    assert not schedule.is_over


def test_unknown_event_or_node_type_is_refused() -> None:
    plan = plan_of(LINE, inputs=NUMBER)
    nobody: Any = "nobody"
    with pytest.raises(AssertionError):
        Schedule(plan).apply(nobody)
    odd = replace(plan, nodes={"start": replace(plan.nodes["start"], type=nobody)})
    with pytest.raises(AssertionError):
        Schedule(odd).begin()


def test_branches_without_a_default_fail_where_none_holds() -> None:
    choice = Choice("inputs.n", (Arm("> 5", ("end",)),), by_field=True)
    plan = plan_of("  start: {type: start, next: end}\n  end: {type: end}", inputs=NUMBER)
    odd = replace(plan, nodes={"start": Node("start", "conditional", choice=choice)})
    failed = Schedule(odd, {"n": 1}).begin()[-1]
    assert isinstance(failed, Failed)
    assert "no branch holds for '1'" in failed.error.message


def test_node_behind_a_conditional_that_is_no_branch_runs_in_any_case() -> None:
    nodes = """
  start: {type: start, next: a}
  a: {type: conditional, condition: "{{ inputs.n }} > 1", on_true: end, on_false: end}
  b: {handler: echo, depends_on: a, next: end}
  end: {type: end}
"""
    assert ExecuteNode("b", {}) in Schedule(plan_of(nodes, inputs=NUMBER), {"n": 1}).begin()


def test_a_part_whose_end_is_not_reached_fails() -> None:
    told = known(b=NodeOutcome(State.SKIPPED))
    failed = Schedule(plan_of(LINE, inputs=NUMBER), {"n": 1}, only={"end"}, known=told).begin()[-1]
    assert isinstance(failed, Failed)
    assert failed.error.code == "no-end-reached"
