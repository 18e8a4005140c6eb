"""One origin for everything people read: tiles, features, STAC are forwarded to serving, which judges access."""

from typing import Annotated

import httpx
from fastapi import APIRouter, Depends, Request

from domain.rules.guesses import place_of
from gateway.auth import address_of
from gateway.edge.entrance import session_of, shown_or_session
from gateway.edge.rate_limit import reader_of
from gateway.errors import BehindUnavailable
from gateway.forwarding.forward import Forwarded, Raw, address_behind, as_bytes, as_text
from gateway.forwarding.reading_headers import COST, READER, read
from gateway.state import Gateway, gateway

PASSED_IN = (
    "accept",
    "accept-encoding",
    "authorization",
    "if-none-match",
    "if-range",
    "range",
    "x-api-key",
    "content-type",
)
PASSED_OUT = (
    "accept-ranges",
    "allow",
    "cache-control",
    "content-bbox",
    "content-crs",
    "content-disposition",
    "content-encoding",
    "content-length",
    "content-range",
    "content-type",
    "etag",
    "link",
    "location",
    "retry-after",
    "vary",
    "www-authenticate",
    "x-content-type-options",
)
OUR_OWN = "cairn-"  # what serving says of an answer, for which HTTP has no name


router = APIRouter(tags=["data"])


@router.api_route("/tiles/{path:path}", methods=["GET", "HEAD"])
@router.api_route("/vector", methods=["GET", "HEAD"])
@router.api_route("/vector/{path:path}", methods=["GET", "HEAD"])
@router.api_route("/stac", methods=["GET", "HEAD"])
@router.api_route("/stac/{path:path}", methods=["GET", "HEAD"])
@router.api_route("/stac/search", methods=["POST"])
async def forward(request: Request, state: Annotated[Gateway, Depends(gateway)]) -> Forwarded:
    """Pass a read on and stream its answer back. It was counted at the entrance."""
    secret, address = shown_or_session(request), address_of(request)
    outgoing = state.serving.build_request(
        request.method,
        address_behind(request),
        headers=_forwarded_headers(request),
        content=await request.body() or None,
    )
    try:
        answer = await state.serving.send(outgoing, stream=True)
    except httpx.HTTPError as error:
        raise BehindUnavailable("Data cannot be read right now. Try again in a moment.") from error
    state.readers.charge(reader_of(secret, address), read(answer.headers.get(COST)) - 1.0)
    # Serving judges; here it is counted, for serving knows no addresses. It may answer before it has judged, so
    # whatever else it says does not prove a credential right.
    if secret is not None and answer.status_code == httpx.codes.UNAUTHORIZED:
        state.authentication.note(secret, address, right=False)
    return Forwarded(
        answer, as_bytes((name, value) for name, value in as_text(answer.headers.raw) if _is_passed_out(name))
    )


def _is_passed_out(name: str) -> bool:
    return name in PASSED_OUT or name.startswith(OUR_OWN)


def _forwarded_headers(request: Request) -> Raw:
    """The few headers that matter; the caller's own host among them, so that links in answers lead back here."""
    passed = {name: request.headers[name] for name in PASSED_IN if name in request.headers}
    if (session := session_of(request)) is not None:
        passed["authorization"] = f"Bearer {session}"
    passed.setdefault("accept-encoding", "identity")  # httpx would ask for what the caller may not understand
    return as_bytes(
        {
            **passed,
            "host": request.url.netloc,
            "x-forwarded-proto": request.url.scheme,
            "x-forwarded-port": str(_port(request)),
            READER: place_of(address_of(request)),
        }.items()
    )


def _port(request: Request) -> int:
    """Where the caller reached us, by a host that need be none."""
    try:
        port = request.url.port
    except ValueError:
        port = None
    return port or {"https": 443}.get(request.url.scheme, 80)
