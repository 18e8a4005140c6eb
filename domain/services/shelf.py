"""Puts revisions into the catalogue and takes them out. Who may see an item, serving asks for each reader."""

import asyncio
import json
from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncSession

from domain.models import Asset, Platform
from domain.repositories.assets import Assets
from domain.repositories.catalogue import Catalogue
from domain.repositories.layers import Layers
from domain.rules import publication
from domain.rules.layers import described_collection, described_item
from flows.storage import Zones


@dataclass(frozen=True)
class Shelf:
    session: AsyncSession
    zones: Zones
    public_url: str

    async def put(self, asset: Asset, ordinal: int, revision: int) -> bool:
        """Show the revision, in the words that are published about its layer. False where it has no staged item."""
        artifact = await Assets(self.session).artifact(asset.asset_id, ordinal, revision, "stac_item")
        if artifact is None:  # not every workflow makes something to catalogue
            return False
        staged = json.loads(await asyncio.to_thread(self.zones.silver.read_bytes, artifact.name))
        platform = await self.session.get(Platform, asset.platform_id)
        name = platform.display_name if platform else asset.platform_id
        published = await Layers(self.session).published(asset.asset_id)
        words = published.content if published else None
        item = publication.public_item(staged, self.public_url, asset.asset_id, ordinal)
        collection = publication.collection(asset.asset_id, asset.refs, name, staged.get("bbox"))
        await Catalogue(self.session).publish(described_collection(collection, words), described_item(item, words))
        return True

    async def take_out(self, asset_id: str, ordinal: int, revision: int) -> None:
        await Catalogue(self.session).withdraw(publication.item_id(asset_id, ordinal, revision), asset_id)
