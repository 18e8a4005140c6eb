"""What can be kept nowhere is found wherever it stands; everything else passes."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.rules.texts import made_storable, unstorable_places

KEPT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
GOOD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | KEPT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEPT, inner, max_size=4),
)


@given(GOOD)
def test_storable_value_passes_and_serialises(value: Any) -> None:
    assert list(unstorable_places(value)) == []
    json.dumps(value, ensure_ascii=False, allow_nan=False).encode()


@pytest.mark.parametrize(
    ("value", "places"),
    [
        ({"a": "x\0y"}, ["a"]),
        ({"a": {"b": ["fine", "\ud800"]}}, ["a.b[1]"]),
        ({"a\0": 1}, [""]),
        ([float("inf"), float("nan"), 1.0], ["[0]", "[1]"]),
    ],
)
def test_unstorable_text_is_found_at_its_place(value: Any, places: list[str]) -> None:
    assert list(unstorable_places(value)) == places


@given(st.text(st.characters(exclude_categories=[])))
def test_any_text_can_be_made_storable(text: str) -> None:
    assert list(unstorable_places(made_storable(text))) == []
    assert len(made_storable(text)) == len(text)
    assert made_storable(text) == text or list(unstorable_places(text)) == [""]
