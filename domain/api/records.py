"""Runs, workflows and timelines, for staff. Reading only."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Annotated, Literal
from uuid import UUID

from fastapi import APIRouter, Depends, Query

from domain.api.dependencies import ServiceState, Session, allowed, allowed_beforehand, record_desk
from domain.contracts.records import (
    LogLine,
    RequestPage,
    RequestRecord,
    RunPage,
    RunRecord,
    RunStateName,
    RunSummary,
    Timeline,
    WorkflowDetail,
    WorkflowSummary,
)
from domain.contracts.statistics import Statistics
from domain.contracts.submissions import RequestState as RequestStateName
from domain.repositories.records import Records
from domain.rules.lifecycle import OPEN_REQUESTS, OPEN_RUNS, RequestState, RunState
from domain.rules.paging import MAX_PAGE
from domain.security import STAFF
from domain.services.operations.records import RecordDesk
from domain.services.operations.statistics import statistics
from domain.state import Service

log = logging.getLogger("cairn.api")
LONGEST_WINDOW_SECONDS = 90 * 86_400
LOG_SECONDS, LOG_LINES, FLOW_RUNS = 0.3, 100, 20
router = APIRouter(prefix="/api/v1", tags=["operators"], dependencies=[Depends(allowed(*STAFF))])
# Asks Prefect, so its caller's transaction is over before.
timelines = APIRouter(prefix="/api/v1", tags=["operators"], dependencies=[Depends(allowed_beforehand(*STAFF))])
Desk = Annotated[RecordDesk, Depends(record_desk)]
Token = Annotated[str | None, Query(max_length=200, description="`next` of the page before")]


@router.get("/runs")
async def list_runs(
    desk: Desk,
    status: RunStateName | Literal["active"] | None = None,
    workflow_id: Annotated[str | None, Query(max_length=63)] = None,
    platform_id: Annotated[str | None, Query(max_length=63)] = None,
    after: Token = None,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 100,
) -> RunPage:
    """Runs, newest first. `active` are those that are pending or running."""
    states: tuple[RunState, ...] = ()
    if status is not None:
        states = OPEN_RUNS if status == "active" else (RunState(status),)
    return await desk.runs(limit, after, states, workflow_id, platform_id)


@router.get("/runs/{run_id}")
async def read_run(
    run_id: UUID,
    desk: Desk,
    first_stage: Annotated[int, Query(ge=0)] = 0,
    stages: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 200,
) -> RunRecord:
    """One run's record: its processing block."""
    return await desk.run(run_id, first_stage, stages)


@router.get("/status/lookup")
async def look_up(desk: Desk, flow_run_id: UUID) -> RunSummary:
    """The run that a flow run of Prefect worked for, itself or as a child."""
    return await desk.of_flow_run(flow_run_id)


@router.get("/requests")
async def list_requests(
    desk: Desk,
    status: RequestStateName | Literal["active"] | None = None,
    platform_id: Annotated[str | None, Query(max_length=63)] = None,
    asset_id: Annotated[str | None, Query(max_length=32)] = None,
    after: Token = None,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 100,
) -> RequestPage:
    """Requests, newest first. `active` are those that are pending or processing."""
    states: tuple[RequestState, ...] = ()
    if status is not None:
        states = OPEN_REQUESTS if status == "active" else (RequestState(status),)
    return await desk.requests(limit, after, states, platform_id, asset_id)


@router.get("/requests/{request_id}")
async def read_request(request_id: UUID, desk: Desk) -> RequestRecord:
    """One request as operators see it."""
    return await desk.request(request_id)


@router.get("/workflows")
async def list_workflows(desk: Desk) -> list[WorkflowSummary]:
    """What can be run, and for which submissions."""
    return desk.workflows()


@router.get("/workflows/{workflow_id}")
async def read_workflow(workflow_id: str, desk: Desk) -> WorkflowDetail:
    """One workflow: its source, its stages, and the schema of its inputs."""
    return desk.workflow(workflow_id)


@timelines.get("/requests/{request_id}/timeline")
async def read_timeline(
    request_id: UUID, state: ServiceState, after: Token = None, limit: Annotated[int, Query(ge=1, le=300)] = 200
) -> Timeline:
    """What happened to a request, in order: nodes, retries, artifacts, decisions, callbacks; and its last log lines."""
    async with state.database.transaction() as session:
        timeline = await RecordDesk(session, state.definitions).timeline(request_id, limit, after)
        flow_runs = [] if after else await Records(session).newest_flow_runs(request_id, FLOW_RUNS)
    return timeline.model_copy(update={"logs": await _logged(state, flow_runs)})


async def _logged(state: Service, flow_runs: Sequence[UUID]) -> list[LogLine] | None:
    """Return what Prefect can tell of the log within the time that a reader of a timeline has."""
    if state.last_lines is None or not flow_runs:
        return None
    try:
        async with asyncio.timeout(LOG_SECONDS):
            return await state.last_lines(flow_runs, LOG_LINES)
    except Exception as error:  # noqa: BLE001 - whatever a foreign client raises: the timeline is worth reading without
        log.warning("a request's log cannot be read", extra={"error": type(error).__name__})
        return None


@router.get("/stats")
async def read_statistics(
    session: Session,
    state: ServiceState,
    window: Annotated[
        str, Query(pattern=r"^[1-9][0-9]{0,3}[mhd]$", description="As 30m, 24h or 7d; 90 days at most")
    ] = "24h",
) -> Statistics:
    """How the platform did lately: throughput, failures, retries, waiting, decisions."""
    seconds = int(window[:-1]) * {"m": 60, "h": 3600, "d": 86_400}[window[-1]]
    return await statistics(session, min(seconds, LONGEST_WINDOW_SECONDS), state.settings.beacon_silence_seconds)
