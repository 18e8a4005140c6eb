"""Sets for how long an answer may be cached, by whom, and under which tag.

A downgrade must be effective within five seconds, caches included: three of them are given to caches, one to what this
process remembers (`memory`). A file's content never changes, but a revision's files do where it is made again before it
is approved: answers are known by the names of what they are read from, and by the question.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Final

from fastapi import Request
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.serving.lookup import Product

SHARED_SECONDS: Final = 3
_PUBLIC: Final = f"public, max-age={SHARED_SECONDS}"
_PRIVATE: Final = f"private, max-age={SHARED_SECONDS}"
_NOT_AT_ALL: Final = "no-store"
# Who asks is told by headers here, and by a cookie at the front door, which makes a header of it.
_ALWAYS: Final = {
    "Vary": "Accept, Accept-Encoding, Authorization, Cookie, X-API-Key",
    "X-Content-Type-Options": "nosniff",
}
# Told apart by it are answers of another rendering: raise it where pixels or words come out otherwise than before.
_EDITION: Final = "2"


class NotModified(Exception):
    """The reader has the answer already."""

    def __init__(self, tag: str) -> None:
        super().__init__(tag)
        self.tag = tag


def mark(request: Request, product: Product, *, parts: Sequence[str] = (), is_public: bool) -> None:
    """Note what the answer is about before it is made; raise where the reader has it already."""
    tag = entity_tag(request, product, parts)
    request.scope.setdefault("state", {})["freshness"] = (tag, is_public)
    if is_known(request.headers.get("if-none-match"), tag):
        raise NotModified(tag)


def entity_tag(request: Request, product: Product, parts: Sequence[str]) -> str:
    """Return a tag of all that the answer depends on: what it is read from, and its own address."""
    asked = (_EDITION, str(request.url), request.headers.get("accept", ""))
    read = (product.item_id, product.cog_name or "", product.parquet_name or "", product.table_name or "", *parts)
    return f'"{hashlib.sha256(chr(0).join((*asked, *read)).encode()).hexdigest()[:32]}"'


def tell_later(request: Request, told: Callable[[], Mapping[str, str]]) -> None:
    """Note a function that adds headers once the answer is made."""
    request.scope.setdefault("state", {})["told"] = told


def is_known(if_none_match: str | None, tag: str) -> bool:
    """Whether one of the tags equals this one, weak or strong."""
    given = [each.strip().removeprefix("W/") for each in (if_none_match or "").split(",")]
    return tag in given


def tag_of(request: Request) -> str:
    """Return the tag that was noted for the request."""
    tag: str = request.scope["state"]["freshness"][0]
    return tag


class ResponseHeaders:
    """Adds the headers that every answer needs. A refusal is never kept: it looks the same whatever it refuses, and
    what was just approved would go on being refused.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        state = scope.setdefault("state", {}) if scope["type"] == "http" else {}

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(_ALWAYS)
                if message["status"] < HTTPStatus.BAD_REQUEST and "told" in state:
                    headers.update(state["told"]())
                tag, is_public = state.get("freshness", ("", False))
                if message["status"] >= HTTPStatus.BAD_REQUEST:
                    headers["Cache-Control"] = _NOT_AT_ALL
                elif "cache-control" not in headers:  # what an answer says of itself, it knows better
                    headers["Cache-Control"] = _PUBLIC if is_public else _PRIVATE
                    if tag:
                        # Compressed, the same answer has other bytes: it is known again, and is not to be put together.
                        headers["ETag"] = f"W/{tag}" if "content-encoding" in headers else tag
            await send(message)

        await self._app(scope, receive, send_with_headers)
