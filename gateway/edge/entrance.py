"""Limits what anybody may ask of the gateway before anything is done: reading, the console, bodies.

Pure ASGI around the application, one for all addresses. Who may read what is judged behind.
"""

from contextlib import ExitStack
from typing import Final

from fastapi import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from domain.contracts.console import SESSION_COOKIE
from domain.contracts.problems import ProblemError
from domain.contracts.rendering import render
from domain.rules.guesses import place_of
from domain.shared.authentication import required_credential, secret_hash, shown_credential
from domain.shared.request_bodies import Sender
from gateway.auth import address_of
from gateway.edge.cross_origin import is_data
from gateway.edge.rate_limit import take_read, take_visit
from gateway.edge.stream_slots import Streams
from gateway.state import Gateway

CONSOLE: Final = "/console"
_READING: Final = frozenset({"GET", "HEAD", "POST"})  # whatever else is asked there is refused by the application


class Entrance:
    """Counts readings of data and visits to the console, and gives each a place until its answer is sent."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] not in _READING or not is_open(scope["path"]):
            await self.app(scope, receive, send)
            return
        request = Request(scope)
        with ExitStack() as held:
            try:
                held.enter_context(_counted(request).place(address_of(request)))
            except ProblemError as refusal:
                await render(refusal.problem())(scope, receive, send)
                return
            await self.app(scope, receive, send)


def _counted(request: Request) -> Streams:
    """Count the call and return the places of the route group that it goes to."""
    state, address = _state(request.scope), address_of(request)
    if not is_data(request.scope["path"]):
        take_visit(state.visitors, request.scope["path"], address)
        return state.visits
    secret = shown_or_session(request)
    if secret is not None:
        state.authentication.refuse_guesser(secret, address)
    take_read(state.readers, secret, address)
    return state.streams


async def admit(scope: Scope) -> Sender:
    """Identify the sender of a body; refuse one without a good credential, except at anonymous routes.

    A credential that was good here before may send one at once: whether it still is is looked up with the call itself.
    """
    request, state = Request(scope), _state(scope)
    address = address_of(request)
    if is_open(scope["path"]):
        return Sender(place_of(address), is_known=False)
    secret = required_credential(request.headers)
    state.rates.refuse_again(secret)
    if not state.authentication.knows(secret, address):
        await state.authentication.identify(secret, address, state.queries)
    return Sender(secret_hash(secret), is_known=True)


def is_open(path: str) -> bool:
    """Whether callers of this path need no credential of the gateway's."""
    return is_data(path) or path == CONSOLE or path.startswith(f"{CONSOLE}/")


def shown_or_session(request: Request) -> str | None:
    """Return the credential of a reader of data: a key, a token or the console's session."""
    return shown_credential(request.headers) or session_of(request)


def session_of(request: Request) -> str | None:
    """Return the console session as a credential to read with, on the console's own pages only."""
    if shown_credential(request.headers) is not None or request.headers.get("sec-fetch-site") != "same-origin":
        return None
    return request.cookies.get(SESSION_COOKIE) if request.method in {"GET", "HEAD"} else None


def _state(scope: Scope) -> Gateway:
    made: Gateway = scope["app"].state.gateway
    return made
