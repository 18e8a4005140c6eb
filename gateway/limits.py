"""How much a caller may send."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from domain.contracts.rendering import render
from gateway.errors import TooLarge


class BodyLimit:
    """Reads a body before the application sees it, and stops reading one that grows past the limit.

    What the headers say of its size is not believed: a chunked body names none.
    """

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self.app = app
        self.max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        received = await self._read(receive)
        if received is None:
            problem = TooLarge(f"A request body may have at most {self.max_bytes:,} bytes.").problem()
            await render(problem)(scope, receive, send)
            return
        messages = iter(received)

        async def replay() -> Message:
            return next(messages, None) or await receive()

        await self.app(scope, replay, send)

    async def _read(self, receive: Receive) -> list[Message] | None:
        """The messages of the whole body, or None where it is too large."""
        messages, size = [], 0
        while True:
            message = await receive()
            messages.append(message)
            size += len(message.get("body", b""))
            if size > self.max_bytes:
                return None
            if not message.get("more_body", False):
                return messages
