"""Puts revisions into the catalogue and takes them out. Who may see an item, serving asks for each reader."""

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from sqlalchemy.ext.asyncio import AsyncSession

from domain.adapters.catalog import BaseItem, Rows, rows
from domain.contracts.artifacts import STAGED_ITEMS, STAGED_WORDS
from domain.errors import NotPublishable
from domain.models import ArtifactRow, Asset, Platform
from domain.repositories.assets import Assets
from domain.repositories.catalogue import Catalogue
from domain.repositories.layers import Layers
from domain.rules import publication
from domain.rules.layers import described_collection, described_item
from domain.rules.publication import Holdings, item_id
from domain.services.publication.deciding import FilesRead
from domain.services.publication.file_checks import Committed

Words = dict[str, Any] | None
Place = tuple[str, int, int]  # asset, ordinal, revision
STAGED = frozenset({*STAGED_ITEMS, STAGED_WORDS})


@dataclass(frozen=True)
class ServedCatalogue:
    """Adds and removes a version's items in the catalogue, then describes the collection anew.

    It reads no file itself: it has been given what was read, or asks for what is missing by `Unread`.
    """

    session: AsyncSession
    files: FilesRead
    public_url: str

    async def require(self, asset: Asset, ordinal: int, revision: int) -> None:
        """Go on only where every file of the revision is what its run committed."""
        found = await Assets(self.session).files(asset.asset_id, ordinal, revision)
        staged = [each for each in found if each.role in STAGED]
        self.files.require([committed(each) for each in found if each not in staged], list(map(committed, staged)))
        for each in staged:
            self.files.content(committed(each))

    async def put(self, asset: Asset, ordinal: int, revision: int) -> bool:
        """Show the revision, in the words that are published about its layer. False where it has no staged items.

        Its rows are made in a thread and before the catalogue locks anything: there may be thousands.
        """
        found = await Assets(self.session).artifacts(asset.asset_id, ordinal, revision, STAGED_ITEMS)
        if not found:  # not every workflow makes something to catalogue
            return False
        staged = self._staged(found)
        catalogue, words = Catalogue(self.session), await self._words(asset)
        base = await catalogue.begin(await self._collection(asset, Holdings(), words))
        place = (asset.asset_id, ordinal, revision)
        made = await asyncio.to_thread(self._rows, staged, place, words, base)
        await catalogue.put(item_id(*place), asset.asset_id, made)
        return True

    async def take_out(self, asset: Asset, ordinal: int, revision: int) -> None:
        await Catalogue(self.session).withdraw(item_id(asset.asset_id, ordinal, revision), asset.asset_id)

    async def describe(self, asset: Asset) -> None:
        """Write what the collection says of itself from what it holds."""
        catalogue = Catalogue(self.session)
        held = await catalogue.holdings(asset.asset_id)
        await catalogue.describe(await self._collection(asset, held, await self._words(asset)))

    def _staged(self, found: Sequence[ArtifactRow]) -> list[tuple[str, bytes]]:
        """Return the staged files with their contents."""
        files = [committed(each) for each in found]
        self.files.require((), files)
        return [(file.name, self.files.content(file)) for file in files]

    def _rows(self, staged: Sequence[tuple[str, bytes]], place: Place, words: Words, base: BaseItem) -> Rows:
        whole, ordinal = item_id(*place), place[1]
        items = (item for name, content in staged for item in _items(name, content, place))
        public = (publication.public_item(item, self.public_url, whole, ordinal) for item in items)
        return rows((described_item(item, words) for item in public), base)

    async def _collection(self, asset: Asset, held: Holdings, words: Words) -> dict[str, Any]:
        platform = await self.session.get(Platform, asset.platform_id)
        name = platform.display_name if platform else asset.platform_id
        made = publication.collection(
            asset.asset_id, asset.refs, name, held, await self._read_collection_words(asset.asset_id)
        )
        return described_collection(made, words)

    async def _read_collection_words(self, asset_id: str) -> dict[str, str] | None:
        """Return what the newest served revision's workflow called the collection."""
        assets = Assets(self.session)
        for ordinal, revision in reversed((await assets.served(asset_id)).items()):
            found = await assets.artifacts(asset_id, ordinal, revision, (STAGED_WORDS,))
            if found:
                text = self.files.content_if_sound(committed(found[0]))
                said: dict[str, str] = json.loads(text) if text is not None else {}
                return said
        return None

    async def _words(self, asset: Asset) -> Words:
        published = await Layers(self.session).published(asset.asset_id)
        return published.content if published else None


def committed(artifact: ArtifactRow) -> Committed:
    return Committed(artifact.name, artifact.sha256, artifact.size_bytes)


def _items(name: str, content: bytes, place: Place) -> Iterator[Mapping[str, Any]]:
    """The items of a staged file: one, or one a line. Each is about the revision and nothing else."""
    for item in map(orjson.loads, content.splitlines() if name.endswith(".ndjson") else [content]):
        if not publication.is_own(item, *place):
            raise _foreign_items(place)
        yield item


def _foreign_items(place: Place) -> NotPublishable:
    return NotPublishable(
        f"What version {place[1]} of asset {place[0]} has staged for the catalogue describes what is not its own. "
        "Look into its run, then have it submitted again."
    )
