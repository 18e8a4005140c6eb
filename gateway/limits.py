"""How much a caller may send, judged before the application sees any of it. Pure ASGI."""

import re
from collections.abc import Iterable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from domain.contracts.problems import ProblemError
from domain.contracts.rendering import render
from gateway.errors import NotUtf8, TooDeep, TooLarge

# A string that never ends is one too: nothing is looked at twice, whatever somebody sends.
STRINGS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
PAIRS = re.compile(rb"\[\]|\{\}")


class BodyLimit:
    """Reads a body before the application sees it, and stops reading one that grows past the limit.

    What the headers say of its size is not believed: a chunked body names none. JSON is looked into, and what does not
    say what it is counts as JSON; other text may nest as it likes.
    """

    def __init__(self, app: ASGIApp, max_bytes: int, max_depth: int) -> None:
        self.app = app
        self.max_bytes = max_bytes
        self.max_depth = max_depth

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        try:
            received = await self._read(receive)
            if may_be_json(scope["headers"]):
                self._judge(b"".join(message.get("body", b"") for message in received))
        except (TooLarge, TooDeep, NotUtf8) as refusal:
            await _refuse(refusal, scope, receive, send)
            return
        messages = iter(received)

        async def replay() -> Message:
            return next(messages, None) or await receive()

        await self.app(scope, replay, send)

    async def _read(self, receive: Receive) -> list[Message]:
        """The messages of the whole body."""
        messages: list[Message] = []
        size = 0
        while True:
            message = await receive()
            messages.append(message)
            size += len(message.get("body", b""))
            if size > self.max_bytes:
                raise TooLarge(f"A request body may have at most {self.max_bytes:,} bytes.")
            if not message.get("more_body", False):
                return messages

    def _judge(self, body: bytes) -> None:
        if not is_utf8(body):
            raise NotUtf8("Send JSON in UTF-8 (RFC 8259).")
        if is_deeper(body, self.max_depth):
            raise TooDeep(f"A request body may nest lists and objects at most {self.max_depth} deep.")


async def _refuse(refusal: ProblemError, scope: Scope, receive: Receive, send: Send) -> None:
    await render(refusal.problem())(scope, receive, send)


def may_be_json(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether somebody might read the body of these headers as JSON: looser than any of those who do."""
    types = [value for name, value in headers if name.lower() == b"content-type"]
    return not types or any(b"json" in value.lower() for value in types)


def is_utf8(body: bytes) -> bool:
    """Whether a parser would take this JSON for UTF-8, and is right.

    Python's tells UTF-16 and UTF-32 by their marks, which are never UTF-8, or by the zeros beside the first letters.
    """
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return 0 not in body[:4]


def is_deeper(body: bytes, most: int) -> bool:
    """Whether lists and objects are nested deeper than that. Brackets without a partner count as a level each.

    Done by whole passes over the bytes, one a level: a parser would have to be trusted with what is judged here.
    """
    if body.count(b"[") + body.count(b"{") <= most:
        return False
    rest = STRINGS.sub(b"", body).translate(None, NO_BRACKETS)
    for _ in range(most):
        shorter = PAIRS.sub(b"", rest)
        if shorter == rest:
            return rest.count(b"[") + rest.count(b"{") > most
        rest = shorter
    return bool(rest)
