"""Who may send the domain a body, judged before it is read. What a caller may do with it, routes judge."""

from typing import Final

from fastapi import Request

from domain.api.dependencies import caller
from domain.db import OUTAGES
from domain.errors import no_database
from domain.repositories.platforms import Platforms
from domain.rules.guesses import place_of
from domain.shared.request_bodies import Scope, Sender
from domain.state import Service

CONSOLE: Final = "/console"
RUNS: Final = "/api/v1/runs"
_KNOWN: Final = "known"


async def admit(scope: Scope) -> Sender:
    """Admit whoever has a good credential; at the console, admit anybody who sends a form.

    A credential that was good here before may send a body at once: whether it still is, its route looks up.
    """
    request = Request(scope)
    if scope["path"] == CONSOLE or scope["path"].startswith(f"{CONSOLE}/"):
        return Sender(place_of(request.client.host if request.client else ""), is_known=False)
    service: Service = scope["app"].state.service
    shown = await caller(request)
    if not service.authentication.knows(shown.secret, shown.address):
        try:
            async with service.database.transaction() as session:
                await service.authentication.identify(shown.secret, shown.address, Platforms(session))
        except OUTAGES as error:
            raise no_database() from error
    return Sender(_KNOWN, is_known=True)
