"""What flow runs ask and tell: their order, their signs of life, how they ended."""

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends

from domain.api.dependencies import ServiceState, allowed, allowed_beforehand, internal_runs, lifecycle, starts
from domain.contracts import rendering
from domain.contracts.runs import (
    Commit,
    Fail,
    Heartbeat,
    HeartbeatAnswer,
    Outcome,
    Registered,
    RunRegister,
    RunStart,
    WorkOrder,
)
from domain.errors import DomainError
from domain.security import Identity
from domain.services.runs.endings import RunLifecycle
from domain.services.runs.heartbeats import Heartbeats
from domain.services.runs.queueing import InternalRuns
from domain.services.runs.starts import RunStarts
from domain.services.runs.work_order import page_url

router = APIRouter(prefix="/api/v1/runs", tags=["workers"])
Starts = Annotated[RunStarts, Depends(starts)]
Lifecycle = Annotated[RunLifecycle, Depends(lifecycle)]
WORKER = [Depends(allowed("worker"))]


@router.post("/register")
async def register(
    order: RunRegister,
    use_case: Annotated[InternalRuns, Depends(internal_runs)],
    caller: Annotated[Identity, Depends(allowed("worker"))],
) -> Registered:
    """Make a run of a flow run that somebody started in Prefect."""
    return await use_case.register(order, caller)


@router.post("/{run_id}/start", dependencies=WORKER, response_model=WorkOrder)
async def start(run_id: UUID, message: RunStart, runs: Starts, state: ServiceState) -> Any:
    """The first act of a flow run: claim its attempt and learn what to do."""
    answer = await runs.start(run_id, message, state.settings.heartbeat_seconds)
    if isinstance(answer, DomainError):
        return rendering.render(answer.problem())
    answer.page_url = page_url(str(state.settings.public_url), answer.facts)
    return answer


@router.post(
    "/{run_id}/heartbeat",
    dependencies=[Depends(allowed_beforehand("worker"))],
    response_model_exclude_defaults=True,
)
async def heartbeat(run_id: UUID, message: Heartbeat, state: ServiceState) -> HeartbeatAnswer:
    """Say that the attempt lives, and what its nodes do; hear whether to stop, if so wished the moment it is true.

    `paused` is there while a pause holds the run: what works may end, no child run begins.
    """
    return await Heartbeats(state.database, state.fences, state.listener).beat(run_id, message)


@router.post("/{run_id}/commit", dependencies=WORKER)
async def commit(run_id: UUID, message: Commit, runs: Lifecycle) -> Outcome:
    """Hand in a run's outcome."""
    return await runs.commit(run_id, message)


@router.post("/{run_id}/fail", dependencies=WORKER)
async def fail(run_id: UUID, message: Fail, runs: Lifecycle) -> Outcome:
    """Report that a run failed."""
    return await runs.fail(run_id, message)
