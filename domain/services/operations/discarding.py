"""Removes what an operator's own run made: its scratch asset with every file of it.

Files go once it is committed that nobody may use them, outside every transaction: storage may be slow. Where the
process dies in between they lie there, of no use to anybody, until the same is asked again or leavings are collected.
"""

from dataclasses import dataclass, field

from sqlalchemy import func
from sqlalchemy.ext.asyncio import AsyncSession

from domain.models import Asset
from domain.repositories.assets import Assets
from domain.repositories.leftovers import Leftovers
from domain.repositories.requests import Requests
from domain.rules import scratch
from domain.rules.places import asset_home
from domain.security import Identity
from domain.services.lookups import no_asset
from domain.services.operations.audit import record
from domain.services.publication.assets import require_unchanged
from domain.services.reading import storage_answers
from domain.services.runs.endings import RunLifecycle
from flows.storage import Zones
from flows.storage.threads import in_storage_thread


@dataclass(frozen=True)
class Removal:
    """Removes files of assets after the transaction that deletes those has committed."""

    zones: Zones
    asset_ids: list[str] = field(default_factory=list)

    async def carry_out(self) -> None:
        for asset_id in self.asset_ids:
            await in_storage_thread(self._remove_files, asset_id)

    def _remove_files(self, asset_id: str) -> None:
        with storage_answers():
            for zone in (self.zones.silver, self.zones.runs):  # in `runs` lie the parts of what is joined
                zone.delete_below(asset_home(asset_id))


@dataclass(frozen=True)
class ScratchDesk:
    """Deletes scratch assets, for whoever may run workflows: nobody decides about scratch."""

    session: AsyncSession
    removal: Removal
    if_match: str | None

    async def holds(self, asset_id: str) -> bool:
        return scratch.is_scratch(await Assets(self.session).platform_of(asset_id))

    async def discard(self, asset_id: str, reason: str, who: Identity) -> None:
        """Stop the run and delete the asset with every file. Repeated, it removes files that came late."""
        asset = await Assets(self.session).lock_also_deleted(asset_id)
        if asset is None:
            raise no_asset(asset_id)
        if asset.deleted_at is None:
            require_unchanged(self.if_match, asset.lock_version)
            await self._delete(asset, who)
        record(self.session, who, "scratch.discard", f"asset/{asset_id}", reason=reason)
        self.removal.asset_ids.append(asset_id)

    async def _delete(self, asset: Asset, who: Identity) -> None:
        for version in await Assets(self.session).versions(asset.asset_id):
            request = await Requests(self.session).of_version(asset.asset_id, version.ordinal, version.newest_revision)
            await RunLifecycle(self.session).cancel_request(request, actor=who.client_id)
            version.deleted_at, version.deleted_by = func.clock_timestamp(), who.client_id
            version.lock_version += 1
            await Leftovers(self.session).look_again(version.asset_id, version.ordinal)
        asset.deleted_at, asset.deleted_by = func.clock_timestamp(), who.client_id
        asset.lock_version += 1
