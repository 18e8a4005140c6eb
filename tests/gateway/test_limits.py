"""How deep a body nests is told rightly and quickly, whatever the bytes are; a body too deep reaches nobody."""

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.limits import is_deeper
from tests.support.platform import Platform

JSON = st.recursive(
    st.none() | st.integers() | st.text('[]{}"\\ab', max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('[{"\\a', max_size=3), inner, max_size=3),
    max_leaves=40,
)


def depth(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth, value.values()), default=0)
    return 1 + max(map(depth, value), default=0) if isinstance(value, list) else 0


@given(JSON, st.integers(1, 6))
def test_it_agrees_with_a_parser(value: Any, most: int) -> None:
    assert is_deeper(json.dumps(value).encode(), most) == (depth(value) > most)


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'[{"a":'])
def test_what_never_ends_counts_too(opening: bytes) -> None:
    assert is_deeper(opening * 1000, 32)
    assert not is_deeper(opening * 8, 32)


@pytest.mark.parametrize(
    "body",
    [b'"\\' * 500_000, b"[" * 1_000_000, b"[]" * 500_000, b'{"' * 500_000, b'"\\"' * 333_333 + b"\\", b"[]]" * 333_333],
    ids=["escapes", "openers", "pairs", "keys", "a string without end", "closers"],
)
def test_a_megabyte_of_anything_is_judged_in_moments(body: bytes) -> None:
    began = time.process_time()
    is_deeper(b"[" * 40 + body, 32)
    assert time.process_time() - began < 2.0  # a second look at each byte would take minutes


async def test_a_body_too_deep_is_refused_before_anybody_reads_it(platform: Platform) -> None:
    nested = b'{"parameters": ' + b'{"a":' * 40 + b"1" + b"}" * 40 + b"}"
    async with platform.as_("ddh-dev") as partner:
        answer = await partner.post("/api/platform/submit", content=nested)
    assert (answer.status_code, answer.json()["code"]) == (422, "body-too-deep")
    assert "32 deep" in answer.json()["detail"]
