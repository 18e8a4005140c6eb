"""How deep a body nests is told rightly and quickly, whatever the bytes are; a body too deep reaches nobody."""

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.edge.body_limit import is_deeper, is_utf8, may_be_json
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


ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be")


@given(JSON, st.integers(1, 6), st.sampled_from(ENCODINGS), st.booleans())
def test_depth_of_a_body_agrees_with_a_json_parser(value: Any, most: int, encoding: str, plain: bool) -> None:
    """Whatever the parser understands is judged as it understands it, or is refused for its encoding."""
    body = json.dumps(value, ensure_ascii=plain).encode(encoding, "surrogatepass")
    assert json.loads(body) == value
    assert is_utf8(body) == encoding.startswith("utf-8")
    assert not is_utf8(body) or is_deeper(body, most) == (depth(value) > most)


@given(st.binary(max_size=12))
def test_body_taken_for_utf8_is_parsed_as_utf8(body: bytes) -> None:
    assert not is_utf8(body) or json.detect_encoding(body) in {"utf-8", "utf-8-sig"}


@pytest.mark.parametrize(
    ("types", "judged"),
    [
        ([], True),
        ([b"application/json"], True),
        ([b"Application/Geo+JSON; charset=utf-16"], True),
        ([b"text/plain", b"application/json"], True),
        ([b"text/plain"], False),
        ([b"application/x-www-form-urlencoded"], False),
    ],
)
def test_depth_is_judged_for_every_content_type_that_may_be_json(types: list[bytes], judged: bool) -> None:
    assert may_be_json([(b"host", b"json"), *((b"Content-Type", one) for one in types)]) is judged


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'[{"a":'])
def test_unclosed_brackets_count_towards_the_depth(opening: bytes) -> None:
    assert is_deeper(opening * 1000, 32)
    assert not is_deeper(opening * 8, 32)


@pytest.mark.parametrize(
    "body",
    [b'"\\' * 500_000, b"[" * 1_000_000, b"[]" * 500_000, b'{"' * 500_000, b'"\\"' * 333_333 + b"\\", b"[]]" * 333_333],
    ids=["escapes", "openers", "pairs", "keys", "a string without end", "closers"],
)
def test_one_megabyte_of_any_body_is_judged_quickly(body: bytes) -> None:
    began = time.process_time()
    is_deeper(b"[" * 40 + body, 32)
    assert time.process_time() - began < 2.0  # a second look at each byte would take minutes


async def test_too_deep_body_is_refused_before_it_is_parsed(platform: Platform) -> None:
    nested = b'{"parameters": ' + b'{"a":' * 40 + b"1" + b"}" * 40 + b"}"
    async with platform.as_("ddh-dev") as partner:
        answer = await partner.post("/api/platform/submit", content=nested)
    assert (answer.status_code, answer.json()["code"]) == (422, "body-too-deep")
    assert "32 deep" in answer.json()["detail"]


DEEP = b'{"parameters": ' + b'{"a":' * 900 + b"1" + b"}" * 900 + b"}"


@pytest.mark.parametrize("encoding", [one for one in ENCODINGS if not one.startswith("utf-8")])
@pytest.mark.parametrize("path", ["/api/platform/submit", "/api/gateway/submit/batch", "/stac/search"])
async def test_deep_body_in_another_encoding_is_refused_too(platform: Platform, path: str, encoding: str) -> None:
    body = b'{"submissions": [{"submission": ' + DEEP + b"}]}" if "batch" in path else DEEP
    async with platform.as_("ddh-dev") as partner:
        partner.headers["Content-Type"] = "application/json"
        answer = await partner.post(path, content=body.decode().encode(encoding))
    assert (answer.status_code, answer.json()["code"]) == (422, "body-not-utf8")


async def test_body_that_is_not_json_may_nest(platform: Platform) -> None:
    async with platform.as_("operator") as operator:
        answer = await operator.post(
            "/api/proxy/nobody/at/all", content=b"[" * 100, headers={"Content-Type": "text/plain"}
        )
    assert (answer.status_code, answer.json()["code"]) == (404, "not-found")
