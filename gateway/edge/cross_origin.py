"""Lets pages of other origins read data, with the credential that they show. Pure ASGI; knows no routes.

Starlette's own middleware answers preflights. Its other half does not fit: it opens only what was asked with an
`Origin`, so that answers vary with it, and every cache would keep a copy of each tile for each origin.
"""

from http import HTTPStatus
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

DATA: Final = ("/tiles", "/vector", "/stac")  # everything else is for pages of our own origin, or for no page
# What a page may send besides what is always allowed. Credentials that browsers add by themselves are not among it.
_SENT: Final = ("Authorization", "If-None-Match", "If-Range", "Range", "X-API-Key")
_ASKED_AGAIN_SECONDS: Final = 7200


class CrossOrigin(CORSMiddleware):
    """Opens data, and nothing else, to every origin, without cookies.

    A preflight is answered before anything is looked at: it says the same to everybody and of every address.
    """

    def __init__(self, app: ASGIApp) -> None:
        super().__init__(
            app,
            allow_origins=["*"],
            allow_methods=["GET", "HEAD", "OPTIONS", "POST"],
            allow_headers=_SENT,
            expose_headers=["*"],
            max_age=_ASKED_AGAIN_SECONDS,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not is_data(scope["path"]):
            await self.app(scope, receive, send)
            return
        headers, is_question = Headers(scope=scope), scope["method"] == "OPTIONS"
        if is_question and {"origin", "access-control-request-method"} <= set(headers):
            await self.preflight_response(headers)(scope, receive, send)
            return
        await self.app(scope, receive, _OpenedAnswer(send, self.simple_headers, is_question).send)


class _OpenedAnswer:
    """One answer on its way. A route's refusal of `OPTIONS` names the methods and so becomes the answer."""

    def __init__(self, send: Send, headers: dict[str, str], is_question: bool) -> None:
        self._send, self._headers, self._is_question = send, headers, is_question
        self._is_answer = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers.update(self._headers)
            if message["status"] == HTTPStatus.METHOD_NOT_ALLOWED:
                named = [name for name in headers.get("allow", "").split(", ") if name]
                headers["Allow"] = ", ".join(sorted({*named, "OPTIONS"}))
                if self._is_question:
                    self._is_answer = True
                    message = self._answer(message, headers)
        elif self._is_answer:
            message = {**message, "body": b""}
        await self._send(message)

    def _answer(self, message: Message, headers: MutableHeaders) -> Message:
        for name in ("content-type", "content-length"):
            del headers[name]
        return {**message, "status": int(HTTPStatus.NO_CONTENT)}


def is_data(path: str) -> bool:
    """Whether this is an address of data."""
    return path.startswith(tuple(f"{root}/" for root in DATA)) or path in DATA
