"""Layers: words about them, what is published of them, and what the catalogue holds of an asset."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import and_, func, select, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from domain.contracts.news import CACHE_CHANNEL
from domain.models import Asset, LayerCatalog, LayerMetadata
from domain.repositories.assets import is_public, partners_only


@dataclass(frozen=True)
class Layers:
    session: AsyncSession

    async def keep(self, asset_id: str, content: dict[str, Any], who: str) -> None:
        """Keep the words that people have about this layer now."""
        row = insert(LayerMetadata).values(asset_id=asset_id, content=content, updated_by=who)
        changed = {"content": content, "updated_by": who, "updated_at": func.now()}
        await self.session.execute(row.on_conflict_do_update(index_elements=["asset_id"], set_=changed))

    async def kept(self, asset_id: str) -> dict[str, Any] | None:
        return await self.session.scalar(select(LayerMetadata.content).where(LayerMetadata.asset_id == asset_id))

    async def published(self, asset_id: str) -> LayerCatalog | None:
        return await self.session.get(LayerCatalog, asset_id)

    def add_published(self, asset_id: str, content: dict[str, Any], who: str) -> None:
        self.session.add(LayerCatalog(asset_id=asset_id, content=content, published_by=who))

    async def recall_external(self, standing: Sequence[str]) -> Sequence[str]:
        """Which of these assets, whose words stand outside, everybody may not read, or has no words published outside.

        They go out again by command only, also where the asset becomes public once more.
        """
        may_stand = and_(is_public(), LayerCatalog.external_at.is_not(None))
        query = select(Asset.asset_id).outerjoin(LayerCatalog, LayerCatalog.asset_id == Asset.asset_id)
        recalled = (await self.session.scalars(query.where(Asset.asset_id.in_(standing), ~may_stand))).all()
        noted = update(LayerCatalog).where(LayerCatalog.asset_id.in_(recalled), LayerCatalog.external_at.is_not(None))
        await self.session.execute(noted.values(external_at=None))
        return recalled

    async def assets(self, after: str | None, limit: int) -> Sequence[str]:
        """Those that may have something in the catalogue."""
        query = select(Asset.asset_id).where(Asset.deleted_at.is_(None), partners_only(Asset.platform_id))
        query = query.order_by(Asset.asset_id).limit(limit)
        return (await self.session.scalars(query.where(Asset.asset_id > after) if after else query)).all()

    async def withdraw_others(self, asset_id: str, item_ids: Sequence[str]) -> int:
        """Take out of the catalogue whatever of this asset is neither among these items nor a part of one.

        Returns how many were.
        """
        statement = text(
            "delete from pgstac.items where collection = :asset and not exists (select from"
            " unnest(cast(:keep as text[])) kept where id = kept or starts_with(id, kept || '-')) returning 1"
        )
        gone = await self.session.execute(statement, {"asset": asset_id, "keep": list(item_ids)})
        return len(gone.all())

    async def invalidate(self, cache: str) -> None:
        """Tell every process that listens to forget what it remembers; heard when this commits."""
        await self.session.execute(
            text("select pg_notify(:channel, :cache)"), {"channel": CACHE_CHANNEL, "cache": cache}
        )
