"""Who calls, and which audiences may call what."""

import hashlib
from typing import Annotated

from fastapi import Depends, Request

from domain.rules.clearance import Identity
from gateway.errors import Forbidden, Unauthenticated
from gateway.state import Gateway, gateway


def credential(request: Request) -> str:
    """The secret of `Authorization: Bearer …` or `X-API-Key`."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    secret = token.strip() if scheme.lower() == "bearer" else request.headers.get("x-api-key", "")
    if not secret:
        raise Unauthenticated("Send your API key in X-API-Key, or a token in Authorization: Bearer.")
    return secret


async def caller(secret: Annotated[str, Depends(credential)], state: Annotated[Gateway, Depends(gateway)]) -> Identity:
    """The client that holds the credential."""
    found = await state.queries.caller(hashlib.sha256(secret.encode()).hexdigest())
    if found is None:
        raise Unauthenticated("This credential is unknown or was withdrawn.")
    return found


async def partner(found: Annotated[Identity, Depends(caller)]) -> Identity:
    """A partner's client, bound to its platform."""
    if found.role != "partner" or found.platform_id is None:
        raise Forbidden(f"Only partners submit; this credential is a {found.role}'s.")
    return found


Secret = Annotated[str, Depends(credential)]
AnyCaller = Annotated[Identity, Depends(caller)]
Partner = Annotated[Identity, Depends(partner)]
