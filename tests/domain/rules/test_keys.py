"""Keys of batches tell batches apart, and no client can write one."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.rules.keys import MARK, RESERVED, batch_mark, chosen, common, item_key

batches = st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=3), max_size=3)


@given(st.text(max_size=20), st.text(max_size=20), batches, batches)
def test_batch_mark_tells_keys_and_bodies_apart_and_prefixes_its_items(
    key: str, other_key: str, batch: dict[str, Any], other: dict[str, Any]
) -> None:
    mark = batch_mark(key, batch)
    assert re.match(MARK, mark)
    assert (common(mark) == common(batch_mark(other_key, other))) is (key == other_key)
    assert (mark == batch_mark(key, other)) is (batch == other)
    assert common(mark) <= item_key(mark, 999) < common(mark) + "z"
    assert len(item_key(mark, 999)) <= 255


@given(batches, st.integers(0, 999))
def test_client_cannot_choose_a_batch_items_key(batch: dict[str, Any], index: int) -> None:
    with pytest.raises(ValueError, match="made by the platform"):
        chosen(item_key(batch_mark("a", batch), index))


@pytest.mark.parametrize("key", ["a\0b", "\ud800", RESERVED])
def test_malformed_key_is_refused(key: str) -> None:
    with pytest.raises(ValueError, match="key"):
        chosen(key)


@pytest.mark.parametrize("key", ["dem-1", "b#3", "schlüssel", f"my {RESERVED}", " "])
def test_well_formed_key_is_taken_as_it_is(key: str) -> None:
    assert chosen(key) == key
