"""Heads that two servers could read in two ways are seen, and who is too slow is cut off; all others pass."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from uvicorn import Config
from uvicorn.server import ServerState

from gateway.edge.http_protocol import ArrivalProtocol, Headers, head_fault

REPOSITORY = Path(__file__).parents[3]
HOST = (b"host", b"cairn.test")
LENGTH = (b"content-length", b"5")
CHUNKED = (b"transfer-encoding", b"chunked")
names = st.text("abcdefghijklmnopqrstuvwxyz-", min_size=1, max_size=20).map(str.encode)
others = st.lists(st.tuples(names.filter(lambda name: name not in {b"host", LENGTH[0], CHUNKED[0]}), st.binary()))


@given(others, st.sampled_from([[], [LENGTH], [CHUNKED], [(b"transfer-encoding", b" Chunked ")]]))
def test_head_with_one_host_and_one_length_passes(rest: Headers, length: Headers) -> None:
    assert head_fault("1.1", [*rest, HOST, *length]) is None


@given(others, st.sampled_from([[], [HOST]]), st.sampled_from([[], [LENGTH]]))
def test_http_1_0_request_without_a_host_passes(rest: Headers, host: Headers, length: Headers) -> None:
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
def test_ambiguous_head_is_refused_with_its_fault(version: str, headers: Headers, says: str, rest: Headers) -> None:
    assert says in (head_fault(version, [*rest, *headers]) or "")


class Timer:
    """One of the loop's, which goes off when the loop's own time has come."""

    def __init__(self, at: float, act: Callable[[], object]) -> None:
        self.at, self.act, self.is_cancelled = at, act, False

    def cancel(self) -> None:
        self.is_cancelled = True


class Loop:
    """A loop whose time passes when it is told to, and that runs no application."""

    def __init__(self) -> None:
        self.now, self.timers = 0.0, list[Timer]()

    def time(self) -> float:
        return self.now

    def call_later(self, seconds: float, act: Callable[[], object]) -> Timer:
        self.timers.append(Timer(self.now + seconds, act))
        return self.timers[-1]

    def create_task(self, work: Any) -> MagicMock:
        work.close()
        return MagicMock()

    def wait(self, seconds: float) -> None:
        until = self.now + seconds
        while due := [timer for timer in self.timers if timer.at <= until and not timer.is_cancelled]:
            first = min(due, key=lambda timer: timer.at)
            self.timers.remove(first)
            self.now = max(self.now, first.at)
            first.act()
        self.now = until


@dataclass
class Wire:
    """The server's end of a connection: what it wrote, and how much of that has not been taken."""

    loop: Loop
    protocol: ArrivalProtocol
    transport: MagicMock
    unsent: int = 0

    @property
    def said(self) -> bytes:
        return b"".join(call.args[0] for call in self.transport.write.call_args_list)

    @property
    def is_cut_off(self) -> bool:
        return bool(self.transport.abort.called)


async def nobody(_scope: Any, _receive: Any, _send: Any) -> None:
    """No application is run here."""


@pytest.fixture
def wire() -> Wire:
    """10 s for a head, 60 for a body, 30 for a reader; 2,000 bytes a second."""
    loop, state = Loop(), ServerState()
    config = Config(nobody, http=ArrivalProtocol, log_config=None, ws="none")
    config.load()
    made = Wire(loop, ArrivalProtocol(config, state, {}, loop), MagicMock())  # type: ignore[arg-type]
    made.transport.is_closing.side_effect = lambda: bool(made.transport.close.called)
    made.transport.get_write_buffer_size.side_effect = lambda: made.unsent
    made.protocol.connection_made(made.transport)
    return made


GET = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 900000\r\n\r\n"


def test_a_body_that_drips_is_cut_off_long_before_its_time(wire: Wire) -> None:
    wire.protocol.data_received(POST)
    for _ in range(9):
        wire.loop.wait(1)
        wire.protocol.data_received(b"x" * 10)
    assert wire.said == b""
    wire.loop.wait(1.5)
    assert wire.said.startswith(b"HTTP/1.1 408 ")


def test_a_body_that_keeps_the_pace_may_take_all_its_time(wire: Wire) -> None:
    wire.protocol.data_received(POST)
    for _ in range(14):
        wire.loop.wait(4)
        wire.protocol.data_received(b"x" * 8000)
    assert wire.said == b""
    wire.loop.wait(4)
    assert wire.said.startswith(b"HTTP/1.1 408 ")  # the control: its time is over all the same


def test_sender_is_not_cut_off_while_the_gateway_does_not_read(wire: Wire) -> None:
    wire.protocol.data_received(POST + b"x" * 70_000)  # more than is kept for an application that does not ask for it
    assert wire.protocol.flow.read_paused
    wire.loop.wait(59)
    assert wire.said == b""
    wire.loop.wait(2)
    assert wire.said.startswith(b"HTTP/1.1 408 ")


def test_slow_reader_is_cut_off_however_often_something_is_written(wire: Wire) -> None:
    """Each second 1,000 bytes are taken, and we may write again: half of the pace."""
    wire.protocol.data_received(GET)
    for _ in range(55):
        wire.unsent = 70_000
        wire.protocol.pause_writing()
        wire.loop.wait(1)
        wire.unsent -= 1000
        wire.protocol.resume_writing()
        assert not wire.is_cut_off
    wire.protocol.pause_writing()
    wire.loop.wait(3)
    assert wire.is_cut_off


def test_a_reader_that_keeps_the_pace_is_waited_for(wire: Wire) -> None:
    wire.protocol.data_received(GET)
    wire.unsent = 4_000_000
    wire.protocol.pause_writing()
    for _ in range(1000):
        wire.loop.wait(2)
        wire.unsent -= 4000
    assert not wire.is_cut_off
    wire.loop.wait(31)  # the control: it takes no more
    assert wire.is_cut_off


def test_unsent_rest_of_a_closed_connection_is_dropped_in_time(wire: Wire) -> None:
    """Less than what makes us wait with writing: nobody is told of it."""
    wire.protocol.data_received(GET)
    wire.unsent = 50_000
    wire.transport.close()
    wire.protocol.cycle.response_complete = True
    wire.protocol.on_response_complete()
    wire.loop.wait(29)
    assert not wire.is_cut_off
    wire.loop.wait(2)
    assert wire.is_cut_off


def test_each_answer_on_a_connection_has_its_own_time(wire: Wire) -> None:
    for _ in range(3):
        wire.protocol.data_received(GET)
        wire.unsent = 70_000
        wire.protocol.pause_writing()
        wire.loop.wait(20)
        wire.unsent = 0
        wire.protocol.resume_writing()
        wire.protocol.cycle.response_complete = True
        wire.protocol.on_response_complete()
    assert not wire.is_cut_off


def test_domain_and_serving_start_with_the_same_http_protocol() -> None:
    """In images and in the embedded stack; the gateway's own command brings it."""
    images = re.findall(r'^CMD \["uvicorn", (.*)\]$', (REPOSITORY / "Dockerfile").read_text(), re.MULTILINE)
    assert [re.search(r'"--factory", "(.*?)\.', command)[1] for command in images] == ["domain", "gateway"]  # type: ignore[index]
    stack = (REPOSITORY / "deployments/stack/services.py").read_text()
    for command in (*images, stack):
        assert '"--http", "gateway.edge.http_protocol:InsideProtocol"' in command
