"""Workflow definitions, runs, their fenced attempts, their nodes, and what they produced."""

from uuid import UUID

from sqlalchemy import BigInteger, ForeignKey, ForeignKeyConstraint, Identity, Index, Text, text
from sqlalchemy.dialects.postgresql import ARRAY, DOUBLE_PRECISION
from sqlalchemy.orm import Mapped, mapped_column

from domain.models.base import Base, CreatedAt, EnumText, Json, Moment
from domain.models.requests import Request
from domain.rules.lifecycle import (
    ATTEMPT,
    ATTEMPTS_IN_FLIGHT,
    ENDED_ATTEMPTS,
    LIVE_ATTEMPTS,
    OPEN_RUNS,
    RUN,
    AttemptState,
    RunState,
    sql_list,
)
from flows.pools import POOLS

UNLINKED = "disposed_at is null and flow_run_id is null and lease_until is not null and state = 'fenced'"
TO_DISPOSE = f"disposed_at is null and flow_run_id is not null and state in {sql_list(ENDED_ATTEMPTS)}"
TO_STOP = "disposed_at is null and flow_run_id is not null and state = 'fenced'"
LANE = ("pool", "work_pool", "priority", "platform_id", "workflow_id")


class WorkflowDefinition(Base):
    """One published definition. Its content never changes under the same id and version."""

    __tablename__ = "workflow_definitions"

    workflow_id: Mapped[str] = mapped_column(primary_key=True)
    version: Mapped[str] = mapped_column(primary_key=True)
    digest: Mapped[str]
    source: Mapped[str]
    plan: Mapped[Json]
    published_at: Mapped[CreatedAt]
    taken_up_at: Mapped[CreatedAt]


class Run(Base):
    """One execution of one workflow for a request, on a pinned definition."""

    __tablename__ = "runs"
    __table_args__ = (
        ForeignKeyConstraint(["workflow_id", "version"], [WorkflowDefinition.workflow_id, WorkflowDefinition.version]),
        Index("ix_runs_request_id", "request_id"),
        Index("ix_runs_created_at_run_id", "created_at", "run_id"),
        Index("ix_runs_open", "created_at", "run_id", postgresql_where=text(f"state in {sql_list(OPEN_RUNS)}")),
        Index("ix_runs_unroutable", "unroutable_since", postgresql_where=text("unroutable_since is not null")),
        Index("ix_runs_started_at", "started_at", postgresql_where=text("started_at is not null")),
    )

    run_id: Mapped[UUID] = mapped_column(primary_key=True)
    request_id: Mapped[UUID] = mapped_column(ForeignKey(Request.request_id))
    sequence: Mapped[int]
    workflow_id: Mapped[str]
    version: Mapped[str]
    digest: Mapped[str]
    priority: Mapped[str]
    pool: Mapped[str] = mapped_column(server_default=POOLS.home)
    # Whose places it needs: of the pools that its nodes run on, the scarcest.
    work_pool: Mapped[str] = mapped_column(server_default=POOLS.home)
    step_id: Mapped[str | None]
    depends_on: Mapped[list[str]] = mapped_column(ARRAY(Text), server_default="{}")
    inputs: Mapped[Json]
    pins: Mapped[Json] = mapped_column(server_default="{}")  # sub-workflow id -> its version and digest
    memory: Mapped[int] = mapped_column(server_default="1")  # generation: a higher one remembers nothing
    first_attempt: Mapped[int] = mapped_column(server_default="1")  # of this opening: attempts are counted from here
    hand_overs: Mapped[int] = mapped_column(server_default="0")  # attempts of this opening that do not count
    state: Mapped[RunState] = mapped_column(EnumText(RunState), server_default=RUN.initial.value)
    reason: Mapped[str | None]
    unroutable_pool: Mapped[str | None]
    unroutable_since: Mapped[Moment]
    unroutable_why: Mapped[str | None]  # where its pool is served, but by no host that is large enough
    outputs: Mapped[Json | None]
    problem: Mapped[Json | None]
    created_at: Mapped[CreatedAt]
    started_at: Mapped[Moment]
    finished_at: Mapped[Moment]


class Attempt(Base):
    """One fenced execution of a run. While `ready` or `sending` it is also the outbox entry of its dispatch."""

    __tablename__ = "attempts"
    __table_args__ = (
        # Which attempts wait, lane by lane (`rules.fairness`), and which are in flight.
        Index(
            "ix_attempts_lanes",
            *LANE,
            text("coalesce(not_before, created_at)"),
            postgresql_where=text("state = 'ready' and awaits is null"),
        ),
        Index("ix_attempts_in_flight", "pool", postgresql_where=text(f"state in {sql_list(ATTEMPTS_IN_FLIGHT)}")),
        Index("ix_attempts_alive", "heartbeat_at", postgresql_where=text("state = 'started'")),
        Index("ix_attempts_awaiting", "run_id", postgresql_where=text("awaits is not null and state = 'ready'")),
        Index("ix_attempts_flow_run_id", "flow_run_id"),
        Index("ix_attempts_repeated", "created_at", postgresql_where=text("number > 1")),
        Index("ix_attempts_to_dispose", "finished_at", postgresql_where=text(TO_DISPOSE)),
        Index("ix_attempts_to_stop", "finished_at", postgresql_where=text(TO_STOP)),
        Index("ix_attempts_unlinked", "lease_until", postgresql_where=text(UNLINKED)),
        # Two live attempts of one run would be two writers.
        Index(
            "uq_attempts_live",
            "run_id",
            unique=True,
            postgresql_where=text(f"state in {sql_list(LIVE_ATTEMPTS)}"),
        ),
    )

    run_id: Mapped[UUID] = mapped_column(ForeignKey(Run.run_id), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    token: Mapped[str] = mapped_column(unique=True)
    # Of its run and request, as the relay asks for them.
    pool: Mapped[str] = mapped_column(server_default=POOLS.home)
    work_pool: Mapped[str] = mapped_column(server_default=POOLS.home)
    priority: Mapped[str] = mapped_column(server_default="normal")  # `urgent` too
    platform_id: Mapped[str] = mapped_column(server_default="")  # empty where no partner asked
    workflow_id: Mapped[str] = mapped_column(server_default="")
    state: Mapped[AttemptState] = mapped_column(EnumText(AttemptState), server_default=ATTEMPT.initial.value)
    not_before: Mapped[Moment]  # it rests until then: what ended the one before may not be over
    awaits: Mapped[list[str] | None] = mapped_column(ARRAY(Text))  # handlers that some worker must have first
    lease_until: Mapped[Moment]
    dispatch_tries: Mapped[int] = mapped_column(server_default="0")
    flow_run_id: Mapped[UUID | None]
    run_count: Mapped[int | None]
    heartbeat_at: Mapped[Moment]
    news: Mapped[int] = mapped_column(server_default="0")  # how often child runs began, or left their outcome
    problem: Mapped[Json | None]
    created_at: Mapped[CreatedAt]
    sent_at: Mapped[Moment]
    started_at: Mapped[Moment]
    finished_at: Mapped[Moment]
    disposed_at: Mapped[Moment]  # when its flow run was seen to be over, once the attempt was


class AttemptFlowRun(Base):
    """Every Prefect flow run that worked for an attempt: the parent, its segments, and sub-workflows inside of these.

    The parent has no segment and no nodes, a sub-workflow's has the node that runs it and no segment.
    """

    __tablename__ = "attempt_flow_runs"
    __table_args__ = (
        ForeignKeyConstraint(["run_id", "number"], [Attempt.run_id, Attempt.number]),
        Index("ix_attempt_flow_runs_attempt", "run_id", "number"),
    )

    flow_run_id: Mapped[UUID] = mapped_column(primary_key=True)
    run_id: Mapped[UUID]
    number: Mapped[int]
    segment: Mapped[int | None]
    pool: Mapped[str | None]
    image: Mapped[str | None]
    job_template: Mapped[str | None]
    nodes: Mapped[list[str] | None] = mapped_column(ARRAY(Text))  # of the run, that a part of it works for
    registered_at: Mapped[CreatedAt]


class RunNode(Base):
    """The newest state of one node of a run. Children of a fan-out are counted here, kept elsewhere."""

    __tablename__ = "run_nodes"

    run_id: Mapped[UUID] = mapped_column(ForeignKey(Run.run_id), primary_key=True)
    node_id: Mapped[str] = mapped_column(primary_key=True)
    position: Mapped[int]
    type: Mapped[str]
    handler: Mapped[str | None]
    pool: Mapped[str | None]
    state: Mapped[str] = mapped_column(server_default="pending")
    tries: Mapped[int] = mapped_column(server_default="0")
    fraction: Mapped[float | None] = mapped_column(DOUBLE_PRECISION)
    message: Mapped[str | None]
    needs: Mapped[Json | None]  # of a host, where it was sent to a pool
    items_total: Mapped[int | None]
    items_done: Mapped[int | None]
    items_failed: Mapped[int | None]
    items_retried: Mapped[int | None]  # tries of items that followed failed ones, of this attempt
    problem: Mapped[Json | None]
    parameters: Mapped[Json | None]  # as its handler was given them, without secrets, unless they are long
    started_at: Mapped[Moment]
    finished_at: Mapped[Moment]
    updated_at: Mapped[Moment]
    losses: Mapped[int] = mapped_column(server_default="0")  # attempts in a row that vanished while it was at work
    lost_at: Mapped[int] = mapped_column(server_default="0")  # how many items were done when the last of them did


class ArtifactRow(Base):
    """A file that a committed run left behind."""

    __tablename__ = "artifacts"
    __table_args__ = (
        Index("ix_artifacts_version", "asset_id", "ordinal", "revision"),
        Index("ix_artifacts_run_id", "run_id"),
        Index("ix_artifacts_stac_items", "asset_id", postgresql_where=text("role = 'stac_items'")),
    )

    artifact_id: Mapped[int] = mapped_column(BigInteger, Identity(always=True), primary_key=True)
    run_id: Mapped[UUID] = mapped_column(ForeignKey(Run.run_id))
    asset_id: Mapped[str | None]
    ordinal: Mapped[int | None]
    revision: Mapped[int | None]
    role: Mapped[str]
    zone: Mapped[str]
    name: Mapped[str]
    media_type: Mapped[str]
    sha256: Mapped[str]
    size_bytes: Mapped[int] = mapped_column(BigInteger)
    bbox: Mapped[list[float] | None] = mapped_column(ARRAY(DOUBLE_PRECISION))
    external_blob_path: Mapped[str | None]  # of its copy, from the export's commit until it is withdrawn
    adf_run_id: Mapped[str | None]
    created_at: Mapped[CreatedAt]
