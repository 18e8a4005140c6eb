"""How much a caller may send, judged before the application sees any of it. Pure ASGI."""

import re

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from domain.contracts.problems import ProblemError
from domain.contracts.rendering import render
from gateway.errors import TooDeep, TooLarge

# A string that never ends is one too: nothing is looked at twice, whatever somebody sends.
STRINGS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
PAIRS = re.compile(rb"\[\]|\{\}")


class BodyLimit:
    """Reads a body before the application sees it, and stops reading one that grows past the limit.

    What the headers say of its size is not believed: a chunked body names none.
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
        except (TooLarge, TooDeep) as refusal:
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
                break
        if is_deeper(b"".join(message.get("body", b"") for message in messages), self.max_depth):
            raise TooDeep(f"A request body may nest lists and objects at most {self.max_depth} deep.")
        return messages


async def _refuse(refusal: ProblemError, scope: Scope, receive: Receive, send: Send) -> None:
    await render(refusal.problem())(scope, receive, send)


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
