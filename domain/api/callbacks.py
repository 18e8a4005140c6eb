"""Callbacks, for operators: their log, replay, and the secrets that sign them."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Query

from domain.api.dependencies import allowed, callback_desk
from domain.contracts.callbacks import CallbackDetail, CallbackPage, CallbackSecretIssued
from domain.rules.callbacks import CallbackState
from domain.rules.paging import MAX_PAGE
from domain.security import STAFF, Identity
from domain.services.operations.callbacks import CallbackDesk

router = APIRouter(prefix="/api/v1", tags=["callbacks"])
Operator = Annotated[Identity, Depends(allowed("operator", "admin"))]
Desk = Annotated[CallbackDesk, Depends(callback_desk)]


@router.get("/callbacks", dependencies=[Depends(allowed(*STAFF))])
async def list_callbacks(
    desk: Desk,
    request_id: UUID | None = None,
    state: CallbackState | None = None,
    after: Annotated[str | None, Query(max_length=200)] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 100,
) -> CallbackPage:
    """Callbacks, newest first."""
    return await desk.page(limit, after, request_id, state)


@router.get("/callbacks/{callback_id}", dependencies=[Depends(allowed(*STAFF))])
async def read_callback(callback_id: UUID, desk: Desk) -> CallbackDetail:
    """One callback and every try to deliver it."""
    return await desk.read(callback_id)


@router.post("/callbacks/{callback_id}/replay", status_code=202)
async def replay_callback(callback_id: UUID, desk: Desk, caller: Operator) -> CallbackDetail:
    """Send it again, under the same webhook id. A disabled endpoint is enabled by this."""
    return await desk.replay(callback_id, caller)


@router.post("/clients/{client_id}/callback-secret", status_code=201)
async def rotate_callback_secret(client_id: str, desk: Desk, caller: Operator) -> CallbackSecretIssued:
    """Make or rotate the secret that signs a client's callbacks. It is shown this once."""
    return await desk.rotate_secret(client_id, caller)
