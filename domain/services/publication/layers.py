"""Brings the catalogue to what is stored about an asset: its served revisions and its published words."""

from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncSession

from domain.after_commit import after_commit
from domain.errors import NotPublishable
from domain.failpoints import hit
from domain.models import Asset
from domain.repositories.assets import Assets
from domain.repositories.layers import Layers
from domain.rules.publication import item_id
from domain.services.lookups import locked_asset
from domain.services.publication.catalogue import ServedCatalogue


@dataclass(frozen=True)
class LayerDesk:
    session: AsyncSession
    catalogue: ServedCatalogue

    async def publish(self, asset_id: str, who: str) -> bool:
        """Show the kept words in the catalogue."""
        after_commit(self.session).failpoint = "publish"
        asset = await locked_asset(self.session, asset_id)
        layers = Layers(self.session)
        words = await layers.kept(asset_id)
        if words is None:
            raise NotPublishable(f"There is no metadata of asset {asset_id} yet. Send it with the command.")
        row = await layers.published(asset_id)
        if row is not None and row.content == words:
            return False
        if row is None:
            layers.add_published(asset_id, words, who)
        else:
            row.content, row.published_by = words, who
        await self.session.flush()
        hit("publish.written")
        if not await self.rebuild(asset):
            raise NotPublishable(f"Asset {asset_id} has nothing in the catalogue: no approved version is served.")
        return True

    async def unpublish(self, asset_id: str) -> bool:
        """Show the catalogue's own words again."""
        asset = await locked_asset(self.session, asset_id)
        row = await Layers(self.session).published(asset_id)
        if row is None:
            return False
        await self.session.delete(row)
        await self.session.flush()
        await self.rebuild(asset)
        return True

    async def enter(self, asset_id: str, who: str) -> None:
        """Publish the kept words with the first served version; later versions change nothing about them."""
        layers = Layers(self.session)
        words = await layers.kept(asset_id) if len(await Assets(self.session).served(asset_id)) == 1 else None
        if words is not None and await layers.published(asset_id) is None:
            layers.add_published(asset_id, words, who)
            await self.session.flush()

    async def leave(self, asset_id: str) -> None:
        """Unpublish the words with the last served version; they are kept for the next one."""
        row = None if await Assets(self.session).served(asset_id) else await Layers(self.session).published(asset_id)
        if row is not None:
            await self.session.delete(row)
            await self.session.flush()

    async def rebuild(self, asset: Asset) -> int:
        """Write the asset's items anew from what is stored, and take out what is not served; returns how many stay."""
        kept = []
        for ordinal, revision in (await Assets(self.session).served(asset.asset_id)).items():
            if await self.catalogue.put(asset, ordinal, revision):
                kept.append(item_id(asset.asset_id, ordinal, revision))
        await Layers(self.session).withdraw_others(asset.asset_id, kept)
        await self.catalogue.describe(asset)
        return len(kept)
