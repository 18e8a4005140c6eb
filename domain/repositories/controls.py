"""Pauses and limits, and the counts that limits are about."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from domain.models import Request, Setting
from domain.rules.control import Kind, scopes_of
from domain.rules.lifecycle import RequestState


@dataclass(frozen=True)
class Controls:
    session: AsyncSession

    async def put(self, kind: Kind, name: str, value: Any, actor: str) -> None:
        new = insert(Setting).values(kind=kind, name=name, value=value, updated_by=actor)
        changes = {"value": value, "updated_by": actor, "updated_at": func.now()}
        await self.session.execute(new.on_conflict_do_update(index_elements=["kind", "name"], set_=changes))

    async def remove(self, kind: Kind, name: str) -> bool:
        """Take the setting away. False where there was none."""
        gone = delete(Setting).where(Setting.kind == kind, Setting.name == name).returning(Setting.name)
        return (await self.session.execute(gone)).first() is not None

    async def all(self) -> Sequence[Setting]:
        return (await self.session.scalars(select(Setting).order_by(Setting.kind, Setting.name))).all()

    async def paused(self, workflow_id: str, platform_id: str | None) -> str | None:
        """The name of a pause that holds such a run, if there is one."""
        names = scopes_of(workflow_id, platform_id)
        query = select(Setting.name).where(Setting.kind == "pause", Setting.name.in_(names)).limit(1)
        return await self.session.scalar(query)

    async def limit(self, kind: Kind, name: str) -> int | None:
        value = await self.session.scalar(select(Setting.value).where(Setting.kind == kind, Setting.name == name))
        return None if value is None else int(value)

    async def open_requests(self, platform_id: str, up_to: int) -> int:
        """How many requests of the platform are open, counted no further than needed."""
        states = (RequestState.PENDING, RequestState.PROCESSING)
        found = select(Request.request_id).where(Request.platform_id == platform_id, Request.status.in_(states))
        return await self.session.scalar(select(func.count()).select_from(found.limit(up_to).subquery())) or 0
