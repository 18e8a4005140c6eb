"""What travels between a flow run and the domain. Every message of a run carries its attempt's token."""

import re
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from domain.contracts.artifacts import Artifact
from domain.rules.outcomes import MOST_ARTIFACTS

METRIC_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.]{0,62}")
MOST_METRICS = 100
MetricName = Annotated[str, Field(pattern=f"^{METRIC_NAME.pattern}$")]
MetricSums = Annotated[
    dict[MetricName, Annotated[float, Field(allow_inf_nan=False)]],
    Field(max_length=MOST_METRICS, description="What all tries of the run have measured so far, summed by name"),
]
NodeName = Annotated[str, Field(max_length=100)]
Verdict = Literal["failed", "lost", "handed-over", "cancelled"]
NodeState = Literal["pending", "ready", "dispatched", "running", "completed", "failed", "skipped", "cancelled"]


class RunProblem(BaseModel):
    """Why a run or node failed. The message reaches a partner only where `partner_may_read`."""

    model_config = ConfigDict(extra="forbid")

    code: str = Field(max_length=100)
    message: str = Field(max_length=4000)
    node_id: str | None = Field(default=None, max_length=100)
    partner_may_read: bool = False


class RunStart(BaseModel):
    """The first act of a flow run: claim the attempt. Child runs claim a numbered segment of it."""

    model_config = ConfigDict(extra="forbid")

    attempt_token: str = Field(max_length=200)
    flow_run_id: UUID
    run_count: int = Field(default=1, ge=1)
    segment: int | None = Field(default=None, ge=1)
    pool: str | None = Field(default=None, max_length=63)
    image: str | None = Field(default=None, max_length=500, description="The container image it runs in")
    job_template: str | None = Field(default=None, max_length=200, description="The pool's base job template, by name")


class RunFacts(BaseModel):
    """What a run is about. Expressions see the first four; handlers see all."""

    id: str
    request_id: str
    asset_id: str | None = None
    version_ordinal: int | None = None
    revision: int | None = None
    platform_id: str | None = None
    refs: dict[str, str] = Field(default_factory=dict)
    version_label: str | None = None
    received_at: datetime
    attempt: int


class KnownOutputs(BaseModel):
    """What is known of nodes outside of a part: outputs that were given, and what an earlier run remembers."""

    run_id: UUID | None = None
    memory: int = 1
    states: dict[str, NodeState] = Field(default_factory=dict, description="How the earlier run's nodes stood")
    outputs: dict[str, Any] = Field(default_factory=dict)


class WorkOrder(BaseModel):
    """Everything a flow run needs to do its work: the pinned plan, resolved inputs, facts."""

    plan: dict[str, Any]
    plans: dict[str, dict[str, Any]] = Field(description="Plans of all its sub-workflows, theirs included, by id")
    inputs: dict[str, Any]
    only: list[str] | None = Field(default=None, description="The nodes to run; all of the plan's where there is none")
    known: KnownOutputs | None = Field(default=None, description="Of a part: what is known of the other nodes")
    facts: RunFacts
    memory: int = Field(description="Generation of what the engine remembers: another one begins from nothing")
    heartbeat_seconds: float
    attempt_token: str = Field(description="What every later message carries: a retried flow run gets a new one")
    priority_cap: str | None = Field(default=None, description="The highest priority that its platform may ask for")
    page_url: str | None = Field(default=None, description="The console's page that shows the run, for people")


class NodeEvent(BaseModel):
    """One change of one node. A fan-out reports counts, never its items."""

    model_config = ConfigDict(extra="forbid")

    node_id: str = Field(max_length=100)
    state: NodeState
    pool: str | None = Field(default=None, max_length=63, description="Where a dispatched node was sent")
    needs: dict[str, Annotated[float, Field(gt=0)]] | None = Field(
        default=None, max_length=3, description="Of a dispatched node: memory_mb, cpus and gpu that its child run needs"
    )
    tries: int | None = Field(default=None, ge=0)
    fraction: float | None = Field(default=None, ge=0, le=1)
    message: str | None = Field(default=None, max_length=500)
    items_total: int | None = Field(default=None, ge=0)
    items_done: int | None = Field(default=None, ge=0)
    items_failed: int | None = Field(default=None, ge=0)
    items_retried: int | None = Field(default=None, ge=0, description="How many tries of items followed failed ones")
    problem: RunProblem | None = None
    parameters: dict[str, Any] | None = Field(
        default=None, description="What its handler is given, without secrets; none where that is long"
    )


class FlowRunNews(BaseModel):
    """A flow run that works for some nodes of the run: a child run, or a sub-workflow inside of one."""

    model_config = ConfigDict(extra="forbid")

    flow_run_id: UUID
    nodes: list[NodeName] = Field(max_length=1000)


class Heartbeat(BaseModel):
    model_config = ConfigDict(extra="forbid")

    attempt_token: str = Field(max_length=200)
    segment: int | None = Field(
        default=None, ge=1, description="Which child run sends it: it keeps alive only what its parent keeps alive"
    )
    events: list[NodeEvent] = Field(default_factory=list, max_length=1000)
    flow_runs: list[FlowRunNews] | None = Field(default=None, max_length=1000)
    wait_seconds: float = Field(
        default=0, ge=0, le=30, description="Hold the answer so long, or until the attempt is fenced"
    )
    left_outcome: bool | None = Field(
        default=None, description="Of a child run: there is something to see, so that the run that waits for it looks"
    )
    sent_to: str | None = Field(
        default=None, max_length=63, description="A child run was made for this pool, so that its workers look at once"
    )
    seen: int | None = Field(
        default=None, ge=0, description="How much news of child runs the sender knows of: held until there is more"
    )


class HeartbeatAnswer(BaseModel):
    stop: bool = Field(description="The attempt was cancelled or fenced: stop working, write nothing")
    paused: bool = Field(default=False, description="What works may end; begin nothing on other pools for now")
    news: int = Field(default=0, description="How much news of child runs there is, for who said what it has seen")


class Commit(BaseModel):
    model_config = ConfigDict(extra="forbid")

    attempt_token: str = Field(max_length=200)
    outputs: dict[str, Any]
    artifacts: list[Artifact] = Field(default_factory=list, max_length=MOST_ARTIFACTS)
    metrics: MetricSums | None = None


class Fail(BaseModel):
    model_config = ConfigDict(extra="forbid")

    attempt_token: str = Field(max_length=200)
    problem: RunProblem
    metrics: MetricSums | None = None
    verdict: Verdict = Field(
        default="failed",
        description=(
            "`failed`: the work failed. `lost`: the machinery failed, try again, counted. `handed-over`: the worker "
            "was told to stop, try again at once, not counted. `cancelled`: an operator cancelled it in Prefect"
        ),
    )


class Outcome(BaseModel):
    """What the domain made of a commit or a failure."""

    run_id: UUID
    state: Literal["pending", "running", "completed", "failed", "cancelled"]


class RunCreate(BaseModel):
    """An operator's own run of a workflow. It belongs to an internal request and can publish nothing."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    workflow_id: str = Field(max_length=63)
    inputs: dict[str, Any] = Field(default_factory=dict, max_length=100)
    priority: Literal["low", "normal", "high"] = "normal"
    only: list[NodeName] = Field(default_factory=list, max_length=1000, description="Run these nodes and no others")
    start_from: list[NodeName] = Field(
        default_factory=list, max_length=1000, alias="from", description="Run these nodes and all that follows them"
    )
    outputs_of: UUID | None = Field(
        default=None,
        description="Of a part: the run of the same workflow whose outputs it takes over, and inputs if not given",
    )
    outputs: dict[NodeName, Any] = Field(
        default_factory=dict, max_length=1000, description="Of a part: what other nodes return, by node id"
    )
    callback_url: str | None = Field(default=None, max_length=2000)


class RunCreated(BaseModel):
    run_id: UUID
    request_id: UUID
    asset_id: str | None = Field(
        default=None, description="The scratch asset that holds what the run makes; none where it leaves no files"
    )


class RunRegister(BaseModel):
    """A flow run that an operator started in Prefect's UI asks to become a run of ours."""

    model_config = ConfigDict(extra="forbid")

    workflow_id: str = Field(max_length=63)
    inputs: dict[str, Any] = Field(default_factory=dict, max_length=100)
    flow_run_id: UUID


class Registered(BaseModel):
    """Where a registered flow run goes on as any other."""

    run_id: UUID
    attempt_token: str
