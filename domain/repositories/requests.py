"""Requests and their trail of events."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import func, or_, select
from sqlalchemy.ext.asyncio import AsyncSession

from domain.models import Event, Request
from domain.models.base import FRESH
from domain.rules.lifecycle import RequestState


@dataclass(frozen=True)
class Seen:
    """What recognising a submission takes."""

    request_id: UUID
    fingerprint: str
    status: RequestState


@dataclass(frozen=True)
class Requests:
    session: AsyncSession

    async def get(self, request_id: UUID, *, lock: bool = False) -> Request | None:
        if not lock:
            return await self.session.get(Request, request_id)
        query = select(Request).where(Request.request_id == request_id).with_for_update()
        return await self.session.scalar(query.execution_options(**FRESH))

    async def take_key(self, platform_id: str, key: str) -> None:
        """Have submissions with one key take turns: those about different assets share no other lock."""
        # The platform's id has no space in it, so no two platforms' keys are the same words.
        await self.session.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(f"{platform_id} {key}", 0))))

    async def seen(self, request_id: UUID, platform_id: str, key: str | None) -> Seen | None:
        """The request of this id, else the platform's request of this key."""
        same_key = (Request.platform_id == platform_id) & (Request.idempotency_key == key)
        same_id = Request.request_id == request_id
        query = select(Request.request_id, Request.fingerprint, Request.status)
        query = query.where(same_id if key is None else or_(same_id, same_key)).order_by(same_id.desc()).limit(1)
        row = (await self.session.execute(query)).first()
        return None if row is None else Seen(*row)

    async def of_version(self, asset_id: str, ordinal: int, revision: int) -> Request:
        query = select(Request).where(
            Request.asset_id == asset_id, Request.ordinal == ordinal, Request.revision == revision
        )
        return (await self.session.scalars(query)).one()

    def add_event(
        self, request_id: UUID, kind: str, *, run_id: UUID | None = None, actor: str | None = None, **details: Any
    ) -> None:
        """Append to the request's trail. The trail is never changed."""
        self.session.add(Event(request_id=request_id, run_id=run_id, kind=kind, actor=actor, details=details))
