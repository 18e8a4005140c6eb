"""Pauses and limits, and the counts that limits are about."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, func, select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from domain.models import Request, Setting
from domain.rules.control import EVERYTHING, Kind, scope_name
from domain.rules.lifecycle import OPEN_REQUESTS

OF_WORKFLOW, OF_PLATFORM = scope_name(workflow_id=""), scope_name(platform_id="")


def pauses_of(workflow_id: str, platform_id: str) -> str:
    """A query for the names of the pauses that hold a run of this workflow and platform: two expressions of SQL."""
    return f"""
        select name from app.settings where kind = 'pause' and name in (
            '{EVERYTHING}', '{OF_WORKFLOW}' || {workflow_id}, '{OF_PLATFORM}' || nullif({platform_id}, '')
        )"""  # noqa: S608 - our own words


def is_held(workflow_id: str, platform_id: str) -> str:
    """The rule `rules.control.is_held` as a condition on two expressions of SQL, as they are called outside of it."""
    return f"exists ({pauses_of(workflow_id, platform_id)})"


def no_room_of(pool: str, work_pool: str, workflow_id: str, platform_id: str) -> str:
    """A query for the names of limits of 0 in flight that hold such a run: four expressions of SQL."""
    of_pool = scope_name(pool="")
    return f"""
        select name from app.settings where kind = 'in_flight' and value = '0'::jsonb and name in (
            '{of_pool}' || {pool}, '{of_pool}' || {work_pool}, '{OF_WORKFLOW}' || {workflow_id},
            '{OF_PLATFORM}' || nullif({platform_id}, '')
        )"""  # noqa: S608 - our own words


OF_DISPATCH = text("select kind, name, value from app.settings where kind in ('pause', 'in_flight')")
PAUSES_OF_ONE = text(f"{pauses_of('cast(:workflow_id as text)', 'cast(:platform_id as text)')} limit 1")


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
        values = {"workflow_id": workflow_id, "platform_id": platform_id}
        name: str | None = await self.session.scalar(PAUSES_OF_ONE, values)
        return name

    async def of_dispatch(self) -> tuple[frozenset[str], dict[str, int]]:
        """The names of all pauses, and the limits of what is in flight by their names."""
        rows = (await self.session.execute(OF_DISPATCH)).all()
        limits = {row.name: int(row.value) for row in rows if row.kind == "in_flight"}
        return frozenset(row.name for row in rows if row.kind == "pause"), limits

    async def limit(self, kind: Kind, name: str) -> int | None:
        value = await self.session.scalar(select(Setting.value).where(Setting.kind == kind, Setting.name == name))
        return None if value is None else int(value)

    async def open_requests(self, platform_id: str, up_to: int) -> int:
        """How many requests of the platform are open, counted no further than needed."""
        found = select(Request.request_id).where(Request.platform_id == platform_id, Request.status.in_(OPEN_REQUESTS))
        return await self.session.scalar(select(func.count()).select_from(found.limit(up_to).subquery())) or 0
