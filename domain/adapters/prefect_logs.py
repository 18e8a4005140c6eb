"""The last lines that flow runs logged, as Prefect keeps them. People read them; nothing depends on them."""

from collections.abc import Sequence
from uuid import UUID

from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import (
    LogFilter,
    LogFilterFlowRunId,
    TaskRunFilter,
    TaskRunFilterId,
)
from prefect.client.schemas.sorting import LogSort

from domain.contracts.records import LogLine

LONGEST_LINE = 300


async def last_lines(flow_run_ids: Sequence[UUID], limit: int) -> list[LogLine]:
    """Return the last log lines, at most this many, oldest first, each with the task that logged it."""
    async with get_client(sync_client=False) as prefect:
        wanted = LogFilter(flow_run_id=LogFilterFlowRunId(any_=list(flow_run_ids)))
        logs = await prefect.read_logs(wanted, limit=limit, sort=LogSort.TIMESTAMP_DESC)
        ids = {log.task_run_id for log in logs if log.task_run_id}
        named = TaskRunFilter(id=TaskRunFilterId(any_=sorted(ids)))
        tasks = await prefect.read_task_runs(task_run_filter=named, limit=limit) if ids else []
    names = {task.id: task.name for task in tasks}
    return [
        LogLine(
            at=log.timestamp,
            level=log.level,
            flow_run_id=log.flow_run_id,
            task=names.get(log.task_run_id) if log.task_run_id else None,
            text=log.message[:LONGEST_LINE],
        )
        for log in reversed(logs)
    ]
