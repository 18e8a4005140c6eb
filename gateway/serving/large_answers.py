"""Bounds the memory of answers that are on their way: an answer counts until its reader has taken it.

Pure ASGI. Servers take whatever they are given at once, however large it is: it is handed to them in pieces, so that
what has not been taken yet is held here, where it is counted. Pieces come at a pace: sending tens of megabytes at once
would keep this process and the gateway from everybody else.
"""

import asyncio
from contextlib import AsyncExitStack
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from domain.rules.rates import Buckets
from domain.rules.shares import Shares
from gateway.forwarding.reading_headers import READER
from gateway.serving.problems import BUSY, response

PIECE_BYTES: Final = 65_536
_COUNTED_BYTES: Final = 4 * PIECE_BYTES  # smaller ones are what a connection holds anyhow
_AT_ONCE_BYTES: Final = 4 * 1024**2  # more than nearly all pictures
_MAKING: Final = "making"
_READER: Final = READER.encode()


def answer_shares(most_bytes: int) -> Shares:
    """Give one reader half at most, and keep a quarter for those who read little."""
    return Shares(most_bytes, most_bytes // 2, reserve=most_bytes // 4, little=most_bytes // 32)


def answer_pace(bytes_per_second: float) -> Buckets:
    """The first megabytes at once, and what follows at this pace, for each reader."""
    return Buckets(bytes_per_second, _AT_ONCE_BYTES)


class Answers:
    """Sends large answers piece by piece, and refuses one for which there is no room beside the others."""

    def __init__(self, app: ASGIApp, shares: Shares, pace: Buckets) -> None:
        self._app, self._shares, self._pace = app, shares, pace

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._app(scope, receive, _AnswerInPieces(self._shares, self._pace, scope, receive, send).send)
        else:
            await self._app(scope, receive, send)


class _AnswerInPieces:
    """One answer. Its start waits for its first part, since a refusal is possible only before."""

    def __init__(self, shares: Shares, pace: Buckets, scope: Scope, receive: Receive, send: Send) -> None:
        self._shares, self._pace = shares, pace
        self._scope, self._receive, self._send = scope, receive, send
        self._start: Message | None = None
        self._is_refused = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._start = message
            return
        if self._is_refused:
            return
        body = message.get("body", b"")
        if len(body) <= _COUNTED_BYTES:
            await self._begin()
            await self._send(message)
            return
        reader = reader_of(self._scope)
        if self._start is not None and self._shares.take(reader, len(body)) is not None:
            self._is_refused = True
            await response(BUSY)(self._scope, self._receive, self._send)
            return
        is_counted = self._start is not None
        try:
            await self._begin()
            await self._send_pieces(message, body, reader)
        finally:
            if is_counted:
                self._shares.give(reader, len(body))

    async def _begin(self) -> None:
        if self._start is not None:
            start, self._start = self._start, None
            await self._send(start)

    async def _send_pieces(self, message: Message, body: bytes, reader: str) -> None:
        view = memoryview(body)
        for at in range(0, len(body), PIECE_BYTES):
            self._pace.charge(reader, PIECE_BYTES)
            await asyncio.sleep(self._pace.debt_seconds(reader))
            is_last = at + PIECE_BYTES >= len(body)
            more = message.get("more_body", False) or not is_last
            await self._send({**message, "body": bytes(view[at : at + PIECE_BYTES]), "more_body": more})


def reader_of(scope: Scope) -> str:
    """Return the reader that the gateway names; an empty text where somebody else asks."""
    return next((value.decode("latin-1") for name, value in scope["headers"] if name == _READER), "")


class Whole:
    """Makes an answer to its end before it is sent, so that no slow reader keeps what it is made of."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        made: list[Message] = []

        async def keep(message: Message) -> None:
            made.append(message)

        async with AsyncExitStack() as making:
            scope.setdefault("state", {})[_MAKING] = making
            await self._app(scope, receive, keep)
        body = b"".join(message.get("body", b"") for message in made[1:])
        for message in [*made[:1], {"type": "http.response.body", "body": body}][: len(made)]:
            await send(message)


def making(scope: Scope) -> AsyncExitStack:
    """Return the stack of contexts that the answer is made in; it closes when the answer is made."""
    stack: AsyncExitStack = scope["state"][_MAKING]
    return stack
