"""Requests and their trail of events."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from domain.after_commit import after_commit
from domain.models import Event, Request, Run
from domain.models.base import FRESH


@dataclass(frozen=True)
class Requests:
    session: AsyncSession

    async def get(self, request_id: UUID, *, lock: bool = False) -> Request | None:
        if not lock:
            return await self.session.get(Request, request_id)
        # Not against keys: who has noted an event of it shares its key, and two of them would wait for each other.
        query = select(Request).where(Request.request_id == request_id).with_for_update(key_share=True)
        return await self.session.scalar(query.execution_options(**FRESH))

    async def of_run(self, run_id: UUID) -> Request | None:
        """The request that the run belongs to, locked as `get` does."""
        query = select(Request).join(Run, Run.request_id == Request.request_id).where(Run.run_id == run_id)
        return await self.session.scalar(query.with_for_update(key_share=True, of=Request).execution_options(**FRESH))

    async def of_version(self, asset_id: str, ordinal: int, revision: int) -> Request:
        query = select(Request).where(
            Request.asset_id == asset_id, Request.ordinal == ordinal, Request.revision == revision
        )
        return (await self.session.scalars(query)).one()

    def tell_changed(self, request_id: UUID) -> None:
        """Have who waits for the request look once this has committed."""
        after_commit(self.session).changed.add(request_id)

    def add_event(
        self, request_id: UUID, kind: str, *, run_id: UUID | None = None, actor: str | None = None, **details: Any
    ) -> None:
        """Append to the request's trail. The trail is never changed."""
        self.session.add(Event(request_id=request_id, run_id=run_id, kind=kind, actor=actor, details=details))
