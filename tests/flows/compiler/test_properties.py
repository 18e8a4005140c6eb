"""Properties over random graphs, random text and random YAML. CAIRN_TEST_EXAMPLES=2000 makes them run long."""

import os
from typing import Any

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flows.compiler import CODES, Plan, Schedule, State
from flows.compiler.expressions import parse_condition, parse_template, render
from flows.compiler.simulate import Simulation, World, simulate
from flows.handlers.registry import registry
from tests.flows.compiler.random_workflows import workflows
from tests.flows.compiler.support import compiled, run_through

EXAMPLES = int(os.environ.get("CAIRN_TEST_EXAMPLES", "100"))
many = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def plan_from(text: str) -> Plan:
    compilation = compiled(text)
    assert compilation.faults == ()
    assert compilation.plan is not None
    return compilation.plan


@many
@given(workflows())
def test_valid_graphs_compile_to_plans_in_topological_order(text: str) -> None:
    plan = plan_from(text)
    seen: set[str] = set()
    for node in plan.nodes.values():
        assert seen.issuperset(node.predecessors)
        assert all(node.id in plan.nodes[name].successors for name in node.predecessors)
        seen.add(node.id)
    assert Plan.from_json(plan.to_json()) == plan


@many
@given(
    workflows(), st.integers(0, 9), st.dictionaries(st.sampled_from([f"n{k}" for k in range(12)]), st.integers(0, 5))
)
def test_a_run_visits_every_node_once_respects_every_edge_and_ends(text: str, n: int, failures: dict[str, int]) -> None:
    plan = plan_from(text)
    result = simulate(plan, {"n": n}, World(registry(), failures=failures))
    assert (result.outputs is None) == (result.error is not None)
    starts = [(step.node_id, step.try_number) for step in result.trace if step.state is State.RUNNING]
    assert len(starts) == len(set(starts)), "a node ran twice in one try"
    _respects_every_edge(plan, result)
    if result.succeeded:
        assert all(state.is_terminal for state in result.states.values())


def _respects_every_edge(plan: Plan, result: Simulation) -> None:
    last = {
        name: max((at for at, step in enumerate(result.trace) if step.node_id == name), default=-1)
        for name in plan.nodes
    }
    first = {
        name: min((at for at, step in enumerate(result.trace) if step.node_id == name), default=1 << 30)
        for name in plan.nodes
    }
    for node in plan.nodes.values():
        if first[node.id] < 1 << 30 and result.states[node.id] is not State.CANCELLED:
            assert all(last[name] < first[node.id] for name in node.predecessors)


@many
@given(workflows(), st.integers(0, 9))
def test_running_a_part_and_then_the_rest_equals_the_whole(text: str, n: int) -> None:
    plan = plan_from(text)
    whole = Schedule(plan, {"n": n})
    run_through(whole)
    names = list(plan.nodes)
    half = {name for name in names[: len(names) // 2] if not plan.nodes[name].fan_in and not plan.nodes[name].fan_out}
    before = {name: outcome for name, outcome in whole.outcomes.items() if name in half}
    rest = Schedule(plan, {"n": n}, only=set(names) - half, known=before)
    run_through(rest)
    assert {name: whole.states[name] for name in rest.states} == dict(rest.states)


TEXT = st.text(max_size=200)
_KEYS = (
    "workflow_id version nodes inputs outputs type handler next params when condition branches default source task "
    "retry depends_on steps plan_id accepts a start end"
)
_ANY_KEY = st.sampled_from(_KEYS.split())
_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | TEXT
    | st.sampled_from(
        [
            "start",
            "end",
            "task",
            "conditional",
            "fan_out",
            "fan_in",
            "workflow",
            "echo",
            "a",
            "{{ nodes.a.output.x }}",
            "{{ item }}",
            "5%",
        ]
    )
)
_DOCUMENTS = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_ANY_KEY, inner, max_size=6)
)


def _only_faults(text: str) -> None:
    compilation = compiled(text)
    assert (compilation.plan is None and compilation.request_plan is None) == bool(compilation.faults)
    lines = text.count("\n") + 2
    for fault in compilation.faults:
        assert fault.code in CODES
        assert 1 <= fault.line <= max(lines, len(text.splitlines()) + 1)
        assert fault.column >= 1
        assert fault.message


@many
@given(TEXT)
def test_random_text_leads_to_faults_only(text: str) -> None:
    _only_faults(text)


@many
@given(_DOCUMENTS)
def test_random_yaml_leads_to_faults_only(document: Any) -> None:
    _only_faults(yaml.safe_dump(document, allow_unicode=True))


@many
@given(st.dictionaries(st.sampled_from(["start", "a", "b", "end"]), st.dictionaries(_ANY_KEY, _DOCUMENTS, max_size=6)))
def test_random_nodes_lead_to_faults_only(nodes: Any) -> None:
    _only_faults(yaml.safe_dump({"workflow_id": "test", "version": 1, "nodes": nodes}, allow_unicode=True))


@many
@given(st.text(st.sampled_from("{}%# |.'\"()[]+-*~<>=!,:abnot1_ \n"), max_size=60))
def test_random_expressions_lead_to_complaints_only(text: str) -> None:
    for template in (parse_template(text), parse_condition(text)):
        assert template.complaints or template.parts or not text or "{#" in text


@many
@given(TEXT)
def test_partner_text_renders_to_the_same_string(text: str) -> None:
    names = {"inputs": {"x": text}, "nodes": {"a": {"output": {"deep": [text]}}}}
    assert render("{{ inputs.x }}", names) == text
    assert render("{{ nodes.a.output.deep[0] }}", names) == text
    assert render("<{{ inputs.x }}>", names) == f"<{text}>"
    assert render({"a": ["{{ inputs.x }}"]}, names) == {"a": [text]}
    assert render("{{ inputs.x ~ '' }}", names) == text


@many
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    )
)
def test_rendered_data_keeps_its_type(value: Any) -> None:
    assert render("{{ inputs.x }}", {"inputs": {"x": value}}) == value
    assert render("{{ [inputs.x] }}", {"inputs": {"x": value}}) == [value]
