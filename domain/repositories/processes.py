"""The offered processes: written at a service's start, read by the gateway through its view."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import delete
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from domain.contracts.offers import Offer
from domain.models import Process


@dataclass(frozen=True)
class Processes:
    session: AsyncSession

    async def replace(self, offers: Sequence[Offer]) -> None:
        """Offer these and no others. In the order of their ids: services that start together must not deadlock."""
        offered = sorted(offer.process_id for offer in offers)
        if offered:
            rows = sorted((vars(offer) for offer in offers), key=lambda row: str(row["process_id"]))
            new = insert(Process).values(rows)
            changes = {name: new.excluded[name] for name in rows[0] if name != "process_id"}
            await self.session.execute(new.on_conflict_do_update(index_elements=["process_id"], set_=changes))
        await self.session.execute(delete(Process).where(Process.process_id.not_in(offered)))
