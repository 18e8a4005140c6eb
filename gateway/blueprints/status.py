"""Jobs as operators read them, by the ids of runs and flow runs. Read here, so they answer while the domain is away."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Query

from domain.rules.paging import to_token
from gateway.auth import operator
from gateway.edge.conditional_answers import private
from gateway.errors import NotFound
from gateway.reads.operations import Counts, EventPage, FlowRun, Job, JobPage, JobState, NodePage, Operations
from gateway.reads.paging import place_of
from gateway.state import Gateway, gateway

router = APIRouter(prefix="/api/status", tags=["status"], dependencies=[Depends(operator), Depends(private)])
Limit = Annotated[int, Query(ge=1, le=500)]
Name = Annotated[str | None, Query(max_length=63)]
LAST_NUMBER = 2**63 - 1


async def operations(state: Annotated[Gateway, Depends(gateway)]) -> Operations:
    return Operations(state.queries)


Reading = Annotated[Operations, Depends(operations)]


@router.get("/jobs")
async def list_jobs(
    reading: Reading,
    state: JobState | None = None,
    workflow_id: Name = None,
    platform_id: Name = None,
    after: Annotated[str | None, Query(max_length=200, description="`next` of the page before")] = None,
    limit: Limit = 100,
) -> JobPage:
    """Jobs of every platform, newest first."""
    jobs, behind = await reading.jobs(state, workflow_id, platform_id, place_of(after), limit)
    return JobPage(jobs=list(jobs), next=to_token(behind) if behind else None)


@router.get("/job/{job_id}")
async def read_job(job_id: UUID, reading: Reading) -> Job:
    """One job."""
    return await _found(job_id, reading)


@router.get("/job/{job_id}/nodes")
async def list_nodes(
    job_id: UUID, reading: Reading, after: Annotated[int, Query(ge=-1, le=2**31 - 1)] = -1, limit: Limit = 100
) -> NodePage:
    """A job's nodes as they stand."""
    await _found(job_id, reading)
    nodes = await reading.nodes(job_id, after, limit)
    return NodePage(nodes=list(nodes), next=nodes[-1].position if len(nodes) == limit else None)


@router.get("/job/{job_id}/events")
async def list_events(
    job_id: UUID, reading: Reading, after: Annotated[int, Query(ge=0, le=LAST_NUMBER)] = 0, limit: Limit = 100
) -> EventPage:
    """What happened to a job and its request."""
    await _found(job_id, reading)
    events = await reading.events(job_id, after, limit)
    return EventPage(events=list(events), next=events[-1].event_id if len(events) == limit else None)


@router.get("/stats")
async def read_counts(
    reading: Reading,
    window: Annotated[str, Query(pattern=r"^[1-9][0-9]{0,2}[mhd]$", description="As 30m, 24h or 7d")] = "24h",
) -> Counts:
    """How many jobs there were lately, by workflow and state."""
    seconds = int(window[:-1]) * {"m": 60, "h": 3600, "d": 86_400}[window[-1]]
    return await reading.counts(seconds)


@router.get("/lookup")
async def look_up(reading: Reading, flow_run_id: UUID) -> FlowRun:
    """Which job a flow run of Prefect worked for."""
    found = await reading.flow_run(flow_run_id)
    if found is None:
        raise NotFound(f"No job knows the flow run {flow_run_id}.")
    return found


async def _found(job_id: UUID, reading: Operations) -> Job:
    job = await reading.job(job_id)
    if job is None:
        raise NotFound(f"There is no job {job_id}.")
    return job
