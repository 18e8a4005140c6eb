"""Inputs: what fits, what does not, and that everything wrong is told at once."""

from typing import Any

import pytest

from flows.compiler import Input, InputFault
from flows.compiler.inputs import input_schema, resolve_inputs


def item(**written: Any) -> Input:
    return Input.of("x", written)


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("string", ["", "a"], [1, None, ["a"]]),
        ("integer", [0, -5, 5.0], [5.5, "5", True, None, float("inf"), float("nan")]),
        ("number", [0, 1.5, -2], ["1", True, None, float("inf")]),
        ("boolean", [True, False], [0, 1, "true"]),
        ("array", [[], [1]], ["a", {}, None]),
        ("object", [{}, {"a": 1}], [[], "a"]),
        ("date", ["2026-02-28"], ["2026-02-30", "2026-2-8", "20260228", "today", 20260228, "2026-02-28T00:00:00Z"]),
        (
            "datetime",
            ["2026-02-28T12:00:00Z", "2026-02-28 12:00:00+01:00", "2026-02-28t12:00z", "2026-02-28T12:00:00.123Z"],
            ["2026-02-28", "2026-02-28T12:00:00", "2026-02-28T25:00:00Z", 5],
        ),
        (
            "bbox",
            [[0, 0, 1, 1], (-180, -90, 180, 90), [170, 0, -170, 1], [0, 0, 0, 1, 1, 9], [1, 2, 1, 2]],
            [
                [0, 0, 1],
                [0, 1, 1, 0],
                [0, 0, 1, "1"],
                [0, -91, 1, 1],
                [0, 0, 1, 91],
                [181, 0, 1, 1],
                [0, 0, 181, 1],
                "0,0,1,1",
            ],
        ),
        ("uri", ["https://a.b/c", "s3://bucket/key", "urn:x"], ["a b://c", "/a/b", "https://[", "", 5, "https:"]),
    ],
)
def test_each_input_type_accepts_its_values_only(kind: str, good: list[Any], bad: list[Any]) -> None:
    assert [value for value in good if list(item(type=kind).problems(value))] == []
    assert [value for value in bad if not list(item(type=kind).problems(value))] == []


@pytest.mark.parametrize(
    ("written", "good", "bad", "problem"),
    [
        ({"type": "integer", "minimum": 1}, 1, 0, "must be at least 1, not 0"),
        ({"type": "number", "maximum": 1}, 1, 1.5, "must be at most 1, not 1.5"),
        ({"type": "string", "min_length": 2}, "ab", "a", "must hold at least 2 characters, not 1"),
        ({"type": "array", "max_length": 1}, [1], [1, 2], "must hold at most 1 elements, not 2"),
        ({"type": "string", "pattern": "^a"}, "ab", "ba", "must match ^a, not 'ba'"),
        ({"type": "string", "enum": ["a", "b"]}, "a", "c", "must be one of a, b, not 'c'"),
        ({"type": "array", "items": {"type": "integer"}}, [1], [1, "x"], "element 1 must be a whole number, not 'x'"),
        ({"type": "integer"}, 1, "x" * 100, f"must be a whole number, not '{'x' * 59}…"),
    ],
)
def test_value_beyond_a_bound_is_refused_with_the_problem(
    written: dict[str, Any], good: Any, bad: Any, problem: str
) -> None:
    assert list(item(**written).problems(good)) == []
    assert list(item(**written).problems(bad)) == [problem]


DECLARED = {
    "a": Input.of("a", {"type": "integer", "required": True, "minimum": 1, "description": "First"}),
    "b": Input.of("b", {"type": "string", "default": "x", "max_length": 3}),
    "c": Input.of("c", {"type": "boolean"}),
    "d": Input.of("d", {"type": "array", "enum": [[1]], "default": [1], "items": {"type": "number"}}),
}


def test_defaults_fill_inputs_that_are_not_given() -> None:
    assert resolve_inputs(DECLARED, {"a": 3}) == {"a": 3, "b": "x", "d": [1]}
    assert resolve_inputs(DECLARED, {"a": 3, "b": "y", "c": False}) == {"a": 3, "b": "y", "c": False, "d": [1]}


def test_all_wrong_inputs_are_reported_at_once() -> None:
    with pytest.raises(InputFault) as caught:
        resolve_inputs(DECLARED, {"b": "long", "cc": 1})
    assert [(problem.name, problem.message) for problem in caught.value.problems] == [
        ("a", "is required: a whole number"),
        ("b", "must hold at most 3 characters, not 4"),
        ("cc", "is not an input; did you mean 'c'?"),
    ]
    assert "a: is required" in str(caught.value)


def test_misspelt_input_is_refused_with_a_proposal() -> None:
    with pytest.raises(InputFault, match=r"is not an input; did you mean 'source'\?"):
        resolve_inputs({"source": item(type="string")}, {"sorce": "x"})
    with pytest.raises(InputFault, match="there are no inputs"):
        resolve_inputs({}, {"sorce": "x"})


def test_json_schema_states_the_declared_bounds() -> None:
    assert input_schema(DECLARED, "T", "D") == {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "T",
        "description": "D",
        "type": "object",
        "properties": {
            "a": {"type": "integer", "minimum": 1, "description": "First"},
            "b": {"type": "string", "maxLength": 3, "default": "x"},
            "c": {"type": "boolean"},
            "d": {"type": "array", "enum": [[1]], "default": [1], "items": {"type": "number"}},
        },
        "required": ["a"],
        "additionalProperties": False,
    }
    bare = input_schema({"x": item(type="array", min_length=1)}, "T")
    assert bare["properties"]["x"] == {"type": "array", "minItems": 1}
    assert "required" not in bare
    assert "description" not in bare


@pytest.mark.parametrize("declared", DECLARED.values(), ids=lambda declared: declared.name)
def test_input_declaration_survives_json(declared: Input) -> None:
    assert Input.from_json(declared.to_json()) == declared


def test_null_is_a_default_only_where_written() -> None:
    assert item(type="string").to_json() == {"name": "x", "type": "string"}
    assert not Input.from_json({"name": "x", "type": "string"}).has_default
