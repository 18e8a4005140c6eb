"""Plans of several runs: which step may run when, what it is given, what the request returns."""

import pytest

from flows.compiler import ExpressionError, Input, InputFault, RequestPlan, Step
from flows.compiler.interfaces import Sketch
from tests.flows.compiler.support import compiled

TEXT = """
plan_id: test
accepts: {data_type: [raster, vector], operation: [staged]}
inputs: {source: {type: string, required: true}, size: {type: integer, default: 5}}
steps:
  - {id: last, workflow: w, inputs: {x: "{{ steps.first.outputs.x }}"}, depends_on: [first, other]}
  - {id: first, workflow: w, inputs: {x: "{{ inputs.source }}", id: "{{ run.request_id }}"}}
  - {id: other, workflow: w}
outputs: {x: "{{ steps.last.outputs.x }}", size: "{{ inputs.size }}"}
"""


@pytest.fixture(name="plan")
def _plan() -> RequestPlan:
    compilation = compiled(TEXT, {"w": Sketch({name: Input(name, "string") for name in ("x", "id")}, {"x": 1})})
    assert compilation.faults == ()
    assert compilation.plan is None
    assert compilation.request_plan is not None
    return compilation.request_plan


def test_steps_are_ordered_by_their_dependencies(plan: RequestPlan) -> None:
    assert [step.id for step in plan.steps] == ["first", "other", "last"]
    assert plan.steps[2].depends_on == ("first", "other")
    assert plan.name == "test"
    assert plan.version == 1
    assert plan.accepted_pairs() == (("raster", "staged"), ("vector", "staged"))


@pytest.mark.parametrize(
    ("completed", "ready"),
    [
        ([], ["first", "other"]),
        (["first"], ["other"]),
        (["first", "other"], ["last"]),
        (["first", "other", "last"], []),
    ],
)
def test_step_is_ready_once_its_dependencies_are_completed(
    plan: RequestPlan, completed: list[str], ready: list[str]
) -> None:
    assert [step.id for step in plan.ready(completed)] == ready


def test_step_inputs_are_rendered_from_earlier_results(plan: RequestPlan) -> None:
    assert plan.step_inputs("first", {"source": "a/b"}, {}, {"request_id": "r"}) == {"x": "a/b", "id": "r"}
    assert plan.step_inputs("last", {}, {"first": {"x": [1]}}) == {"x": [1]}
    assert plan.result({"size": 7}, {"last": {"x": 3}}) == {"x": 3, "size": 7}
    with pytest.raises(ExpressionError, match="there is no value 'first'"):
        plan.step_inputs("last", {}, {})


def test_optional_input_that_is_missing_is_left_out_of_the_step() -> None:
    text = """
plan_id: test
inputs: {how: {type: string}}
steps: [{id: only, workflow: w, inputs: {x: "{{ inputs.how | default(none) }}"}}]
"""
    made = compiled(text, {"w": Sketch({"x": Input("x", "string")}, {})}).request_plan
    assert made is not None
    assert made.step_inputs("only", {}, {}) == {}
    assert made.step_inputs("only", {"how": "fast"}, {}) == {"x": "fast"}


def test_inputs_of_a_request_plan_are_checked(plan: RequestPlan) -> None:
    assert plan.resolve_inputs({"source": "a/b"}) == {"source": "a/b", "size": 5}
    assert plan.input_schema()["required"] == ["source"]
    with pytest.raises(InputFault):
        plan.resolve_inputs({})


def test_a_step_survives_json() -> None:
    step = Step("a", "w", {"x": 1}, ("b",))
    assert Step.from_json(step.to_json()) == step
