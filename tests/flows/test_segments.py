"""Which nodes travel together to the other pool."""

from flows.compiler import Plan, compile_text
from flows.handlers.registry import registry
from flows.segments import home_pool, stretch

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


def test_a_follower_that_waits_for_the_other_pool_stays_behind() -> None:
    diamond = plan(
        "  a: {handler: echo, next: [b, c]}\n"
        f"  b: {{{VALIDATE}, next: d}}\n  c: {{{ECHO}, next: d}}\n"
        f"  d: {{{VALIDATE}, next: end}}\n  end: {{type: end}}\n"
    )
    assert stretch(diamond, "b", ["start", "a"]) == ["b"]
    assert stretch(diamond, "b", ["start", "a", "c"]) == ["b", "d"]


def test_a_fan_in_goes_where_its_children_are() -> None:
    fan = plan(
        f"  a: {{type: fan_out, source: '{{{{ [1, 2] }}}}', task: {{{VALIDATE}}}, next: b}}\n"
        f"  b: {{type: fan_in, next: c}}\n  c: {{{VALIDATE}, next: end}}\n  end: {{type: end}}\n"
    )
    assert stretch(fan, "a", ["start"]) == ["a", "b", "c"]


def test_a_workflow_lives_on_gdal_only_if_all_of_it_does() -> None:
    only = plan(f"  a: {{{VALIDATE}, next: end}}\n  end: {{type: end}}\n")
    mixed = plan(f"  a: {{{VALIDATE}, next: b}}\n  b: {{{ECHO}, next: end}}\n  end: {{type: end}}\n")
    assert (home_pool(only), home_pool(mixed)) == ("gdal", "light")
