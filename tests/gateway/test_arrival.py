"""Heads that two servers could read in two ways are seen, and every good one passes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.arrival import Headers, head_fault

HOST = (b"host", b"cairn.test")
LENGTH = (b"content-length", b"5")
CHUNKED = (b"transfer-encoding", b"chunked")
names = st.text("abcdefghijklmnopqrstuvwxyz-", min_size=1, max_size=20).map(str.encode)
others = st.lists(st.tuples(names.filter(lambda name: name not in {b"host", LENGTH[0], CHUNKED[0]}), st.binary()))


@given(others, st.sampled_from([[], [LENGTH], [CHUNKED], [(b"transfer-encoding", b" Chunked ")]]))
def test_one_host_and_one_way_to_tell_the_length_pass(rest: Headers, length: Headers) -> None:
    assert head_fault("1.1", [*rest, HOST, *length]) is None


@given(others, st.sampled_from([[], [HOST]]), st.sampled_from([[], [LENGTH]]))
def test_older_clients_may_leave_the_host_out(rest: Headers, host: Headers, length: Headers) -> None:
    assert head_fault("1.0", [*host, *length, *rest]) is None


@pytest.mark.parametrize(
    ("version", "headers", "says"),
    [
        ("1.1", [], "Send one Host header, not 0."),
        ("1.1", [HOST, HOST], "Send one Host header, not 2."),
        ("1.0", [HOST, (b"host", b"evil.test")], "Send one Host header, not 2."),
        ("1.1", [HOST, LENGTH, LENGTH], "one Content-Length"),
        ("1.1", [HOST, LENGTH, CHUNKED], "not both"),
        ("1.1", [HOST, CHUNKED, LENGTH], "not both"),
        ("1.1", [HOST, CHUNKED, CHUNKED], "only Transfer-Encoding"),
        ("1.1", [HOST, (b"transfer-encoding", b"gzip, chunked")], "only Transfer-Encoding"),
        ("1.1", [HOST, (b"transfer-encoding", b"xchunked")], "only Transfer-Encoding"),
        ("1.1", [HOST, (b"transfer-encoding", b"identity")], "only Transfer-Encoding"),
        ("1.0", [HOST, CHUNKED], "only Transfer-Encoding"),
    ],
)
@given(rest=others)
def test_whatever_could_be_read_in_two_ways_is_named(version: str, headers: Headers, says: str, rest: Headers) -> None:
    assert says in (head_fault(version, [*rest, *headers]) or "")
