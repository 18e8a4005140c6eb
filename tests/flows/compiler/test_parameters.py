"""Parameters against a handler's model: what is told of a part, and what only of the whole."""

import pytest
from pydantic import BaseModel, Field, model_validator

from flows.compiler import compile_text
from flows.handlers.context import Context
from flows.handlers.registry import Handler


class Pair(BaseModel):
    low: int = Field(default=0, alias="from")
    high: int = 9
    names: list[str] = Field(default_factory=list)

    @model_validator(mode="after")
    def _in_order(self) -> "Pair":
        if self.low > self.high:
            raise ValueError("low is above high")
        return self


class Nothing(BaseModel):
    pass


def _run(params: Pair, context: Context) -> Nothing:
    return Nothing()


HANDLERS = {"pair": Handler("pair", "light", 60, Pair, Nothing, Nothing(), "A pair.", False, False, False, _run)}


@pytest.mark.parametrize(
    ("params", "faults"),
    [
        ("{from: 1, high: 2}", []),
        ("{from: 5, high: 2}", [("bad-param", 6, 30, "/nodes/a/params")]),
        ('{from: 5, high: "{{ inputs.n }}"}', []),
        ('{from: x, high: "{{ inputs.n }}"}', [("bad-param", 6, 37, "/nodes/a/params/from")]),
        ("{low: 1}", [("unknown-param", 6, 31, "/nodes/a/params/low")]),
        ("{names: [a, 5]}", [("bad-param", 6, 42, "/nodes/a/params/names/1")]),
        ('{names: ["{{ inputs.n }}", 5]}', []),
    ],
)
def test_node_parameters_are_checked_against_the_handlers_model(
    params: str, faults: list[tuple[str, int, int, str]]
) -> None:
    text = f"""workflow_id: test
version: 1
inputs: {{n: {{type: integer, default: 1}}}}
nodes:
  start: {{type: start, next: a}}
  a: {{handler: pair, params: {params}, next: end}}
  end: {{type: end}}
"""
    found = compile_text(text, "-", HANDLERS).faults
    assert [(fault.code, fault.line, fault.column, fault.pointer) for fault in found] == faults


def test_fault_of_parameters_quotes_the_models_reason() -> None:
    text = "workflow_id: other\nversion: 1\nnodes:\n  start: {type: start, next: a}\n"
    text += "  a: {handler: pair, params: {from: 5, high: 2}, next: end}\n  end: {type: end}\n"
    (fault,) = compile_text(text, "standard input", HANDLERS).faults
    assert fault.message == "params: low is above high"
    assert fault.hint == "see what pair declares"
