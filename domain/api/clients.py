"""Credentials, for operators and admins."""

from typing import Annotated

from fastapi import APIRouter, Depends

from domain.api.dependencies import ServiceState, allowed, client_desk
from domain.contracts.clients import Bind, ClientCreate, ClientKey, ClientSummary
from domain.security import Identity
from domain.services.operations.clients import ClientDesk

router = APIRouter(prefix="/api/v1/clients", tags=["clients"])
Desk = Annotated[ClientDesk, Depends(client_desk)]
Manager = Annotated[Identity, Depends(allowed("operator", "admin"))]


@router.get("")
async def list_clients(desk: Desk, _caller: Manager) -> list[ClientSummary]:
    """Every client, without keys."""
    return await desk.listed()


@router.post("", status_code=201)
async def create_client(order: ClientCreate, desk: Desk, caller: Manager) -> ClientKey:
    """Make a client. Its key is shown this once."""
    return await desk.create(order, caller)


@router.post("/{client_id}/rotate")
async def rotate_key(client_id: str, desk: Desk, caller: Manager) -> ClientKey:
    """Give a client a new key, shown this once. The one before works on for a day."""
    return await desk.rotate(client_id, caller)


@router.put("/{client_id}/sign-in")
async def bind_client(client_id: str, order: Bind, desk: Desk, state: ServiceState, caller: Manager) -> ClientSummary:
    """Have a person of the sign-in service be this client at the console."""
    return await desk.bind(client_id, order, state.settings.oidc_issuer, caller)


@router.delete("/{client_id}/sign-in")
async def unbind_client(client_id: str, desk: Desk, caller: Manager) -> ClientSummary:
    """Have nobody of the sign-in service be this client any more."""
    return await desk.unbind(client_id, caller)


@router.post("/{client_id}/revoke")
async def revoke_client(client_id: str, desk: Desk, caller: Manager) -> ClientSummary:
    """Have none of a client's keys work any more."""
    return await desk.revoke(client_id, caller)
