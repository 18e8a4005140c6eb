"""Puts revisions into the catalogue and takes them out. Who may see an item, serving asks for each reader."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from sqlalchemy.ext.asyncio import AsyncSession

from domain.adapters.catalog import BaseItem, Rows, rows
from domain.contracts.artifacts import STAGED_ITEMS, STAGED_WORDS
from domain.errors import NotPublishable
from domain.models import Asset, Platform
from domain.repositories.assets import Assets
from domain.repositories.catalogue import Catalogue
from domain.repositories.layers import Layers
from domain.rules import publication
from domain.rules.layers import described_collection, described_item
from domain.rules.publication import Holdings, item_id
from domain.services.reading import content
from flows.storage import Zones
from flows.storage.threads import in_storage_thread

Words = dict[str, Any] | None
Place = tuple[str, int, int]  # asset, ordinal, revision


@dataclass(frozen=True)
class Shelf:
    """A change of what is served puts revisions and takes them out, and at its end describes the collection anew."""

    session: AsyncSession
    zones: Zones
    public_url: str

    async def put(self, asset: Asset, ordinal: int, revision: int) -> bool:
        """Show the revision, in the words that are published about its layer. False where it has no staged items.

        Its rows are made in a thread and before the catalogue locks anything: there may be thousands.
        """
        found = await Assets(self.session).artifacts(asset.asset_id, ordinal, revision, STAGED_ITEMS)
        if not found:  # not every workflow makes something to catalogue
            return False
        staged = {artifact.name: artifact.sha256 for artifact in found}
        catalogue, words = Catalogue(self.session), await self._words(asset)
        base = await catalogue.begin(await self._collection(asset, Holdings(), words))
        place = (asset.asset_id, ordinal, revision)
        made = await in_storage_thread(self._rows, staged, place, words, base)
        await catalogue.put(item_id(*place), asset.asset_id, made)
        return True

    async def take_out(self, asset: Asset, ordinal: int, revision: int) -> None:
        await Catalogue(self.session).withdraw(item_id(asset.asset_id, ordinal, revision), asset.asset_id)

    async def describe(self, asset: Asset) -> None:
        """Bring what the collection says of itself to what it holds."""
        catalogue = Catalogue(self.session)
        held = await catalogue.holdings(asset.asset_id)
        await catalogue.describe(await self._collection(asset, held, await self._words(asset)))

    def _rows(self, staged: Mapping[str, str], place: Place, words: Words, base: BaseItem) -> Rows:
        whole, ordinal = item_id(*place), place[1]
        items = (item for name, sha256 in staged.items() for item in self._staged(name, sha256, place))
        public = (publication.public_item(item, self.public_url, whole, ordinal) for item in items)
        return rows((described_item(item, words) for item in public), base)

    def _staged(self, name: str, sha256: str, place: Place) -> Iterator[dict[str, Any]]:
        """The items of a staged file: one, or one a line. It must be the file that the run handed in, about itself."""
        read = content(self.zones.silver, name)
        if hashlib.sha256(read).hexdigest() != sha256:
            raise _not_its_own(place)
        for item in map(orjson.loads, read.splitlines() if name.endswith(".ndjson") else [read]):
            if not publication.is_own(item, *place):
                raise _not_its_own(place)
            yield item

    async def _collection(self, asset: Asset, held: Holdings, words: Words) -> dict[str, Any]:
        platform = await self.session.get(Platform, asset.platform_id)
        name = platform.display_name if platform else asset.platform_id
        made = publication.collection(asset.asset_id, asset.refs, name, held, await self._called(asset.asset_id))
        return described_collection(made, words)

    async def _called(self, asset_id: str) -> dict[str, str] | None:
        """What the newest served revision's workflow called the collection."""
        for ordinal, revision in reversed(await Layers(self.session).served(asset_id)):
            found = await Assets(self.session).artifacts(asset_id, ordinal, revision, (STAGED_WORDS,))
            if found:
                text = await in_storage_thread(content, self.zones.silver, found[0].name)
                said: dict[str, str] = json.loads(text)
                return said
        return None

    async def _words(self, asset: Asset) -> Words:
        published = await Layers(self.session).published(asset.asset_id)
        return published.content if published else None


def _not_its_own(place: Place) -> NotPublishable:
    return NotPublishable(
        f"What version {place[1]} of asset {place[0]} has staged for the catalogue is not what its run handed in, or "
        "describes files of others. Look into its run, then have it submitted again."
    )
