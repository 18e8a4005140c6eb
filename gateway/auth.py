"""Identifies the caller and the audiences that may call each route."""

from typing import Annotated

from fastapi import Depends, Request

from domain.rules.clearance import STAFF, Identity, Role
from domain.shared.authentication import required_credential
from gateway.errors import Forbidden
from gateway.state import Gateway, gateway

OPERATORS: frozenset[Role] = frozenset({"operator", "admin"})


async def credential(request: Request) -> str:
    """The secret that came with the request."""
    return required_credential(request.headers)


def address_of(request: Request) -> str:
    """Where a request comes from. Behind a proxy, uvicorn has to believe the proxy's word for it."""
    return request.client.host if request.client else ""


async def caller(
    request: Request, secret: Annotated[str, Depends(credential)], state: Annotated[Gateway, Depends(gateway)]
) -> Identity:
    """The client that holds the credential, within the calls that it may make."""
    state.rates.refuse_again(secret)
    found = await state.authentication.identify(secret, address_of(request), state.queries)
    state.rates.take(found, secret)
    return found


async def partner(found: Annotated[Identity, Depends(caller)]) -> Identity:
    """A partner's client, bound to its platform."""
    if found.role != "partner" or found.platform_id is None:
        raise Forbidden(f"Only partners submit; this credential is a {found.role}'s.")
    return found


async def operator(found: Annotated[Identity, Depends(caller)]) -> Identity:
    """Return the caller, who must run the platform."""
    if found.role not in OPERATORS:
        raise Forbidden(f"This is for operators; this credential is a {found.role}'s.")
    return found


async def reader(found: Annotated[Identity, Depends(caller)]) -> Identity:
    """A partner, for its platform, or staff."""
    if found.role not in STAFF and found.role != "partner":
        raise Forbidden(f"This is for partners and staff; this credential is a {found.role}'s.")
    return found


Secret = Annotated[str, Depends(credential)]
Partner = Annotated[Identity, Depends(partner)]
Operator = Annotated[Identity, Depends(operator)]
Reader = Annotated[Identity, Depends(reader)]
