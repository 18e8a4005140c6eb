"""Orders of operators: run, cancel, run again, prefer, pause, resume, limit."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends

from domain.api.dependencies import ServiceState, Session, allowed, callback_desk, internal_runs
from domain.contracts.control import (
    Cancel,
    Limit,
    Pause,
    Prioritise,
    RequestStands,
    Rerun,
    Resume,
    SettingView,
)
from domain.contracts.runs import RunCreate, RunCreated
from domain.errors import NotFound
from domain.repositories.controls import Controls
from domain.security import STAFF, Identity
from domain.services.lookups import found_run
from domain.services.operations.callbacks import CallbackDesk
from domain.services.runs.control import Control
from domain.services.runs.queueing import InternalRuns

router = APIRouter(prefix="/api/v1", tags=["operators"])
Operator = Annotated[Identity, Depends(allowed("operator", "admin"))]


async def control(session: Session, state: ServiceState, who: Operator) -> Control:
    return Control(session, state.definitions, who)


async def cancelling(
    session: Session, state: ServiceState, who: Annotated[Identity, Depends(allowed("operator", "admin", "gateway"))]
) -> Control:
    return Control(session, state.definitions, who)


Orders = Annotated[Control, Depends(control)]


@router.post("/runs", status_code=202)
async def create_run(
    order: RunCreate,
    use_case: Annotated[InternalRuns, Depends(internal_runs)],
    caller: Operator,
    callbacks: Annotated[CallbackDesk, Depends(callback_desk)],
) -> RunCreated:
    """Run any workflow, or some of its nodes, by hand. Nothing of it can be published."""
    await callbacks.accept(caller.client_id, order.callback_url)
    return await use_case.create(order, caller)


@router.post("/requests/{request_id}/cancel")
async def cancel_request(
    request_id: UUID, order: Cancel, use_case: Annotated[Control, Depends(cancelling)]
) -> RequestStands:
    """Stop a request. The gateway may do so for the partner whose request it is."""
    return await use_case.cancel(request_id, order)


@router.post("/runs/{run_id}/cancel")
async def cancel_run(run_id: UUID, order: Cancel, use_case: Orders) -> RequestStands:
    """Stop a run, and with it the request that needs it."""
    run = await found_run(use_case.session, run_id)
    return await use_case.cancel(run.request_id, order)


@router.post("/runs/{run_id}/rerun", status_code=202)
async def rerun(run_id: UUID, order: Rerun, use_case: Orders) -> RequestStands:
    """Do a finished run again, with the later ones that its end had cancelled."""
    return await use_case.rerun(run_id, order)


@router.post("/requests/{request_id}/priority")
async def prioritise(request_id: UUID, order: Prioritise, use_case: Orders) -> RequestStands:
    """Dispatch what waits of a request earlier or later than the rest."""
    return await use_case.prioritise(request_id, order)


@router.post("/pause", status_code=204)
async def pause(order: Pause, use_case: Orders) -> None:
    """Dispatch nothing new: of everything, of one workflow or of one platform."""
    await use_case.pause(order)


@router.post("/resume", status_code=204)
async def resume(order: Resume, use_case: Orders) -> None:
    """Go on where a pause stopped."""
    if not await use_case.resume(order):
        raise NotFound("There is no such pause. GET /api/v1/settings lists those that hold.")


@router.put("/limits", status_code=204)
async def limit(order: Limit, use_case: Orders) -> None:
    """How many requests a platform may have open, or a pool, a workflow or a platform attempts in flight."""
    await use_case.limit(order)


@router.get("/settings", dependencies=[Depends(allowed(*STAFF))])
async def settings(session: Session) -> list[SettingView]:
    """Every pause and limit that holds now."""
    return [SettingView.model_validate(row) for row in await Controls(session).all()]
