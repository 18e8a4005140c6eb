"""What the tries of runs have measured: one row for each run and name."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from sqlalchemy import RowMapping, func, select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from domain.models import Run, RunMetric

# Runs that were made in the window, with all that they have measured since.
MEASURED: Final = text("""
    select m.name, r.workflow_id, q.platform_id, sum(m.value) as total, count(distinct m.run_id) as runs
    from app.runs r join app.requests q using (request_id) join app.run_metrics m using (run_id)
    where r.created_at > now() - make_interval(secs => :window)
    group by m.name, r.workflow_id, q.platform_id order by m.name, r.workflow_id, q.platform_id
""")


@dataclass(frozen=True)
class RunMetrics:
    session: AsyncSession

    async def put(self, run: Run, metrics: Mapping[str, float] | None) -> None:
        """Keep the sums. They are of all tries so far: told again, or by a later attempt, they replace these."""
        if not metrics:
            return
        place = {"run_id": run.run_id, "memory": run.memory}
        rows = insert(RunMetric).values([{**place, "name": name, "value": metrics[name]} for name in sorted(metrics)])
        keys = ["run_id", "memory", "name"]
        await self.session.execute(rows.on_conflict_do_update(index_elements=keys, set_={"value": rows.excluded.value}))

    async def of_run(self, run_id: UUID) -> dict[str, float]:
        """The run's sums, over all generations of what it remembers."""
        total = func.sum(RunMetric.value)
        query = select(RunMetric.name, total).where(RunMetric.run_id == run_id).group_by(RunMetric.name)
        return {row[0]: row[1] for row in await self.session.execute(query.order_by(RunMetric.name))}

    async def in_window(self, seconds: float) -> Sequence[RowMapping]:
        """The sums by name, workflow and platform."""
        return (await self.session.execute(MEASURED, {"window": seconds})).mappings().all()
