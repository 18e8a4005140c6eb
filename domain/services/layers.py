"""Brings the catalogue to what is stored about an asset: its served revisions and its published words."""

import json
from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncSession

from domain.errors import NotFound, NotPublishable
from domain.models import Asset, Platform
from domain.repositories.assets import Assets
from domain.repositories.catalogue import Catalogue
from domain.repositories.layers import Layers
from domain.rules import publication
from domain.rules.layers import described_collection, described_item
from domain.services.reviews import item_id
from flows.storage import Zones


@dataclass(frozen=True)
class LayerDesk:
    session: AsyncSession
    zones: Zones
    public_url: str

    async def publish(self, asset_id: str, who: str) -> bool:
        """Show the kept words in the catalogue."""
        asset = await self.asset(asset_id)
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
        if not await self.rebuild(asset):
            raise NotPublishable(f"Asset {asset_id} has nothing in the catalogue: no approved version is served.")
        return True

    async def unpublish(self, asset_id: str) -> bool:
        """Show the catalogue's own words again."""
        asset = await self.asset(asset_id)
        row = await Layers(self.session).published(asset_id)
        if row is None:
            return False
        await self.session.delete(row)
        await self.session.flush()
        await self.rebuild(asset)
        return True

    async def rebuild(self, asset: Asset) -> int:
        """Write the asset's items anew from what is stored, and take out what is not served; returns how many stay."""
        layers, catalogue = Layers(self.session), Catalogue(self.session)
        row = await layers.published(asset.asset_id)
        words = row.content if row else None
        platform = await self.session.get(Platform, asset.platform_id)
        name = platform.display_name if platform else asset.platform_id
        kept = []
        for ordinal, revision, staged_name in await layers.served(asset.asset_id):
            staged = json.loads(self.zones.silver.read_bytes(staged_name))
            item = publication.public_item(staged, self.public_url, asset.asset_id, ordinal)
            collection = publication.collection(asset.asset_id, asset.refs, name, staged.get("bbox"))
            await catalogue.publish(described_collection(collection, words), described_item(item, words))
            kept.append(item_id(asset.asset_id, ordinal, revision))
        await layers.withdraw_others(asset.asset_id, kept)
        return len(kept)

    async def asset(self, asset_id: str) -> Asset:
        """The asset, locked: decisions and commands about one asset take turns."""
        asset = await Assets(self.session).lock(asset_id)
        if asset is None:
            raise NotFound(f"There is no asset {asset_id}.")
        return asset
