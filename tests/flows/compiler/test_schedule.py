"""The scheduler, decision by decision: when nodes run, how they end, and what a run makes of it."""

from dataclasses import replace
from typing import Any

import pytest

from flows.compiler import (
    Arm,
    Cancelled,
    Choice,
    Execute,
    Expand,
    Failed,
    Finished,
    Item,
    ItemCompleted,
    ItemFailed,
    Node,
    NodeCompleted,
    NodeFailed,
    NodeSkipped,
    NodeStarted,
    Outcome,
    OutOfTurn,
    RunError,
    Schedule,
    Settled,
    Skipped,
    State,
    StopRunning,
)
from tests.flows.compiler.support import BOOM, known, plan_of, run_through, states

DONE = State.COMPLETED
LINE = """
  start: {type: start, next: a}
  a: {handler: echo, params: {x: "{{ inputs.n }}"}, next: b}
  b: {handler: echo, params: {y: "{{ nodes.a.output.echoed_params }}"}, next: end}
  end: {type: end}
"""
NUMBER = "{n: {type: integer, default: 1}}"


def fan(extra: str = "", source: str = "[1, 2, 3]", fan_in: str = "", params: str = '{x: "{{ item }}"}') -> str:
    return f"""
  start: {{type: start, next: each}}
  each: {{type: fan_out, source: {source}, {extra} task: {{handler: echo, params: {params}}}, next: all}}
  all: {{type: fan_in, {fan_in} next: end}}
  end: {{type: end}}
"""


def fan_schedule(extra: str = "", **options: Any) -> Schedule:
    schedule = Schedule(plan_of(fan(extra, **options)))
    schedule.begin()
    return schedule


# --- a line ---


def test_a_line_runs_one_node_after_the_other() -> None:
    plan = plan_of(LINE, inputs=NUMBER, outputs='{z: "{{ nodes.b.output.r }}"}'.replace(".output.r", ".status"))
    schedule = Schedule(plan, {"n": 5})
    assert schedule.begin() == [Settled("start", DONE, {}), Execute("a", {"x": 5})]
    assert schedule.apply(NodeCompleted("a", {"echoed_params": 7})) == [Execute("b", {"y": 7})]
    assert not schedule.is_over
    assert schedule.apply(NodeCompleted("b", {})) == [Settled("end", DONE, {}), Finished({"z": "completed"})]
    assert schedule.is_over
    assert set(schedule.states.values()) == {DONE}


def test_states_follow_the_node() -> None:
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


def test_late_and_repeated_events_decide_nothing() -> None:
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
    assert schedule.begin()[-1] == Execute("a", {"id": "r1", "none": None, "n": 3})


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


def test_a_lone_failure_stops_nobody() -> None:
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
    assert schedule.apply(NodeFailed("a", BOOM)) == [Execute("b", {"s": "failed", "e": "boom", "o": 0})]
    assert schedule.states["a"] is State.FAILED
    assert schedule.outcomes["a"] == Outcome(State.FAILED, None, BOOM)


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


def test_a_cancel_ends_everything() -> None:
    schedule = Schedule(plan_of(LINE, inputs=NUMBER), {"n": 1})
    schedule.begin()
    stop, failed = schedule.apply(Cancelled())
    assert stop == StopRunning(("a",))
    assert isinstance(failed, Failed)
    assert failed.error.code == "cancelled"
    assert states(schedule) == {"start": "completed", "a": "cancelled", "b": "cancelled", "end": "cancelled"}
    assert schedule.apply(Cancelled()) == []


# --- branching ---

DIAMOND = """
  start: {type: start, next: a}
  a: {type: conditional, condition: "{{ inputs.n }} > 1", on_true: big, on_false: [small, both]}
  big: {handler: echo, next: [both, joined]}
  small: {handler: echo, next: joined}
  both: {handler: echo, depends_on: a, next: end}
  joined: {handler: echo, depends_on: {any_of: [big, small]}, next: end}
  end: {type: end}
"""


@pytest.mark.parametrize(
    ("n", "chosen", "ran", "skipped"),
    [(5, ["big"], ["big", "both", "joined"], ["small"]), (1, ["small", "both"], ["small", "both", "joined"], ["big"])],
)
def test_a_conditional_chooses(n: int, chosen: list[str], ran: list[str], skipped: list[str]) -> None:
    schedule = Schedule(plan_of(DIAMOND, inputs=NUMBER), {"n": n})
    seen = run_through(schedule)
    assert Settled("a", DONE, {"chosen": chosen}) in seen
    assert {decision.node_id for decision in seen if isinstance(decision, Execute)} == set(ran)
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
def test_one_completed_predecessor_is_enough(rule: str, a: int, b: int, runs: bool) -> None:
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
    assert schedule.apply(NodeCompleted("b", {})) == [Execute("c", {})]


def test_when_skips_and_skipping_flows_on() -> None:
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


# --- fan-outs ---


def test_a_fan_out_expands_counts_and_aggregates_in_item_order() -> None:
    plan = plan_of(
        fan('item_key: "k{{ item }}", max_concurrency: 2, shards: 3,'), outputs='{r: "{{ nodes.all.output.results }}"}'
    )
    schedule = Schedule(plan)
    items = tuple(Item(index, f"k{index + 1}", {"x": index + 1}) for index in range(3))
    assert schedule.begin()[1:] == [Expand("each", items, 3, max_concurrency=2, shards=3)]
    assert schedule.states["each"] is State.READY
    assert schedule.apply(ItemCompleted("each", 2, "c")) == []
    assert schedule.apply(ItemCompleted("each", 2, "late")) == []
    assert schedule.apply(ItemCompleted("each", 3, "nobody")) == []
    assert schedule.apply(ItemCompleted("each", -1, "nobody")) == []
    assert schedule.apply(ItemCompleted("each", 0, "a")) == []
    output = {"fan_out_count": 3, "child_node_ids": ["each__0", "each__1", "each__2"]}
    results = {"results": ["a", "b", "c"], "count": 3, "succeeded": 3, "failed": []}
    assert schedule.apply(ItemCompleted("each", 1, "b")) == [
        Settled("each", DONE, output),
        Settled("all", DONE, results),
        Settled("end", DONE, {}),
        Finished({"r": ["a", "b", "c"]}),
    ]
    assert schedule.apply(ItemCompleted("each", 1, "b")) == []


def test_an_empty_source_makes_no_child() -> None:
    seen = Schedule(plan_of(fan(source="[]"))).begin()
    assert seen[1:3] == [
        Settled("each", DONE, {"fan_out_count": 0, "child_node_ids": []}),
        Settled("all", DONE, {"results": [], "count": 0, "succeeded": 0, "failed": []}),
    ]


def test_batches_are_children() -> None:
    schedule = Schedule(plan_of(fan("batch_size: 2,", params='{x: "{{ items }}", i: "{{ index }}"}')))
    expand = schedule.begin()[-1]
    assert isinstance(expand, Expand)
    assert [item.params for item in expand.items] == [{"x": [1, 2], "i": 0}, {"x": [3], "i": 1}]
    assert expand.count == 2


def test_one_failure_is_too_many_by_default() -> None:
    schedule = fan_schedule()
    settled, stopped, failed = [*schedule.apply(ItemFailed("each", 1, BOOM)), None][:3]
    assert isinstance(settled, Settled)
    assert settled.error is not None
    assert settled.error.code == "too-many-failures"
    assert settled.error.message == "1 of 3 children failed; each__1: boom"
    assert isinstance(stopped, Failed)
    assert failed is None
    assert schedule.states["each"] is State.FAILED


@pytest.mark.parametrize(
    ("tolerated", "failures", "succeeds"),
    [("1", 1, True), ("1", 2, False), ('"34%"', 1, True), ('"33%"', 1, False), ('"100%"', 3, True), ("0", 1, False)],
)
def test_failures_are_tolerated_up_to_the_limit(tolerated: str, failures: int, succeeds: bool) -> None:
    schedule = fan_schedule(f"tolerated_failures: {tolerated},")
    for index in range(3):
        schedule.apply(ItemFailed("each", index, BOOM) if index < failures else ItemCompleted("each", index, index))
    assert (schedule.states["each"] is DONE) == succeeds
    assert schedule.is_over


def test_a_fan_in_tells_what_failed() -> None:
    schedule = fan_schedule('tolerated_failures: 1, item_key: "k{{ item }}",')
    schedule.apply(ItemFailed("each", 0, BOOM))
    schedule.apply(ItemCompleted("each", 1, "b"))
    settled = schedule.apply(ItemCompleted("each", 2, "c"))[1]
    failed = [{"key": "k1", "index": 0, "error": "boom"}]
    assert settled == Settled("all", DONE, {"results": ["b", "c"], "count": 2, "succeeded": 2, "failed": failed})


def test_a_fan_out_that_may_fail_waits_for_all_children() -> None:
    schedule = fan_schedule("on_failure: continue,")
    assert schedule.apply(ItemFailed("each", 0, BOOM)) == []
    assert schedule.apply(ItemCompleted("each", 1, "b")) == []
    settled, collected, *_ = schedule.apply(ItemCompleted("each", 2, "c"))
    assert isinstance(settled, Settled)
    assert settled.state is State.FAILED
    assert isinstance(collected, Settled)
    assert collected.output["results"] == ["b", "c"]
    assert schedule.is_over


def test_a_child_whose_params_cannot_be_rendered_counts_as_failed() -> None:
    source, params = "[{a: 1}, {b: 2}]", '{x: "{{ item.a }}"}'
    schedule = Schedule(plan_of(fan("tolerated_failures: 1,", source=source, params=params)))
    expand = schedule.begin()[-1]
    assert isinstance(expand, Expand)
    assert ([item.index for item in expand.items], expand.count) == ([0], 2)
    settled = schedule.apply(ItemCompleted("each", 0, "a"))[1]
    assert isinstance(settled, Settled)
    assert (settled.output["succeeded"], settled.output["failed"][0]["index"]) == (1, 1)


def test_too_many_children_that_cannot_be_made_fail_the_fan_out_at_once() -> None:
    schedule = Schedule(plan_of(fan(source="[{a: 1}, {b: 2}]", params='{x: "{{ item.a }}"}')))
    _, settled, failed = schedule.begin()
    assert isinstance(settled, Settled)
    assert isinstance(failed, Failed)
    assert failed.error.code == "too-many-failures"


@pytest.mark.parametrize(
    ("inputs", "extra", "message"),
    [
        ({"list": "text"}, "", "not a list but str"),
        ({"list": [1, 1]}, 'item_key: "{{ item }}",', "children 0 and 1 have one key: '1'"),
    ],
)
def test_a_fan_out_that_cannot_expand_fails(inputs: dict[str, Any], extra: str, message: str) -> None:
    plan = plan_of(fan(extra, source='"{{ inputs.list }}"'), inputs="{list: {type: array}}")
    failed = Schedule(plan, inputs).begin()[-1]
    assert isinstance(failed, Failed)
    assert (failed.error.code, failed.error.node_id) == ("template-error", "each")
    assert message in failed.error.message


def test_a_fan_out_that_cannot_expand_but_may_fail_leaves_an_empty_fan_in() -> None:
    plan = plan_of(fan("on_failure: continue,", source='"{{ inputs.list }}"'), inputs="{list: {type: array}}")
    seen = Schedule(plan, {"list": "text"}).begin()
    assert isinstance(seen[-1], Finished)
    assert Settled("all", DONE, {"results": [], "count": 0, "succeeded": 0, "failed": []}) in seen


def test_outputs_that_cannot_be_aggregated_fail_the_fan_in() -> None:
    schedule = fan_schedule(fan_in="aggregation: sum, field: size,")
    for index in range(2):
        schedule.apply(ItemCompleted("each", index, {"size": 1}))
    settled, failed = schedule.apply(ItemCompleted("each", 2, {"size": "x"}))[1:]
    assert isinstance(settled, Settled)
    assert isinstance(failed, Failed)
    assert failed.error == RunError("cannot-aggregate", "sum needs a number in field 'size' of every output", "all")


# --- parts of a workflow ---


def test_a_part_runs_with_what_is_known_of_the_rest() -> None:
    plan = plan_of(LINE, inputs=NUMBER)
    schedule = Schedule(plan, {"n": 1}, only={"b"}, known=known(a=Outcome(DONE, {"echoed_params": 9})))
    assert schedule.begin() == [Execute("b", {"y": 9})]
    assert schedule.apply(NodeCompleted("b", {})) == [Finished({})]
    assert set(schedule.states) == {"b"}
    assert set(schedule.outcomes) == {"a", "b"}


def test_a_part_with_the_end_has_outputs() -> None:
    plan = plan_of(LINE, inputs=NUMBER, outputs='{a: "{{ nodes.a.output.echoed_params }}"}')
    schedule = Schedule(plan, {"n": 1}, only=["b", "end"], known=known(a=Outcome(DONE, {"echoed_params": 9})))
    schedule.begin()
    assert schedule.apply(NodeCompleted("b", {}))[-1] == Finished({"a": 9})


def test_what_nobody_told_about_counts_as_completed() -> None:
    schedule = Schedule(plan_of(DIAMOND, inputs=NUMBER), {"n": 1}, only={"big", "joined"})
    assert schedule.begin() == [Execute("big", {})]


@pytest.mark.parametrize(("state", "decision"), [(State.SKIPPED, Skipped("joined")), (DONE, Execute("joined", {}))])
def test_what_is_known_decides(state: State, decision: Any) -> None:
    told = known(big=Outcome(state, {}), small=Outcome(State.SKIPPED))
    assert Schedule(plan_of(DIAMOND, inputs=NUMBER), only={"joined"}, known=told).begin()[0] == decision


def test_a_known_conditional_keeps_its_choice() -> None:
    told = known(a=Outcome(DONE, {"chosen": ["small"]}))
    assert Schedule(plan_of(DIAMOND, inputs=NUMBER), only={"big"}, known=told).begin()[0] == Skipped("big")
    assert Schedule(plan_of(DIAMOND, inputs=NUMBER), only={"small"}, known=told).begin() == [Execute("small", {})]


def test_what_is_known_of_a_node_that_runs_again_is_forgotten() -> None:
    plan = plan_of(LINE, inputs=NUMBER)
    told = known(a=Outcome(State.FAILED, None, BOOM), start=Outcome(DONE, {}))
    schedule = Schedule(plan, {"n": 1}, only={"a", "b", "end"}, known=told)
    assert schedule.begin() == [Execute("a", {"x": 1})]
    assert set(schedule.outcomes) == {"start"}


def test_a_fan_in_runs_only_with_its_fan_out() -> None:
    plan = plan_of(fan())
    with pytest.raises(OutOfTurn, match="only together with its fan_out 'each'"):
        Schedule(plan, only={"all"})
    with pytest.raises(OutOfTurn, match="there is no node 'nobody' in test"):
        Schedule(plan, only={"nobody", "each"})


def test_a_child_run_and_its_parent_agree() -> None:
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
    assert parent.begin()[-1] == Execute("a", {})
    stretch = ["a", "each", "all", "way", "b", "c"]
    child = Schedule(plan, only=stretch, known=dict(parent.outcomes))
    assert run_through(child, outputs=lambda name: name)[-1] == Finished({})
    decided = []
    for name in stretch:
        outcome = child.outcomes[name]
        skipped = outcome.state is State.SKIPPED
        decided += parent.apply(NodeSkipped(name) if skipped else NodeCompleted(name, outcome.output))
    assert [decision for decision in decided if isinstance(decision, Execute)] == [Execute("d", {})]
    assert {name: parent.states[name] for name in stretch} == dict(child.states)
    assert parent.apply(NodeCompleted("d", {}))[-1] == Finished({"n": ["each__0", "each__1"]})


def test_a_fan_in_whose_children_ran_elsewhere_waits_to_be_told() -> None:
    schedule = fan_schedule()
    assert schedule.apply(NodeCompleted("each", {"fan_out_count": 3})) == []
    assert schedule.states["all"] is State.READY
    assert schedule.apply(NodeCompleted("all", {"results": []}))[-1] == Finished({})


def test_a_fan_out_that_failed_elsewhere_fails_the_run() -> None:
    schedule = fan_schedule()
    assert schedule.apply(NodeFailed("each", BOOM)) == [Failed(BOOM)]


def test_a_skipped_stretch_is_skipped_on() -> None:
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
    assert schedule.begin()[-1] == Execute("a", {"n": 4})
    assert schedule.apply(NodeCompleted("a", {"total": 5}))[-1] == Finished({"t": 5})


def test_a_child_that_ends_after_its_fan_out_decides_nothing() -> None:
    nodes = """
  start: {type: start, next: each}
  each: {type: fan_out, source: [1], task: {handler: echo}, next: all}
  all: {type: fan_in, next: a}
  a: {handler: echo, next: end}
  end: {type: end}
"""
    schedule = Schedule(plan_of(nodes))
    schedule.begin()
    assert schedule.apply(ItemCompleted("each", 0, "x"))[-1] == Execute("a", {})
    assert schedule.apply(ItemFailed("each", 0, BOOM)) == []
    assert not schedule.is_over


def test_what_nobody_knows_is_refused() -> None:
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


def test_what_depends_on_a_conditional_but_is_none_of_its_ways_runs_in_any_case() -> None:
    nodes = """
  start: {type: start, next: a}
  a: {type: conditional, condition: "{{ inputs.n }} > 1", on_true: end, on_false: end}
  b: {handler: echo, depends_on: a, next: end}
  end: {type: end}
"""
    assert Execute("b", {}) in Schedule(plan_of(nodes, inputs=NUMBER), {"n": 1}).begin()


def test_a_part_whose_end_is_not_reached_fails() -> None:
    told = known(b=Outcome(State.SKIPPED))
    failed = Schedule(plan_of(LINE, inputs=NUMBER), {"n": 1}, only={"end"}, known=told).begin()[-1]
    assert isinstance(failed, Failed)
    assert failed.error.code == "no-end-reached"
