"""Declared results, step by step: what is there, what is not, and what nobody can know."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, Optional

import pytest
from pydantic import BaseModel, ConfigDict, Field

from flows.compiler.result_types import NoSuchField, element_of, follow


class Inner(BaseModel):
    size: int
    name: str | None = None


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")

    known: int


class Outer(BaseModel):
    inner: Inner
    maybe: Optional[Inner] = None  # noqa: UP045 - both spellings are met
    many: list[Inner]
    pair: tuple[int, Inner]
    row: tuple[Inner, ...]
    table: dict[str, Inner]
    bare: dict  # type: ignore[type-arg]
    loose: list  # type: ignore[type-arg]
    anything: Any
    noted: Annotated[Inner, Field(description="x")]
    either: Inner | dict[str, int]
    word: Literal["a", "b"]
    open: Open
    sequence: Sequence[Inner]
    blob: bytes
    thing: object


@pytest.mark.parametrize(
    "steps",
    [
        ("inner", "size"),
        ("maybe", "name"),
        ("many", 0, "size"),
        ("many", -1),
        ("pair", 1, "size"),
        ("row", 5, "size"),
        ("table", "any", "size"),
        ("bare", "x", "y"),
        ("loose", 0, "x"),
        ("anything", "x", 0),
        ("noted", "size"),
        ("either", "size"),
        ("either", "other"),
        ("open", "unknown", "deep"),
        ("sequence", 0, "name", 0),
        ("pair", 9, "x"),
        ("thing", "x"),
        ("word", "x"),
    ],
)
def test_declared_field_of_a_result_is_accepted(steps: tuple[str | int, ...]) -> None:
    follow(Outer, steps)


@pytest.mark.parametrize(
    ("steps", "step", "known"),
    [
        (("gone",), "gone", tuple(Outer.model_fields)),
        (("inner", "gone"), "gone", ("size", "name")),
        (("inner", 0), 0, ("size", "name")),
        (("maybe", "gone"), "gone", ("size", "name")),
        (("many", "size"), "size", ()),
        (("pair", 0, "x"), "x", ()),
        (("inner", "size", 0), 0, ()),
        (("noted", "x"), "x", ("size", "name")),
        (("blob", "x"), "x", ()),
    ],
)
def test_undeclared_field_of_a_result_is_refused_with_the_known_ones(
    steps: tuple[str | int, ...], step: str | int, known: tuple[str, ...]
) -> None:
    with pytest.raises(NoSuchField) as caught:
        follow(Outer, steps)
    assert (caught.value.step, caught.value.known) == (step, known)


def test_annotated_type_is_unwrapped() -> None:
    assert follow(Annotated[Inner, "a note"], ("size",)) is int


def test_fields_of_language_records_are_known() -> None:
    assert follow({"a": {"b": int}}, ("a", "b")) is int
    with pytest.raises(NoSuchField):
        follow({"a": int}, ("b",))


def test_element_type_of_a_list_is_known() -> None:
    assert element_of(list[Inner]) is Inner
    assert element_of({"a": int}) is Any
    assert element_of(int) is Any
