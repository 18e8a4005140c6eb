"""Starts and stops serving a revision; the catalogue, the layer's words and the exports follow in one step.

All of it is one transaction of whoever decides; the failpoints between its steps are where tests end the process.
"""

from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncSession

from domain.failpoints import hit
from domain.models import Asset, AssetVersion, Revision
from domain.security import Identity
from domain.services.publication.catalogue import ServedCatalogue
from domain.services.publication.exports import ExportDesk
from domain.services.publication.layers import LayerDesk


@dataclass(frozen=True)
class RevisionPublisher:
    """The asset is locked, and the revision decided."""

    session: AsyncSession
    catalogue: ServedCatalogue
    exports: ExportDesk

    async def serve(self, asset: Asset, version: AssetVersion, revision: Revision, who: Identity) -> None:
        """Serve the revision in place of the one before, if its files are what its run committed."""
        await self.catalogue.require(asset, version.ordinal, revision.revision)
        replaced, version.served_revision = version.served_revision, revision.revision
        await self.session.flush()
        hit("approve.decided")
        if replaced is None:
            await self._layers().enter(asset.asset_id, who.client_id)
        else:
            await self.catalogue.take_out(asset, version.ordinal, replaced)
        hit("approve.replaced")
        shown = await self.catalogue.put(asset, version.ordinal, revision.revision)
        hit("approve.catalogued")
        if shown or replaced is not None:
            await self.catalogue.describe(asset)
        hit("approve.described")
        await self.exports.settle(asset, who)
        hit("approve.exported")

    async def withdraw(self, asset: Asset, version: AssetVersion, revision: Revision, who: Identity) -> None:
        """Stop serving the revision: fence its exports, remove its item, move `latest` back."""
        version.served_revision = None
        await self.session.flush()
        hit("unpublish.decided")
        await self.exports.settle(asset, who)
        hit("unpublish.exported")
        await self._layers().leave(asset.asset_id)
        hit("unpublish.words")
        await self.catalogue.take_out(asset, version.ordinal, revision.revision)
        hit("unpublish.withdrawn")
        await self.catalogue.describe(asset)
        hit("unpublish.described")

    def _layers(self) -> LayerDesk:
        return LayerDesk(self.session, self.catalogue)
