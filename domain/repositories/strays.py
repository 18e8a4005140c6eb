"""The rows that own files of zones: of which request they are, and whether what it left over is gone."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final
from uuid import UUID

from sqlalchemy import TextClause, text
from sqlalchemy.ext.asyncio import AsyncSession

from domain.rules.strays import Owner, OwnerKind

SAID = "request_id, q.collected_at is not null as is_collected"
OWNED: Final[Mapping[OwnerKind, TextClause]] = MappingProxyType(
    {
        OwnerKind.REVISION: text(f"""
            select named.key, q.{SAID} from (
                select key, split_part(key, '/', 1) as asset_id, split_part(key, '-r', 2) as revision,
                       split_part(split_part(key, '/', 2), '-r', 1) as ordinal
                from unnest(cast(:keys as text[])) key
            ) named
            join app.requests q on q.asset_id = named.asset_id and q.ordinal = named.ordinal::int
                               and q.revision = named.revision::int
        """),  # noqa: S608 - our own words
        OwnerKind.RUN: text(f"""
            select r.run_id::text as key, q.{SAID} from app.runs r join app.requests q using (request_id)
            where r.run_id = any(cast(:keys as uuid[]))
        """),  # noqa: S608 - our own words
        OwnerKind.EXPORT: text(f"""
            select e.destination as key, q.{SAID} from app.exports e join app.requests q using (request_id)
            where e.destination = any(:keys) and (e.asset_id, e.ordinal) in (
                select split_part(key, '/', 1), split_part(split_part(key, '/', 2), '-r', 1)::int
                from unnest(cast(:keys as text[])) key
            )
        """),  # noqa: S608 - our own words
    }
)
AGAIN = text("update app.requests set collected_at = null where request_id = :request_id")


@dataclass(frozen=True)
class Owned:
    """What an owner's row says."""

    request_id: UUID
    is_collected: bool


@dataclass(frozen=True)
class Owners:
    session: AsyncSession

    async def of(self, owners: Collection[Owner]) -> dict[Owner, Owned]:
        """Those of these that have a row."""
        found: dict[Owner, Owned] = {}
        for kind, query in OWNED.items():
            if keys := [each.key for each in owners if each.kind is kind]:
                for row in await self.session.execute(query, {"keys": keys}):
                    found[Owner(kind, row.key)] = Owned(row.request_id, row.is_collected)
        return found

    async def look_again(self, request_id: UUID) -> None:
        """Put the request before the collector once more."""
        await self.session.execute(AGAIN, {"request_id": request_id})
