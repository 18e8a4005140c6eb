"""The scheduler's fan-outs, decision by decision."""

from typing import Any

import pytest

from flows.compiler import (
    Cancelled,
    Expand,
    Failed,
    Finished,
    Item,
    ItemCompleted,
    ItemFailed,
    RunError,
    Schedule,
    Settled,
    State,
)
from tests.flows.compiler.scheduling import DONE, fan, fan_schedule
from tests.flows.compiler.support import BOOM, plan_of


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


def test_each_batch_of_items_is_one_child() -> None:
    schedule = Schedule(plan_of(fan("batch_size: 2,", params='{x: "{{ items }}", i: "{{ index }}"}')))
    expand = schedule.begin()[-1]
    assert isinstance(expand, Expand)
    assert [item.params for item in expand.items] == [{"x": [1, 2], "i": 0}, {"x": [3], "i": 1}]
    assert expand.count == 2


def test_single_failed_child_fails_the_fan_out_by_default() -> None:
    schedule = fan_schedule()
    settled, stopped, failed = [*schedule.apply(ItemFailed("each", 1, BOOM)), None][:3]
    assert isinstance(settled, Settled)
    assert settled.error is not None
    assert settled.error.code == "too-many-failures"
    assert settled.error.message == "1 of 3 children failed, 0 succeeded, 2 not begun or cut short; each__1: boom"
    assert isinstance(stopped, Failed)
    assert failed is None
    assert schedule.states["each"] is State.FAILED


def test_items_that_end_after_the_fan_out_failed_are_counted_and_decide_nothing() -> None:
    schedule = fan_schedule()
    schedule.apply(ItemFailed("each", 1, BOOM))
    assert schedule.is_over
    assert schedule.apply(ItemFailed("each", 0, RunError("x", "bang"))) == []
    assert schedule.apply(ItemFailed("each", 0, BOOM)) == []  # told twice
    assert schedule.apply(ItemCompleted("each", 2, "c")) == []
    error = schedule.outcomes["each"].error
    assert error is not None
    assert error.message == "2 of 3 children failed, 1 succeeded; each__0: bang"


def test_items_that_end_after_another_node_failed_make_no_failure_of_their_fan_out() -> None:
    schedule = fan_schedule()
    schedule.apply(Cancelled())
    assert schedule.apply(ItemFailed("each", 0, BOOM)) == []
    assert "each" not in schedule.outcomes


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


def test_output_of_a_fan_in_lists_failed_children() -> None:
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
