"""Whatever a try's process says, what is made of it can be written and kept; an honest message comes as it was said."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.rules.texts import unstorable_places
from flows.tries.process_messages import DEEPEST, LARGEST_INTEGER, Unheard, said

HONEST = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-LARGEST_INTEGER, LARGEST_INTEGER)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abc"), inner, max_size=4),
    max_leaves=20,
)
ANYTHING = st.recursive(
    st.none() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters()), inner, max_size=4),
    max_leaves=20,
)


@given(HONEST)
def test_honest_message_is_read_unchanged(message: Any) -> None:
    assert said(json.dumps(message).encode()) == message


@given(ANYTHING)
def test_every_accepted_message_is_storable(message: Any) -> None:
    try:
        taken = said(json.dumps(message).encode())
    except Unheard:
        return
    assert list(unstorable_places(taken)) == []
    json.dumps(taken, allow_nan=False, ensure_ascii=False).encode()


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(line: bytes) -> None:
    try:
        taken = said(line)
    except Unheard:
        return
    assert taken == json.loads(line)


@pytest.mark.parametrize("number", [f"{LARGEST_INTEGER + 1}", f"-{LARGEST_INTEGER + 1}", "9" * 5000])
def test_a_whole_number_without_bound_is_refused(number: str) -> None:
    with pytest.raises(Unheard):
        said(f'{{"metric": ["pixels", {number}]}}'.encode())


@pytest.mark.parametrize("depth", [DEEPEST, 900, 100_000])
def test_nesting_past_the_bound_is_refused(depth: int) -> None:
    assert said(b"[" * (DEEPEST - 1) + b"]" * (DEEPEST - 1))
    with pytest.raises(Unheard):
        said(b"[" * depth + b"0" + b"]" * depth)


def test_nan_is_accepted_as_nodata() -> None:
    assert math.isnan(said(b'{"result": {"nodata": NaN}}')["result"]["nodata"])
