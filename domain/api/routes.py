"""The domain's API, version 1, by audience: the gateway, flow runs, reviewers, operators."""

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Response

from domain.api.dependencies import (
    InTurn,
    ServiceState,
    allowed,
    allowed_beforehand,
    callback_desk,
    internal_runs,
    lifecycle,
    starts,
    submissions,
)
from domain.contracts import rendering
from domain.contracts.runs import (
    Commit,
    Fail,
    Heartbeat,
    HeartbeatAnswer,
    Outcome,
    Registered,
    RunCreate,
    RunCreated,
    RunRegister,
    RunStart,
    WorkOrder,
)
from domain.contracts.submissions import SubmissionAnswer
from domain.errors import DatabaseUnavailable, DomainError
from domain.security import Identity
from domain.services.operations.callbacks import CallbackDesk
from domain.services.runs.endings import RunLifecycle
from domain.services.runs.heartbeats import Heartbeats
from domain.services.runs.queueing import InternalRuns
from domain.services.runs.starts import RunStarts
from domain.services.submissions.accept import Submissions

probes = APIRouter(tags=["probes"])
api = APIRouter(prefix="/api/v1")

Starts = Annotated[RunStarts, Depends(starts)]
Lifecycle = Annotated[RunLifecycle, Depends(lifecycle)]
RETRY_SECONDS = 1
WORKER = [Depends(allowed("worker"))]


@probes.get("/livez")
async def livez() -> dict[str, str]:
    """The process answers."""
    return {"status": "alive"}


@probes.get("/readyz")
async def readyz(state: ServiceState) -> dict[str, str | list[str]]:
    """The process and its database answer, in time. A workflow whose file is refused is named, and hinders no other."""
    try:
        await state.database.ready.check()
    except TimeoutError as error:
        told = "It has taken a question and gives no answer."
        raise DatabaseUnavailable(told, retry_after_seconds=RETRY_SECONDS) from error
    refused = sorted(state.definitions.refused)
    return {"status": "ready"} | ({"refused_workflows": refused} if refused else {})


@api.post("/submit", status_code=202, tags=["gateway"])
async def submit(
    turn: InTurn,  # before who may: that takes a connection
    _gateway: Annotated[Identity, Depends(allowed("gateway"))],
    response: Response,
    use_case: Annotated[Submissions, Depends(submissions)],
    callbacks: Annotated[CallbackDesk, Depends(callback_desk)],
) -> SubmissionAnswer:
    """Take a submission in. An equal one that is already being served answers 200 with its id."""
    await callbacks.accept(turn.submission.client_id, turn.submission.callback_url)
    answer = await use_case.submit(turn)
    response.headers["Location"] = f"/api/v1/requests/{answer.request_id}"
    if answer.duplicate:
        response.status_code = 200
    return answer


@api.post("/runs", status_code=202, tags=["operators"])
async def create_run(
    order: RunCreate,
    use_case: Annotated[InternalRuns, Depends(internal_runs)],
    caller: Annotated[Identity, Depends(allowed("operator", "admin"))],
    callbacks: Annotated[CallbackDesk, Depends(callback_desk)],
) -> RunCreated:
    """Run any workflow, or some of its nodes, by hand. Nothing of it can be published."""
    await callbacks.accept(caller.client_id, order.callback_url)
    return await use_case.create(order, caller)


@api.post("/runs/register", tags=["workers"])
async def register(
    order: RunRegister,
    use_case: Annotated[InternalRuns, Depends(internal_runs)],
    caller: Annotated[Identity, Depends(allowed("worker"))],
) -> Registered:
    """Make a run of a flow run that somebody started in Prefect."""
    return await use_case.register(order, caller)


@api.post("/runs/{run_id}/start", tags=["workers"], dependencies=WORKER, response_model=WorkOrder)
async def start(run_id: UUID, message: RunStart, runs: Starts, state: ServiceState) -> Any:
    """The first act of a flow run: claim its attempt and learn what to do."""
    answer = await runs.start(run_id, message, state.settings.heartbeat_seconds)
    return rendering.render(answer.problem()) if isinstance(answer, DomainError) else answer


@api.post(
    "/runs/{run_id}/heartbeat",
    tags=["workers"],
    dependencies=[Depends(allowed_beforehand("worker"))],
    response_model_exclude_defaults=True,
)
async def heartbeat(run_id: UUID, message: Heartbeat, state: ServiceState) -> HeartbeatAnswer:
    """Say that the attempt lives, and what its nodes do; hear whether to stop, if so wished the moment it is true.

    `paused` is there while a pause holds the run: what works may end, no child run begins.
    """
    return await Heartbeats(state.database, state.fences, state.listener).beat(run_id, message)


@api.post("/runs/{run_id}/commit", tags=["workers"], dependencies=WORKER)
async def commit(run_id: UUID, message: Commit, runs: Lifecycle) -> Outcome:
    """Hand in a run's outcome."""
    return await runs.commit(run_id, message)


@api.post("/runs/{run_id}/fail", tags=["workers"], dependencies=WORKER)
async def fail(run_id: UUID, message: Fail, runs: Lifecycle) -> Outcome:
    """Report that a run failed."""
    return await runs.fail(run_id, message)
