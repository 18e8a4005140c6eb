"""Which nodes travel together to the other pool."""

from itertools import pairwise
from math import ceil

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from flows.compiler import Plan, compile_text
from flows.compiler.partition import grouped, home_pool, priority_of, split, stretch
from flows.handlers.registry import registry
from flows.pools import QUEUES

HEAD = "workflow_id: w\nversion: 1\nnodes:\n  start: {type: start, next: a}\n"
VALIDATE = "handler: raster.validate, params: {source: x/y}"
ECHO = "handler: echo"


def plan(nodes: str) -> Plan:
    compiled = compile_text(HEAD + nodes, "w.yaml", registry())
    assert compiled.plan is not None, compiled.faults
    return compiled.plan


def test_a_chain_of_one_pool_is_one_stretch() -> None:
    chain = plan(
        f"  a: {{{VALIDATE}, next: b}}\n  b: {{{VALIDATE}, next: c}}\n"
        f"  c: {{{ECHO}, next: end}}\n  end: {{type: end}}\n"
    )
    assert stretch(chain, "a", ["start"]) == ["a", "b"]


def test_node_that_also_waits_for_the_other_pool_is_left_out_of_the_segment() -> None:
    diamond = plan(
        "  a: {handler: echo, next: [b, c]}\n"
        f"  b: {{{VALIDATE}, next: d}}\n  c: {{{ECHO}, next: d}}\n"
        f"  d: {{{VALIDATE}, next: end}}\n  end: {{type: end}}\n"
    )
    assert stretch(diamond, "b", ["start", "a"]) == ["b"]
    assert stretch(diamond, "b", ["start", "a", "c"]) == ["b", "d"]


def test_fan_in_is_in_the_segment_of_its_fan_out() -> None:
    fan = plan(
        f"  a: {{type: fan_out, source: '{{{{ [1, 2] }}}}', task: {{{VALIDATE}}}, next: b}}\n"
        f"  b: {{type: fan_in, next: c}}\n  c: {{{VALIDATE}, next: end}}\n  end: {{type: end}}\n"
    )
    assert stretch(fan, "a", ["start"]) == ["a", "b", "c"]


def test_home_pool_is_gdal_only_if_every_node_runs_there() -> None:
    only = plan(f"  a: {{{VALIDATE}, next: end}}\n  end: {{type: end}}\n")
    mixed = plan(f"  a: {{{VALIDATE}, next: b}}\n  b: {{{ECHO}, next: end}}\n  end: {{type: end}}\n")
    assert (home_pool(only), home_pool(mixed)) == ("gdal", "light")


def test_fan_out_that_may_be_sharded_is_left_out_of_the_segment() -> None:
    def fan(more: str) -> Plan:
        return plan(
            f"  a: {{{VALIDATE}, next: b}}\n"
            f"  b: {{type: fan_out, source: '{{{{ [1, 2] }}}}', {more}task: {{{VALIDATE}}}, next: c}}\n"
            f"  c: {{type: fan_in, next: end}}\n  end: {{type: end}}\n"
        )

    assert stretch(fan(""), "a", ["start"]) == ["a"]
    assert stretch(fan("shards: 1, "), "a", ["start"]) == ["a", "b", "c"]
    assert (home_pool(fan("")), home_pool(fan("shards: 2, "))) == ("gdal", "light")


@given(st.integers(0, 5000), st.integers(1, 300))
def test_split_keeps_every_item_in_even_groups(count: int, parts: int) -> None:
    cut = list(split(count, parts))
    assert [number for part in cut for number in part] == list(range(count))
    assert len(cut) == min(count, parts)
    assert not cut or max(map(len, cut)) - min(map(len, cut)) <= 1


@given(st.integers(1, 100_000), st.integers(1, 300))
@example(200, 200)
@example(201, 200)
@example(100_000, 200)
def test_items_have_task_runs_of_their_own_up_to_the_cap_and_share_as_many_beyond(count: int, cap: int) -> None:
    groups = grouped(count, cap)
    assert len(groups) == min(count, cap)
    assert all(before.stop == after.start for before, after in pairwise(groups))
    assert (groups[0].start, groups[-1].stop) == (0, count)
    assert max(map(len, groups)) == ceil(count / cap)
    assert min(map(len, groups)) == max(count // cap, 1)


@given(st.integers(1, 99_999), st.integers(1, 300))
@example(200, 200)
def test_an_item_more_makes_one_group_one_larger_and_never_fewer_groups(count: int, cap: int) -> None:
    before, after = (sorted(map(len, grouped(number, cap))) for number in (count, count + 1))
    before += [0] * (len(after) - len(before))
    assert sum(after) - sum(before) == 1
    assert sum(more != less for less, more in zip(sorted(before), after, strict=True)) == 1


@pytest.mark.parametrize("asked", ["high", "normal", "low"])
def test_realtime_workflow_has_high_priority_and_others_the_asked_one(asked: str) -> None:
    assert priority_of(asked, "realtime") == "high"
    assert priority_of(asked) == priority_of(asked, "offline") == asked
    assert asked in QUEUES


def test_segment_of_a_partial_run_holds_only_nodes_of_that_part() -> None:
    chain = plan(
        f"  a: {{{VALIDATE}, next: b}}\n  b: {{{VALIDATE}, next: c}}\n  c: {{{VALIDATE}, next: end}}\n"
        f"  end: {{type: end}}\n"
    )
    assert stretch(chain, "a", ["start"]) == ["a", "b", "c"]
    assert stretch(chain, "a", ["start", "b", "c", "end"]) == ["a"]
    assert stretch(chain, "b", ["start", "a", "end"]) == ["b", "c"]
