"""Checks the head of a request, and gives uvicorn's protocol deadlines. Knows nothing of routes.

uvicorn waits for ever for the rest of a request, takes heads of any size, and leaves it to applications that a message
names its length or its host twice. Between a proxy and us such a message is two messages; here it is none.
"""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Literal, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from domain.rules.pace import Pace

Headers = Sequence[tuple[bytes, bytes]]


@dataclass(frozen=True)
class ArrivalLimits:
    """The limits of arrival: seconds for head, body and the rest after the answer; bytes of a head.

    And seconds that a client may leave its answer lying: whoever does holds what the answer is read from. Whoever
    sends a body or takes an answer slower than so many bytes a second uses up the seconds of a head, or these.

    What a message has beside its head and its body, the framing of chunks and the trailer, may take as much as a head.
    """

    head_seconds: float = 10.0
    body_seconds: float = 60.0
    rest_seconds: float = 2.0
    write_seconds: float = 30.0
    body_bytes_per_second: float = 2000.0
    write_bytes_per_second: float = 2000.0
    max_head_bytes: int = 32_768


@dataclass(frozen=True)
class Refusal:
    """A request that is answered before any application sees it."""

    status: HTTPStatus
    code: str
    detail: str

    def answer(self) -> bytes:
        """The whole response; the connection ends with it."""
        problem = {"type": "about:blank", "title": self.status.phrase, "status": self.status.value}
        body = json.dumps(problem | {"code": self.code, "detail": self.detail}).encode()
        head = f"HTTP/1.1 {self.status.value} {self.status.phrase}\r\ncontent-type: application/problem+json\r\n"
        return f"{head}content-length: {len(body)}\r\nconnection: close\r\n\r\n".encode() + body


MALFORMED = Refusal(HTTPStatus.BAD_REQUEST, "malformed-http", "This is not a request in HTTP/1.1.")
ANOTHER_PROTOCOL = Refusal(
    HTTPStatus.BAD_REQUEST, MALFORMED.code, "Only HTTP/1.1 is spoken here: leave Upgrade out, and do not CONNECT."
)
TOO_SLOW = Refusal(HTTPStatus.REQUEST_TIMEOUT, "too-slow", "The request took too long to arrive. Send it again.")
HEAD_TOO_LARGE = Refusal(
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    "head-too-large",
    "The request's head is too large. Send a shorter address or fewer headers.",
)


def head_fault(version: str, headers: Headers) -> str | None:
    """Return why a message with this head is ambiguous, or None. Names are in lower case."""
    values = {name: [value for other, value in headers if other == name] for name, _ in headers}
    hosts, lengths = values.get(b"host", []), values.get(b"content-length", [])
    codings = values.get(b"transfer-encoding", [])
    if len(hosts) > 1 or (not hosts and version != "1.0"):
        return f"Send one Host header, not {len(hosts)}."
    if len(lengths) > 1:
        return "Send one Content-Length header."
    if codings and lengths:
        return "Send Content-Length or Transfer-Encoding, not both."
    if codings and (version == "1.0" or [coding.strip().lower() for coding in codings] != [b"chunked"]):
        return "The only Transfer-Encoding that is understood is chunked, in HTTP/1.1."
    return None


class UnclearHead(Exception):
    """The head is ambiguous. Raised inside the parser, which then gives the message up."""


class ArrivalProtocol(HttpToolsProtocol):
    """uvicorn's protocol that cuts off slow, ambiguous or endless senders. Subclasses set the limits."""

    limits = ArrivalLimits()
    _arriving: Literal["nothing", "head", "body"] = "nothing"
    _deadline: asyncio.TimerHandle | None = None
    _taking: "_ReaderPace | None" = None
    _body_pace = Pace(0.0, 1.0)
    _body_ends = _heard_at = 0.0  # when the body has to be whole; when a part of it came last
    _loose_bytes = 0  # that have arrived without being a whole head or a part of a body
    _refusal = MALFORMED

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._taking = _ReaderPace(transport, self.loop, self.limits)
        self._set_deadline(self.limits.head_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        self._set_deadline(None)
        if self._taking is not None:
            self._taking.stop()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._taking is not None:
            self._taking.watch()

    def resume_writing(self) -> None:
        if self._taking is not None:
            self._taking.stop()
        self._watch_the_rest()
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        self._loose_bytes += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._arriving != "nothing" and self._loose_bytes > self.limits.max_head_bytes:
            self._refuse(HEAD_TOO_LARGE)
        elif self._arriving == "nothing" and self._is_free() and self._deadline is None:
            self._set_deadline(
                self.limits.head_seconds
            )  # empty lines begin no message, and have ended uvicorn's own waiting

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._taking is not None and self._is_free():
            self._taking.begin_anew()
        self._arriving, self._loose_bytes = "head", 0
        self._set_deadline(self.limits.head_seconds)

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._arriving == "head":  # uvicorn would take what stands in a trailer for headers, credentials included
            super().on_header(name, value)

    def on_body(self, body: bytes) -> None:
        self._loose_bytes = 0
        super().on_body(body)
        if self._arriving == "body" and not self._is_free():
            self._note_body(len(body))

    def on_headers_complete(self) -> None:
        if len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > self.limits.max_head_bytes:
            self._refusal = HEAD_TOO_LARGE
            raise UnclearHead
        if self.parser.should_upgrade():  # what follows such a head would be no body to us, and one to others
            self._refusal = ANOTHER_PROTOCOL
            raise UnclearHead
        if fault := head_fault(self.parser.get_http_version(), self.headers):
            self._refusal = Refusal(HTTPStatus.BAD_REQUEST, MALFORMED.code, fault)
            raise UnclearHead
        super().on_headers_complete()  # raises where the address has no path: the message is then still in its head
        self._arriving, self._loose_bytes = "body", 0
        self._body_pace = Pace(self.limits.head_seconds, self.limits.body_bytes_per_second)
        self._body_ends = self.loop.time() + self.limits.body_seconds
        self._wait_for_body()

    def on_message_complete(self) -> None:
        self._arriving = "nothing"
        self._set_deadline(None)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch_the_rest()
        if self._arriving == "body" and self._is_free():  # answered early: the rest is read for a moment, not for ever
            self._set_deadline(self.limits.rest_seconds)

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._watch_the_rest()

    def send_400_response(self, msg: str) -> None:
        self._refuse(self._refusal)

    def _is_free(self) -> bool:
        """Whether every request on the connection is answered."""
        newest = cast("RequestResponseCycle | None", self.cycle)  # its type hides that there is none at first
        return newest is None or newest.response_complete

    def _set_deadline(self, seconds: float | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = None if seconds is None else self.loop.call_later(seconds, self._on_deadline)

    def _note_body(self, size: int) -> None:
        """Note that a part of the body came."""
        self._body_pace.note(self.loop.time() - self._heard_at, size)
        self._wait_for_body()

    def _wait_for_body(self) -> None:
        """Wait for the body until its time is over or its sender has been too slow for too long."""
        self._heard_at = self.loop.time()
        self._set_deadline(max(0.0, min(self._body_ends - self._heard_at, self._body_pace.left_seconds)))

    def _is_read_paused_by_us(self) -> bool:
        """Whether the body is late because we do not read it, which is not its sender's fault."""
        return self._arriving == "body" and self.flow.read_paused and self.loop.time() < self._body_ends

    def _watch_the_rest(self) -> None:
        """Drop the unsent rest of an ending connection once its time is over."""
        if self._taking is not None and self.transport.is_closing():
            self._taking.watch()

    def _on_deadline(self) -> None:
        if self._is_read_paused_by_us():
            self._wait_for_body()
        elif self._arriving == "nothing" or (self._arriving == "body" and self._is_free()):
            self.transport.close()
            self._watch_the_rest()
        else:
            self._refuse(TOO_SLOW)

    def _refuse(self, refusal: Refusal) -> None:
        """Answer and end the connection; only end it where the answer would be taken for another request's."""
        if not self._would_answer_another():
            self.transport.write(refusal.answer())
        self.transport.close()
        self._watch_the_rest()

    def _would_answer_another(self) -> bool:
        if self._arriving == "body":
            return self.cycle.response_started or bool(self.pipeline)
        return not self._is_free()


class InsideProtocol(ArrivalProtocol):
    """The protocol of services behind the gateway, whose heads are larger: the gateway adds and escapes.

    Flow runs report tens of megabytes there. Named on the command lines of domain and serving.
    """

    limits = ArrivalLimits(body_seconds=300.0, max_head_bytes=131_072)


class _ReaderPace:
    """How fast a client takes what is sent while we wait for it; one that takes too little is cut off."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, limits: ArrivalLimits) -> None:
        self._transport, self._loop, self._limits = transport, loop, limits
        self._timer: asyncio.TimerHandle | None = None
        self._since, self._unsent = 0.0, 0
        self.begin_anew()

    def begin_anew(self) -> None:
        """Begin to time another answer."""
        self._pace = Pace(self._limits.write_seconds, self._limits.write_bytes_per_second)

    def watch(self) -> None:
        """Begin to wait for the client."""
        if self._timer is None:
            self._since, self._unsent = self._loop.time(), self._transport.get_write_buffer_size()
            self._timer = self._loop.call_later(self._pace.left_seconds, self._look)

    def stop(self) -> None:
        """Stop waiting for the client."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._note()

    def _look(self) -> None:
        self._note()
        if self._pace.is_over:
            self._timer = None
            self._transport.abort()
        else:
            self._timer = self._loop.call_later(self._pace.left_seconds, self._look)

    def _note(self) -> None:
        now, unsent = self._loop.time(), self._transport.get_write_buffer_size()
        self._pace.note(now - self._since, max(0, self._unsent - unsent))
        self._since, self._unsent = now, unsent


def arriving_within(limits: ArrivalLimits) -> type[ArrivalProtocol]:
    """Return the protocol class with these limits, since uvicorn makes instances without arguments of ours."""
    made: dict[str, Any] = {"limits": limits}
    return type("LimitedArrival", (ArrivalProtocol,), made)
