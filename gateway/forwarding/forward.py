"""What every door that forwards does alike: the address behind, headers byte by byte, the answer as it comes.

Headers are bytes. Read as text and written again, those that are not ASCII would be refused by one of the libraries.
"""

from collections.abc import Iterable
from urllib.parse import quote

import httpx
from fastapi import Request
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from gateway.errors import NotFound

PRINTABLE = "".join(map(chr, range(0x21, 0x7F)))  # of a query, all of these stay as they came
Texts = list[tuple[str, str]]
Raw = list[tuple[bytes, bytes]]


class Forwarded(StreamingResponse):
    """An answer passed on as it comes. Its connection is given back however the sending ends, also before it began."""

    def __init__(self, answer: httpx.Response, headers: Raw) -> None:
        super().__init__(answer.aiter_raw(), status_code=answer.status_code)
        self.answer = answer
        self.raw_headers = headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self.answer.aclose()


def address_behind(request: Request) -> httpx.URL:
    """The same address of the service behind us. Dots that lead up lead out of it, and httpx would follow them."""
    path: str = request.scope["path"]
    query = quote(request.scope["query_string"], safe=PRINTABLE).encode()
    if {".", ".."}.isdisjoint(path.split("/")):
        try:
            return httpx.URL(path=quote(path), query=query)
        except httpx.InvalidURL:  # too long, once everything that has to be is escaped
            pass
    raise NotFound("There is nothing at this address.")


def as_text(headers: Iterable[tuple[bytes, bytes]]) -> Texts:
    """Headers for rules about text, names in lower case. Every byte is a character, so nothing is lost."""
    return [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in headers]


def as_bytes(headers: Iterable[tuple[str, str]]) -> Raw:
    """Such headers as they came."""
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
