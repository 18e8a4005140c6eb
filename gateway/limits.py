"""How much a caller may send."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from domain.contracts.rendering import render
from gateway.errors import TooLarge


class _BodyTooLarge(Exception):
    """More came than may be read."""


class BodyLimit:
    """Stops reading a body that grows past the limit, whatever its headers said about it."""

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self.app = app
        self.max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        received = 0

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self.max_bytes:
                raise _BodyTooLarge
            return message

        try:
            await self.app(scope, counted, send)
        except _BodyTooLarge:
            problem = TooLarge(f"A request body may have at most {self.max_bytes} bytes.").problem()
            await render(problem)(scope, receive, send)
