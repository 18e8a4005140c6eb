"""Computes the statistics of a time window."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession

from domain.contracts.statistics import (
    Downtime,
    MetricSum,
    PlatformStatistics,
    PoolStatistics,
    QueueAge,
    RetryCell,
    RetryHeatmap,
    RetryStorm,
    Spread,
    Statistics,
    Totals,
    WorkflowStatistics,
)
from domain.repositories.holds import Holds
from domain.repositories.pools import Pools
from domain.repositories.run_metrics import RunMetrics
from domain.repositories.statistics import StatisticsReader
from domain.rules.holds import in_words

COUNTED = ("received", "completed", "failed", "cancelled")


async def statistics(session: AsyncSession, window_seconds: float, silence_seconds: float) -> Statistics:
    """How the platform did in the window that ends now."""
    reader = StatisticsReader(session, window_seconds)
    platforms = await reader.platforms()
    measured = await RunMetrics(session).in_window(window_seconds)
    workflows = [_workflow(row, measured) for row in await reader.workflows()]
    return Statistics(
        window_seconds=window_seconds,
        until=datetime.now(UTC),
        totals=_totals(platforms, window_seconds),
        platforms=[
            PlatformStatistics(
                **_totals([row], window_seconds).model_dump(),
                platform_id=row["platform_id"],
                duration=_spread(row),
                metrics=_sums(measured, platform_id=row["platform_id"]),
            )
            for row in platforms
        ],
        workflows=workflows,
        attempts={row["attempts"]: row["runs"] for row in await reader.attempts()},
        retries=RetryHeatmap(
            cell_seconds=reader.cell_seconds, cells=[RetryCell(**row) for row in await reader.heatmap()]
        ),
        retry_storms=[RetryStorm(**row) for row in await reader.storms()],
        downtimes=[Downtime(**row) for row in await reader.downtimes()],
        queues=[QueueAge(priority=row["priority"], age=_spread(row)) for row in await reader.queues()],
        pools=await _pools(session, silence_seconds),
        time_to_approval=_spread(await reader.approvals()),
        sla_breaches=sum(workflow.sla_breaches for workflow in workflows),
        metrics=_sums(measured),
    )


async def _pools(session: AsyncSession, silence_seconds: float) -> list[PoolStatistics]:
    """Each pool that somebody serves, waits for or holds."""
    found = {row["pool"]: PoolStatistics(**row) for row in await Pools(session).figures(silence_seconds)}
    for place, hold in (await Holds(session).now()).items():
        pool = place.partition("/")[0]
        empty = PoolStatistics(pool=pool, workers=0, waiting=0, unroutable=0)
        known = found.get(pool, empty)
        found[pool] = known.model_copy(update={"held": [*known.held, in_words(place, hold)]})
    return [found[pool] for pool in sorted(found)]


def _totals(rows: Sequence[Mapping[Any, Any]], window_seconds: float) -> Totals:
    sums = {name: sum(row[name] for row in rows) for name in COUNTED}
    return Totals(
        **sums,
        open=sums["received"] - sums["completed"] - sums["failed"] - sums["cancelled"],
        failure_rate=_rate(sums["failed"], sums["completed"]),
        completed_per_hour=sums["completed"] * 3600 / window_seconds,
    )


def _workflow(row: Mapping[Any, Any], measured: Sequence[Mapping[Any, Any]]) -> WorkflowStatistics:
    facts = {name: value for name, value in row.items() if name in WorkflowStatistics.model_fields}
    rate, metrics = _rate(row["failed"], row["completed"]), _sums(measured, workflow_id=row["workflow_id"])
    return WorkflowStatistics(**facts, failure_rate=rate, duration=_spread(row), metrics=metrics)


def _sums(measured: Sequence[Mapping[Any, Any]], **of: str) -> dict[str, MetricSum]:
    """What was measured, of these alone. A run is of one workflow and one platform, so its row is in one sum only."""
    found: dict[str, tuple[float, int]] = {}
    for row in measured:
        if all(row[name] == wanted for name, wanted in of.items()):
            total, runs = found.get(row["name"], (0.0, 0))
            found[row["name"]] = total + row["total"], runs + row["runs"]
    return {name: MetricSum(total=total, runs=runs, cost_per_run=total / runs) for name, (total, runs) in found.items()}


def _rate(failed: int, completed: int) -> float | None:
    """Return the share of failures among runs that ended by themselves; None where none ended."""
    return failed / (failed + completed) if failed + completed else None


def _spread(row: Mapping[Any, Any]) -> Spread:
    return Spread(**{name: row[name] for name in Spread.model_fields})
