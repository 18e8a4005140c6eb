"""The reviewers' console under the gateway's own origin: passed on to the domain, which knows who is signed in."""

from typing import Annotated, Final

import httpx
from fastapi import APIRouter, Depends, Request

from gateway.auth import address_of
from gateway.forwarding.clients import forwarding_client
from gateway.forwarding.forward import Forwarded, forward
from gateway.forwarding.header_policy import CONSOLE
from gateway.state import Gateway, gateway

router = APIRouter(tags=["console"], include_in_schema=False)
SILENCE_SECONDS: Final = 30.0  # streams of events breathe every ten
AWAY: Final = "The console cannot be reached right now. Try again in a moment."


def pages_client(domain_url: str, most_connections: int) -> httpx.AsyncClient:
    """Make the HTTP client of pages: an open page holds a connection, so submissions use another client."""
    return forwarding_client(domain_url, timeout_seconds=SILENCE_SECONDS, most_connections=most_connections)


@router.api_route("/console", methods=["GET", "HEAD", "POST"])
@router.api_route("/console/{path:path}", methods=["GET", "HEAD", "POST"])
async def visit(request: Request, state: Annotated[Gateway, Depends(gateway)]) -> Forwarded:
    """Pass a page, a form or a stream of events on, and its answer back."""
    said = [
        (b"x-forwarded-for", address_of(request).encode("latin-1")),
        (b"x-forwarded-proto", request.scope["scheme"].encode()),
    ]
    return await forward(request, state.console, CONSOLE, added=said, unavailable=AWAY)
