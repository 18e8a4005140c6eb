"""One origin for everything people read: tiles, features, STAC are forwarded to serving, which judges access."""

from typing import Annotated

from fastapi import APIRouter, Depends, Request, status
from starlette.datastructures import URL

from domain.rules.guesses import place_of
from gateway.auth import address_of
from gateway.edge.entrance import session_of, shown_or_session
from gateway.edge.rate_limit import reader_of
from gateway.forwarding.forward import Forwarded, forward
from gateway.forwarding.header_policy import SERVING, Headers
from gateway.forwarding.reading_headers import COST, READER, read
from gateway.state import Gateway, gateway

router = APIRouter(tags=["data"])
AWAY = "Data cannot be read right now. Try again in a moment."


@router.api_route("/tiles/{path:path}", methods=["GET", "HEAD"])
@router.api_route("/vector", methods=["GET", "HEAD"])
@router.api_route("/vector/{path:path}", methods=["GET", "HEAD"])
@router.api_route("/stac", methods=["GET", "HEAD"])
@router.api_route("/stac/{path:path}", methods=["GET", "HEAD"])
@router.api_route("/stac/search", methods=["POST"])
async def read_data(request: Request, state: Annotated[Gateway, Depends(gateway)]) -> Forwarded:
    """Pass a read on and stream its answer back. It was counted at the entrance."""
    secret, address = shown_or_session(request), address_of(request)
    answer = await forward(request, state.serving, SERVING, added=_said(request), unavailable=AWAY)
    state.readers.charge(reader_of(secret, address), read(answer.answer.headers.get(COST)) - 1.0)
    # Serving judges; here it is counted, for serving knows no addresses. It may answer before it has judged, so
    # whatever else it says does not prove a credential right.
    if secret is not None and answer.status_code == status.HTTP_401_UNAUTHORIZED:
        state.authentication.note(secret, address, right=False)
    return answer


def _said(request: Request) -> Headers:
    """What we say of the request: who reads by a session, where it came to (links lead back there), and from where."""
    session, reached = session_of(request), request.base_url  # `url` would read the query as text
    return [
        *([(b"authorization", f"Bearer {session}".encode("latin-1"))] if session is not None else []),
        (b"host", reached.netloc.encode("latin-1")),
        (b"x-forwarded-proto", reached.scheme.encode()),
        (b"x-forwarded-port", str(_port(reached)).encode()),
        (READER.encode(), place_of(address_of(request)).encode()),
    ]


def _port(reached: URL) -> int:
    """Return the port by which the caller reached us, whatever host was named."""
    try:
        port = reached.port
    except ValueError:
        port = None
    return port or {"https": 443}.get(reached.scheme, 80)
