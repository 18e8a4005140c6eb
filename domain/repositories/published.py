"""What was ever published of workflows, and how processes tell each other of more."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy import RowMapping, func, select
from sqlalchemy.ext.asyncio import AsyncSession

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
        """When something was last published."""
        return await self.session.scalar(select(func.max(WorkflowDefinition.published_at)))

    async def tell(self, teller: str) -> None:
        """Have every other process look at its folder again, once this is committed. Rare enough for a transaction."""
        await self.session.execute(select(func.pg_notify(WORKFLOW_CHANNEL, teller)))
