"""What operators read of jobs (runs), nodes, events and flow runs: of every platform, without asking the domain."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, LiteralString
from uuid import UUID

from pydantic import BaseModel, Field

from domain.contracts.runs import RunProblem
from domain.contracts.submissions import Priority
from domain.rules import paging
from domain.rules.lifecycle import OPEN_RUNS, sql_list
from domain.rules.paging import Position
from gateway.reads.queries import EVERYBODYS, Queries

JobState = Literal["pending", "running", "completed", "failed", "cancelled"]
Json = dict[str, Any]


class Job(BaseModel):
    """A run. `attempt` is the newest one, `flow_run_id` that of its flow run in Prefect."""

    job_id: UUID
    request_id: UUID
    platform_id: str | None
    asset_id: str | None
    is_internal: bool
    workflow_id: str
    version: str
    priority: Priority
    pool: str
    state: JobState
    reason: str | None
    problem: RunProblem | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    attempt: int | None
    flow_run_id: UUID | None


class JobPage(BaseModel):
    """Newest first. `next` is the token of the next page."""

    jobs: list[Job]
    next: str | None


class JobNode(BaseModel):
    node_id: str
    position: int
    type: str
    handler: str | None
    pool: str | None
    state: str
    tries: int
    fraction: float | None
    message: str | None
    items_total: int | None
    items_done: int | None
    items_failed: int | None
    items_retried: int | None
    problem: RunProblem | None
    started_at: datetime | None
    finished_at: datetime | None


class NodePage(BaseModel):
    """In the order of the plan. `next` is the `after` of the next page."""

    nodes: list[JobNode]
    next: int | None


class JobEvent(BaseModel):
    """What happened to the job, its request, or one of its nodes (`node.running` and so on)."""

    event_id: int
    kind: str
    actor: str | None
    details: Json
    at: datetime


class EventPage(BaseModel):
    """Oldest first. `next` is the `after` of the next page."""

    events: list[JobEvent]
    next: int | None


class FlowRun(BaseModel):
    """A flow run in Prefect and the attempt that it worked for."""

    flow_run_id: UUID
    job_id: UUID
    request_id: UUID
    attempt: int
    attempt_state: str
    segment: int | None
    pool: str | None


class WorkflowCount(BaseModel):
    workflow_id: str
    state: JobState
    jobs: int
    longest_seconds: float | None


class Counts(BaseModel):
    """Jobs that were made in the window that ends now."""

    window_seconds: int = Field(ge=1)
    total: int
    counts: list[WorkflowCount]


JOB_COLUMNS: Final[LiteralString] = ", ".join(Job.model_fields).replace("job_id", "run_id as job_id")
NODE_COLUMNS: Final = ", ".join(JobNode.model_fields)
EVENT_COLUMNS: Final = ", ".join(JobEvent.model_fields)
FLOW_RUN_COLUMNS: Final = ", ".join(FlowRun.model_fields).replace("job_id", "run_id as job_id")

JOB: Final = f"select {JOB_COLUMNS} from api.jobs where run_id = %(id)s"  # noqa: S608 - our own names
# So many of the newest are looked at and no more, whatever is wanted of them; what is not over has an index.
LOOKED_AT: Final = """
    select run_id, created_at, state, workflow_id, platform_id from api.jobs
    where (%(at)s::timestamptz is null or (created_at, run_id) < (%(at)s, %(after)s::uuid)) {open}
    order by created_at desc, run_id desc limit %(look)s
"""
JOBS: Final = """
    select {columns} from api.jobs where run_id in (
        select run_id from ({looked_at}) looked_at
        where (%(state)s::text is null or state = %(state)s)
            and (%(workflow_id)s::text is null or workflow_id = %(workflow_id)s)
            and (%(platform_id)s::text is null or platform_id = %(platform_id)s)
        order by created_at desc, run_id desc limit %(limit)s
    ) order by created_at desc, run_id desc
"""
END: Final = "select created_at as at, run_id as id from ({looked_at}) looked_at offset %(look)s - 1"
OF_ANY: Final = LOOKED_AT.format(open="")
OF_OPEN: Final = LOOKED_AT.format(open=f"and state in {sql_list(OPEN_RUNS)}")
NODES: Final = f"""
    select {NODE_COLUMNS} from api.job_nodes
    where run_id = %(id)s and position > %(after)s order by position limit %(limit)s
"""  # noqa: S608 - our own names
EVENTS: Final = f"""
    select {EVENT_COLUMNS} from api.job_events
    where run_id = %(id)s and event_id > %(after)s order by event_id limit %(limit)s
"""  # noqa: S608 - our own names
FLOW_RUN: Final = f"select {FLOW_RUN_COLUMNS} from api.flow_runs where flow_run_id = %(id)s limit 1"  # noqa: S608 - our own names
COUNTS: Final = """
    select workflow_id, state, count(*) as jobs,
        max(extract(epoch from finished_at - started_at))::float as longest_seconds
    from api.jobs where created_at > now() - make_interval(secs => %(window)s)
    group by workflow_id, state order by workflow_id, state
"""


@dataclass(frozen=True)
class Operations:
    queries: Queries

    async def job(self, job_id: UUID) -> Job | None:
        return await self.queries.one(EVERYBODYS, Job, JOB, {"id": job_id})

    async def jobs(
        self, state: str | None, workflow_id: str | None, platform_id: str | None, after: Position | None, limit: int
    ) -> tuple[Sequence[Job], Position | None]:
        """Return one page, newest first, and where the next one begins."""
        looked_at: LiteralString = OF_OPEN if state in OPEN_RUNS else OF_ANY
        place = {"at": after.at if after else None, "after": after.id if after else None, "look": paging.LOOK}
        wanted = {"state": state, "workflow_id": workflow_id, "platform_id": platform_id, "limit": limit} | place
        page = JOBS.format(columns=JOB_COLUMNS, looked_at=looked_at)
        rows = await self.queries.rows(EVERYBODYS, Job, page, wanted)
        if len(rows) == limit:
            return rows, Position(rows[-1].created_at, rows[-1].job_id)
        return rows, await self.queries.one(EVERYBODYS, Position, END.format(looked_at=looked_at), wanted)

    async def nodes(self, job_id: UUID, after: int, limit: int) -> Sequence[JobNode]:
        values = {"id": job_id, "after": after, "limit": limit}
        return await self.queries.rows(EVERYBODYS, JobNode, NODES, values)

    async def events(self, job_id: UUID, after: int, limit: int) -> Sequence[JobEvent]:
        values = {"id": job_id, "after": after, "limit": limit}
        return await self.queries.rows(EVERYBODYS, JobEvent, EVENTS, values)

    async def flow_run(self, flow_run_id: UUID) -> FlowRun | None:
        return await self.queries.one(EVERYBODYS, FlowRun, FLOW_RUN, {"id": flow_run_id})

    async def counts(self, window_seconds: int) -> Counts:
        rows = await self.queries.rows(EVERYBODYS, WorkflowCount, COUNTS, {"window": window_seconds})
        return Counts(window_seconds=window_seconds, total=sum(row.jobs for row in rows), counts=list(rows))
