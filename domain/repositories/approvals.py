"""Approvals as rows, and the revisions whose approvals have come to their end."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select, tuple_, update
from sqlalchemy.ext.asyncio import AsyncSession

from domain.models import AssetVersion, GivenApproval, Revision


@dataclass(frozen=True)
class Approvals:
    session: AsyncSession

    async def now(self) -> datetime:
        """The database's clock, by which approvals end."""
        moment: datetime = (await self.session.execute(select(func.clock_timestamp()))).scalar_one()
        return moment

    def add(self, approval: GivenApproval) -> None:
        self.session.add(approval)

    async def given(self, *revisions: Revision) -> Sequence[GivenApproval]:
        """Those of these revisions that were not withdrawn, oldest first."""
        wanted = [(each.asset_id, each.ordinal, each.revision) for each in revisions]
        place = tuple_(GivenApproval.asset_id, GivenApproval.ordinal, GivenApproval.revision)
        query = select(GivenApproval).where(place.in_(wanted), GivenApproval.withdrawn_at.is_(None))
        return (await self.session.scalars(query.order_by(GivenApproval.approval_id))).all()

    async def of_version(self, asset_id: str, ordinal: int) -> Sequence[GivenApproval]:
        """All that were ever given, oldest first."""
        query = select(GivenApproval).where(GivenApproval.asset_id == asset_id, GivenApproval.ordinal == ordinal)
        return (await self.session.scalars(query.order_by(GivenApproval.approval_id))).all()

    async def withdraw(self, revision: Revision, reason: str | None, reviewer: str | None = None) -> int:
        """Take back all that hold, or one reviewer's; returns how many did."""
        statement = (
            update(GivenApproval)
            .where(
                GivenApproval.asset_id == revision.asset_id,
                GivenApproval.ordinal == revision.ordinal,
                GivenApproval.revision == revision.revision,
                GivenApproval.withdrawn_at.is_(None),
                *([GivenApproval.reviewer == reviewer] if reviewer is not None else []),
            )
            .values(withdrawn_at=func.clock_timestamp(), withdrawn_reason=reason)
            .returning(GivenApproval.approval_id)
        )
        return len((await self.session.scalars(statement)).all())

    async def ended(self, limit: int) -> Sequence[tuple[str, int, int]]:
        """Asset, ordinal and number of served revisions whose approvals no longer suffice."""
        query = (
            select(Revision.asset_id, Revision.ordinal, Revision.revision)
            .join(
                AssetVersion,
                (AssetVersion.asset_id == Revision.asset_id)
                & (AssetVersion.ordinal == Revision.ordinal)
                & (AssetVersion.served_revision == Revision.revision),
            )
            .where(Revision.approved_until <= func.statement_timestamp())  # a clock that indexes can be asked by
            .order_by(func.random())  # however many cannot be ended, the others have their turn
            .limit(limit)
        )
        return [(row[0], row[1], row[2]) for row in await self.session.execute(query)]
