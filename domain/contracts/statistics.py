"""How the platform does, over a window that ends now."""

from datetime import datetime

from pydantic import BaseModel, Field


class Spread(BaseModel):
    """Seconds: how many, the middle, and the slow end."""

    count: int
    p50_seconds: float | None
    p95_seconds: float | None
    max_seconds: float | None


class Totals(BaseModel):
    received: int
    completed: int
    failed: int
    cancelled: int
    open: int
    failure_rate: float | None
    completed_per_hour: float


class MetricSum(BaseModel):
    """What tries have measured under one name: over how many runs that measured it, and what each of them cost."""

    total: float
    runs: int
    cost_per_run: float


class PlatformStatistics(Totals):
    platform_id: str | None
    duration: Spread
    metrics: dict[str, MetricSum]


class WorkflowStatistics(BaseModel):
    workflow_id: str
    runs: int
    completed: int
    failed: int
    cancelled: int
    failure_rate: float | None
    repeated_attempts: int
    repeated_tries: int
    duration: Spread
    sla_seconds: float | None
    sla_breaches: int
    metrics: dict[str, MetricSum]


class RetryStorm(BaseModel):
    """Five minutes in which a workflow's runs, or the work in them, were tried again unusually often."""

    workflow_id: str
    at: datetime
    repeated_attempts: int
    repeated_tries: int


class RetryCell(BaseModel):
    """How often a node was tried again in a span of time; of a fan-out, how often its items were."""

    workflow_id: str
    node_id: str
    at: datetime
    retries: int


class RetryHeatmap(BaseModel):
    """When tries followed failed ones. Of very many cells those with the most."""

    cell_seconds: float
    cells: list[RetryCell]


class Downtime(BaseModel):
    """A stretch in which work waited and none of it was started."""

    since: datetime
    until: datetime
    seconds: float


class QueueAge(BaseModel):
    """What waits to be sent, now."""

    priority: str
    age: Spread


class PoolStatistics(BaseModel):
    """A pool now: who serves it, what waits to begin there, which runs nobody comes for, how Prefect holds it."""

    pool: str
    workers: int
    waiting: int
    unroutable: int
    held: list[str] = Field(default=[], description="What is paused of it in Prefect, or has a limit of 0 there")


class Statistics(BaseModel):
    window_seconds: float
    until: datetime
    totals: Totals
    platforms: list[PlatformStatistics]
    workflows: list[WorkflowStatistics]
    attempts: dict[int, int]
    retries: RetryHeatmap
    retry_storms: list[RetryStorm]
    downtimes: list[Downtime]
    queues: list[QueueAge]
    pools: list[PoolStatistics]
    time_to_approval: Spread
    sla_breaches: int
    metrics: dict[str, MetricSum]
