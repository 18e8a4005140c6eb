"""What was ever published of workflows, and how processes tell each other of more."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy import RowMapping, func, select, tuple_, update
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from domain.models import WorkflowDefinition

WORKFLOW_CHANNEL: Final = "cairn_workflows"


@dataclass(frozen=True)
class Published:
    session: AsyncSession

    async def all(self) -> Sequence[RowMapping]:
        """Every definition without its content, by workflow, the newest of each first."""
        kept = WorkflowDefinition
        query = select(kept.workflow_id, kept.version, kept.digest, kept.published_at)
        return (await self.session.execute(query.order_by(kept.workflow_id, kept.published_at.desc()))).mappings().all()

    async def newest(self) -> datetime | None:
        """When a version was last taken up: published, or run again after a later one."""
        return await self.session.scalar(select(func.max(WorkflowDefinition.taken_up_at)))

    async def take_up(self, versions: Mapping[str, str]) -> None:
        """Note of each workflow's version that it runs from now on, where a later one did."""
        other = aliased(WorkflowDefinition)
        later = (
            other.workflow_id == WorkflowDefinition.workflow_id,
            other.taken_up_at > WorkflowDefinition.taken_up_at,
        )
        ours = tuple_(WorkflowDefinition.workflow_id, WorkflowDefinition.version).in_(sorted(versions.items()))
        stale = update(WorkflowDefinition).where(ours, select(other.version).where(*later).exists())
        await self.session.execute(stale.values(taken_up_at=func.clock_timestamp()))

    async def tell(self, teller: str) -> None:
        """Have every other process look at its folder again, once this is committed. Rare enough for a transaction."""
        await self.session.execute(select(func.pg_notify(WORKFLOW_CHANNEL, teller)))
