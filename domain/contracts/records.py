"""Runs, workflows and timelines as operators read them."""

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from domain.contracts.shown import ShownFacts, ShownText, ShownValue
from domain.contracts.submissions import RequestState

RunStateName = Literal["pending", "running", "completed", "failed", "cancelled"]


class WorkflowPin(BaseModel):
    """The definition that a run goes by, whatever has been rolled out since."""

    id: str
    version: str
    digest: str


class Resources(BaseModel):
    memory_mb: float | str | None = Field(
        default=None, description="A template where it is reckoned when it is ordered"
    )
    cpu: float | None = None
    gpu: int | None = None


class Assignment(BaseModel):
    """Where a stage runs or ran last. A fan-out's items may have been done by several flow runs."""

    pool: str | None
    flow_run_id: UUID | None
    flow_run_ids: list[UUID] = Field(default_factory=list)


class ComposeFile(BaseModel):
    """What a stage was run with: its pool's job template by name, and the image. Its worker's word."""

    job_template: str | None
    image: str | None


class Stage(BaseModel):
    """One node of the pinned plan, as it stands."""

    id: str
    type: str
    handler: str | None
    version: str | None
    status: str
    timeout_seconds: float | None
    resources_required: Resources
    resources_assigned: Assignment
    tries: int
    fraction: float | None
    message: ShownText | None
    items_total: int | None
    items_done: int | None
    items_failed: int | None
    items_retried: int | None = None
    problem: ShownFacts | None
    started_at: datetime | None
    updated_at: datetime | None
    parameters: ShownFacts = Field(description="As written: expressions are filled in when the node runs")
    dependencies: list[str]
    args: ShownValue = None
    resolved_parameters: ShownFacts | None = Field(
        default=None, description="What its handler was given, without secrets; none of items, and of what is long"
    )
    compose_file: ComposeFile | None = None


class FlowRunRecord(BaseModel):
    """A flow run that worked for the attempt: its own, or a segment's. On what it ran is its worker's word."""

    model_config = ConfigDict(from_attributes=True)

    flow_run_id: UUID
    segment: int | None
    nodes: list[str] | None = Field(description="Those of the run that a part of it worked for")
    pool: str | None
    image: str | None
    job_template: str | None


class AttemptRecord(BaseModel):
    number: int
    state: str
    flow_run_id: UUID | None
    run_count: int | None
    dispatch_tries: int
    heartbeat_at: datetime | None
    problem: ShownFacts | None
    created_at: datetime
    finished_at: datetime | None
    flow_runs: list[FlowRunRecord]


class RunSummary(BaseModel):
    run_id: UUID
    request_id: UUID
    platform_id: str | None
    asset_id: str | None
    workflow: WorkflowPin
    step_id: str | None
    pool: str | None
    priority: str
    state: RunStateName
    reason: str | None
    unroutable_pool: str | None = Field(description="The pool it waits for and that nobody serves")
    unroutable_why: str | None = Field(
        default=None, description="Where the pool is served: what none of its hosts has enough of"
    )
    held_by: str | None = Field(
        default=None, description="Where the reason is `paused`: which pause or limit of ours or of Prefect's holds it"
    )
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class RunRecord(RunSummary):
    """One processing block: what was to be done, on what, with what, and how far it is."""

    record_version: str = Field(description="Of this model, which grows by fields within a version")
    updated_at: datetime
    type: Literal["offline", "realtime"]
    sub_workflows: list[WorkflowPin]
    memory: int
    sequence: int
    dependencies: list[UUID] = Field(description="Runs of the same request that this one waits for")
    ordinal: int | None
    revision: int | None
    is_internal: bool
    inputs: ShownFacts
    outputs: ShownFacts | None
    problem: ShownFacts | None
    sla_seconds: float | None
    artifacts: int
    metrics: dict[str, float] = Field(description="What its tries have measured, failed ones too, summed by name")
    attempts: list[AttemptRecord]
    stages: list[Stage]
    stages_total: int
    timeline_url: str


class RunPage(BaseModel):
    """Newest first. `next` is the token of the next page."""

    runs: list[RunSummary]
    next: str | None


class WorkflowSummary(BaseModel):
    workflow_id: str
    name: str
    version: str
    digest: str
    description: str
    type: Literal["offline", "realtime"]
    accepts: list[str] = Field(description="data_type/operation of the submissions that it serves")
    sla_seconds: float | None
    refused: str | None = Field(default=None, description="Why the workflow's file is not what runs")


class WorkflowDetail(WorkflowSummary):
    input_schema: dict[str, Any]
    source: str
    stages: list[str]


class RequestRun(BaseModel):
    model_config = ConfigDict(from_attributes=True)

    run_id: UUID
    workflow_id: str
    state: RunStateName


class RequestSummary(BaseModel):
    model_config = ConfigDict(from_attributes=True)

    request_id: UUID
    platform_id: str | None
    client_id: str | None = Field(description="Who sent it; null where the service itself asked")
    is_internal: bool
    data_type: str | None
    operation: str
    priority: str
    status: RequestState
    asset_id: str | None
    ordinal: int | None
    revision: int | None
    idempotency_key: str | None
    created_at: datetime
    finished_at: datetime | None


class RequestRecord(RequestSummary):
    """A request with all that is stored of it: what was asked, what it was taken for, what came of it."""

    submitted: ShownFacts
    fingerprint: str
    callback_url: ShownText | None
    collecting_at: datetime | None = Field(description="When removing what it left over began last")
    collected_at: datetime | None = Field(description="Since when nothing is left over of it")
    plan: ShownFacts | None
    result: ShownFacts | None
    problem: ShownFacts | None
    runs: list[RequestRun] = Field(default_factory=list)


class RequestPage(BaseModel):
    """Newest first. `next` is the token of the next page."""

    requests: list[RequestSummary]
    next: str | None


class TimelineEntry(BaseModel):
    at: datetime
    kind: str
    run_id: UUID | None
    facts: ShownFacts


class LogLine(BaseModel):
    """What a flow run logged. `task` begins with the node's name, where a node logged it."""

    at: datetime
    level: int
    flow_run_id: UUID | None
    task: str | None
    text: ShownText


class Timeline(BaseModel):
    """What happened to a request, oldest first. Children of a fan-out are counts. `next` continues."""

    request_id: UUID
    status: str
    nodes: dict[str, int] = Field(description="How many nodes are in which state")
    entries: list[TimelineEntry]
    logs: list[LogLine] | None = Field(
        default=None,
        description="Last lines of its flow runs, on the first page; none where they cannot be had quickly",
    )
    next: str | None
