"""Which headers pass which of the doors that forward, both ways, whatever the caller or the service writes."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.forwarding.header_policy import (
    CONSOLE,
    INTERNAL,
    NEVER_ANSWERED,
    NEVER_ASKED,
    SERVING,
    UNLESS_SAID,
    HeaderPolicy,
    Headers,
)

POLICIES = {"S": SERVING, "C": CONSOLE, "I": INTERNAL}
# By header: through which doors it passes to the service, and through which back to the caller.
TABLE = {
    "accept": ("SCI", "CI"),
    "accept-encoding": ("SCI", "CI"),
    "accept-language": ("CI", "CI"),
    "accept-ranges": ("CI", "SCI"),
    "allow": ("CI", "SCI"),
    "authorization": ("S", "C"),
    "cache-control": ("CI", "SCI"),
    "cairn-pixels": ("CI", "SCI"),
    "connection": ("", ""),
    "content-bbox": ("CI", "SCI"),
    "content-crs": ("CI", "SCI"),
    "content-disposition": ("CI", "SCI"),
    "content-encoding": ("CI", "SCI"),
    "content-length": ("", "SCI"),
    "content-range": ("CI", "SCI"),
    "content-security-policy": ("CI", "CI"),
    "content-type": ("SCI", "SCI"),
    "cookie": ("C", "C"),
    "date": ("CI", ""),
    "etag": ("CI", "SCI"),
    "expect": ("", "CI"),
    "forwarded": ("", ""),
    "host": ("C", "CI"),
    "if-none-match": ("SCI", "CI"),
    "if-range": ("SCI", "CI"),
    "keep-alive": ("", ""),
    "link": ("CI", "SCI"),
    "location": ("CI", "SC"),
    "origin": ("CI", "CI"),
    "proxy-authenticate": ("", ""),
    "proxy-authorization": ("", ""),
    "proxy-connection": ("", ""),
    "range": ("SCI", "CI"),
    "referer": ("CI", "CI"),
    "retry-after": ("CI", "SCI"),
    "sec-fetch-site": ("CI", "CI"),
    "server": ("CI", ""),
    "set-cookie": ("CI", "C"),
    "te": ("", ""),
    "trailer": ("", ""),
    "trailers": ("", ""),
    "transfer-encoding": ("", ""),
    "upgrade": ("", ""),
    "user-agent": ("CI", "CI"),
    "vary": ("CI", "SCI"),
    "via": ("", ""),
    "www-authenticate": ("CI", "SC"),
    "x-api-key": ("S", "C"),
    "x-content-type-options": ("CI", "SCI"),
    "x-forwarded-for": ("", ""),
    "x-forwarded-host": ("", ""),
    "x-internal-cost": ("", ""),
    "x-internal-reader": ("", ""),
    "x-platform-id": ("", ""),
    "x-powered-by": ("CI", "C"),
    "x-real-ip": ("", ""),
    "x-trace": ("CI", "CI"),
}

token = st.text("abcdefghijklmnopqrstuvwxyz0123456789-", min_size=1, max_size=20).map(str.encode)
harmless = st.lists(st.tuples(token.map(lambda name: b"z" + name), st.binary(max_size=20)))
kept = st.sampled_from([*sorted(NEVER_ASKED & NEVER_ANSWERED), b"x-internal-anything", b"x-forwarded-anything"])
written = st.sampled_from([bytes.lower, bytes.upper, bytes.title])
doors = st.sampled_from(list(POLICIES.values()))


def asked(policy: HeaderPolicy, headers: Headers, added: Headers | None = None) -> Headers:
    """What the service is told, without what is said where the caller says nothing."""
    return [header for header in policy.to_service(headers, added or []) if header not in UNLESS_SAID]


@pytest.mark.parametrize("name", TABLE)
def test_each_header_passes_the_doors_of_its_row_and_no_others(name: str) -> None:
    for written_name in (name, name.upper()):
        header = [(written_name.encode(), b"1")]
        passed = {door: (asked(policy, header), policy.to_caller(header)) for door, policy in POLICIES.items()}
        found = tuple("".join(door for door in POLICIES if passed[door][way]) for way in (0, 1))
        assert found == TABLE[name]


def test_every_header_that_a_policy_names_has_its_row() -> None:
    named = NEVER_ASKED | NEVER_ANSWERED
    for policy in POLICIES.values():
        named |= policy.asked.names | policy.answered.names
    assert {name.decode() for name in named} <= TABLE.keys()


@given(doors, harmless, kept, written)
def test_connection_headers_and_internal_headers_are_never_forwarded(
    policy: HeaderPolicy, rest: Headers, name: bytes, write: Callable[[bytes], bytes]
) -> None:
    more = [*rest, (write(name), b"a secret")]
    assert asked(policy, more) == asked(policy, rest)
    assert policy.to_caller(more) == policy.to_caller(rest)


@given(doors, harmless, token)
def test_header_listed_by_the_connection_header_is_not_forwarded(
    policy: HeaderPolicy, rest: Headers, listed: bytes
) -> None:
    name = b"x-" + listed
    more = [
        *rest,
        (b"Connection", b"close, " + name.upper()),
        (name, b"1"),
        (b"connection", b"range"),
        (b"range", b"1"),
    ]
    assert asked(policy, more) == asked(policy, rest)
    assert policy.to_caller(more) == policy.to_caller(rest)


@given(harmless)
def test_console_and_internal_services_are_told_everything_harmless_byte_by_byte(rest: Headers) -> None:
    for policy in (CONSOLE, INTERNAL):
        assert asked(policy, rest) == policy.to_caller(rest) == rest
    assert asked(SERVING, rest) == SERVING.to_caller(rest) == []


@given(doors, harmless)
def test_our_own_header_values_replace_the_callers(policy: HeaderPolicy, rest: Headers) -> None:
    claims = [(b"Authorization", b"Bearer of-the-caller"), (b"Host", b"elsewhere"), (b"X-Forwarded-For", b"1.2.3.4")]
    ours = [(b"authorization", b"Bearer ours"), (b"host", b"here"), (b"x-forwarded-for", b"5.6.7.8")]
    assert asked(policy, [*claims, *rest], ours) == [*asked(policy, rest), *ours]


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_caller_without_accept_encoding_gets_an_uncompressed_answer(policy: HeaderPolicy) -> None:
    assert (b"accept-encoding", b"identity") in policy.to_service([], [])
    told = policy.to_service([(b"Accept-Encoding", b"gzip")], [])
    assert [value for name, value in told if name == b"accept-encoding"] == [b"gzip"]
