"""What every door that forwards does: the address behind, headers by its policy, the answer as it comes."""

from urllib.parse import quote

import httpx
from fastapi import Request
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from gateway.errors import BehindUnavailable, NotFound
from gateway.forwarding.header_policy import HeaderPolicy, Headers

QUERY_STAYS = "".join(map(chr, range(0x21, 0x7F)))  # of a query, all of these stay as they came
PATH_STAYS = "/!$&'()*+,;=:@~"
HERE = httpx.URL("")


class Forwarded(StreamingResponse):
    """An answer passed on as it comes. Its connection is given back however the sending ends, also before it began."""

    def __init__(self, answer: httpx.Response, headers: Headers) -> None:
        super().__init__(answer.aiter_raw(), status_code=answer.status_code)
        self.answer = answer
        self.raw_headers = headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self.answer.aclose()


async def forward(
    request: Request,
    client: httpx.AsyncClient,
    policy: HeaderPolicy,
    *,
    added: Headers,
    unavailable: str,
    address: httpx.URL | None = None,
    timeouts: httpx.Timeout | None = None,
) -> Forwarded:
    """Pass a request on, and the answer back. Where nothing answers, the caller reads what is said for that case."""
    outgoing = client.build_request(
        request.method,
        address or address_behind(request, request.scope["path"]),
        headers=policy.to_service(request.headers.raw, added),
        content=await request.body() or None,
        timeout=timeouts or httpx.USE_CLIENT_DEFAULT,
    )
    try:
        answer = await client.send(outgoing, stream=True)
    except httpx.HTTPError as error:
        raise BehindUnavailable(unavailable) from error
    return Forwarded(answer, policy.to_caller(answer.headers.raw))


def address_behind(request: Request, path: str, service: httpx.URL = HERE) -> httpx.URL:
    """A path of a service, with the request's query. Dots that lead up lead out of it, and httpx would follow them."""
    query = quote(request.scope["query_string"], safe=QUERY_STAYS).encode() or None
    if {".", ".."}.isdisjoint(path.split("/")):
        try:
            return service.copy_with(path=quote(path, safe=PATH_STAYS), query=query)
        except httpx.InvalidURL:  # too long, once everything that has to be is escaped
            pass
    raise NotFound("There is nothing at this address.")
