"""The reviewers' console under the gateway's own origin: passed on to the domain, which knows who is signed in."""

from typing import Annotated, Final

import httpx
from fastapi import APIRouter, Depends, Request

from gateway.auth import address_of
from gateway.errors import BehindUnavailable
from gateway.forwarding.cookies import no_cookies
from gateway.forwarding.forward import Forwarded, address_behind, as_bytes, as_text
from gateway.state import Gateway, gateway

router = APIRouter(tags=["console"], include_in_schema=False)
# Besides what every proxy keeps to itself: what only we may say of the caller.
KEPT: Final = {
    "authorization", "connection", "content-length", "forwarded", "keep-alive", "proxy-authorization", "te", "trailer",
    "transfer-encoding", "upgrade", "x-api-key", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto",
}  # fmt: skip
SILENCE_SECONDS: Final = 30.0  # streams of events breathe every ten
KEPT_FROM_ANSWERS: Final = {"connection", "date", "keep-alive", "server", "transfer-encoding"}


def pages_client(domain_url: str, most_connections: int) -> httpx.AsyncClient:
    """Open pages hold a connection each, so these are not those of submissions."""
    limits = httpx.Limits(max_connections=most_connections)
    return httpx.AsyncClient(base_url=domain_url, timeout=SILENCE_SECONDS, limits=limits, cookies=no_cookies())


@router.api_route("/console", methods=["GET", "HEAD", "POST"])
@router.api_route("/console/{path:path}", methods=["GET", "HEAD", "POST"])
async def forward(request: Request, state: Annotated[Gateway, Depends(gateway)]) -> Forwarded:
    """Pass a page, a form or a stream of events on, and its answer back."""
    passed = [(name, value) for name, value in as_text(request.headers.raw) if name not in KEPT]
    said = [("x-forwarded-for", address_of(request)), ("x-forwarded-proto", request.url.scheme)]
    outgoing = state.console.build_request(
        request.method,
        address_behind(request),
        headers=as_bytes([*passed, *said]),
        content=await request.body() or None,
    )
    try:
        answer = await state.console.send(outgoing, stream=True)
    except httpx.HTTPError as error:
        raise BehindUnavailable("The console cannot be reached right now. Try again in a moment.") from error
    told = [(name, value) for name, value in as_text(answer.headers.raw) if name not in KEPT_FROM_ANSWERS]
    return Forwarded(answer, as_bytes(told))
