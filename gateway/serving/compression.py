"""Sets how answers travel: text and vector tiles compressed on request, `HEAD` for whatever has `GET`."""

from http import HTTPStatus
from typing import Final

from starlette.datastructures import Headers
from starlette.middleware.gzip import GZipResponder
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.serving.layers import MVT

# Beyond this the answer is smaller by less than a hundredth, and takes twice as long.
_LEVEL: Final = 5
_SMALLEST_BYTES: Final = 1024
_TEXTS: Final = ("json", "xml", "-seq")  # the endings of what is text by another name


class TextCompression:
    """Compresses answers that shrink much by it and are sent as a whole.

    What can be asked for by ranges is left as it is: a range is one of the bytes that the tag names. Pictures and
    products are compressed already.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not takes_gzip(Headers(scope=scope).get("accept-encoding", "")):
            await self._app(scope, receive, send)
            return

        async def choosing(scope: Scope, receive: Receive, compressing: Send) -> None:
            chosen = send

            async def either(message: Message) -> None:
                nonlocal chosen
                if message["type"] == "http.response.start" and is_compressible(Headers(raw=message["headers"])):
                    chosen = compressing
                await chosen(message)

            await self._app(scope, receive, either)

        await GZipResponder(choosing, _SMALLEST_BYTES, _LEVEL)(scope, receive, send)


def takes_gzip(accepted: str) -> bool:
    """Whether the reader names gzip and does not refuse it."""
    for each in accepted.lower().split(","):
        name, _, weight = each.replace(" ", "").partition(";q=")
        if name == "gzip":
            return weight.strip("0.") != "" or not weight
    return False


def is_compressible(headers: Headers) -> bool:
    """Whether this answer is text, or a tile of features, and sent as a whole."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    return (kind == MVT or kind.startswith("text/") or kind.endswith(_TEXTS)) and "accept-ranges" not in headers


class HeadAsGet:
    """Answers `HEAD` as `GET` without the body, wherever a route has no `HEAD` of its own.

    Libraries make most of the routes and none for `HEAD`. Those of files have one: it reads nothing.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return
        before, is_refused = dict(scope), False

        async def unless_refused(message: Message) -> None:
            nonlocal is_refused
            is_refused = is_refused or message.get("status") == HTTPStatus.METHOD_NOT_ALLOWED
            if not is_refused:
                await send(message)

        await self._app(scope, receive, unless_refused)
        if is_refused:
            scope.clear()  # routes leave their mark on it
            scope.update(before)
            await self._as_get(scope, receive, send)

    async def _as_get(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer as to `GET`, and set the server's own scope back, since the server must know what was asked."""

        async def without_body(message: Message) -> None:
            if message["type"] == "http.response.start":
                scope["method"] = "HEAD"
            elif message["type"] == "http.response.body":
                message = {**message, "body": b""}
            await send(message)

        scope["method"] = "GET"
        try:
            await self._app(scope, receive, without_body)
        finally:
            scope["method"] = "HEAD"
