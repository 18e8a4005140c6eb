"""What people change about an asset beside deciding: clearance, exposure, deletion. Each for the state they read."""

from dataclasses import dataclass

from sqlalchemy import func
from sqlalchemy.ext.asyncio import AsyncSession

from domain.contracts.assets import AssetView, ChangeClearance, ChangeExposure
from domain.contracts.commands import LayerWords
from domain.errors import ChangedMeanwhile, Forbidden, InvalidDecision, NotFound, PreconditionRequired, StillServed
from domain.models import Asset, AssetVersion, Platform
from domain.repositories.assets import Assets
from domain.repositories.layers import Layers
from domain.repositories.leftovers import Leftovers
from domain.repositories.requests import Requests
from domain.rules import versions
from domain.rules.clearance import ORDER, PUBLIC, Clearance
from domain.rules.locking import Precondition, check
from domain.rules.quorum import agreed
from domain.security import Identity
from domain.services.lookups import locked_asset, refuse_scratch
from domain.services.operations.audit import record
from domain.services.publication.approvals import Ballot
from domain.services.publication.exports import ExportDesk
from domain.services.runs.endings import RunLifecycle


@dataclass(frozen=True)
class AssetChanges:
    """Every change is made under the asset's lock and only to the state that `if_match` names."""

    session: AsyncSession
    exports: ExportDesk
    if_match: str | None

    async def clearance(self, asset_id: str, change: ChangeClearance, who: Identity) -> AssetView:
        """Raise or lower who may read. A lower clearance holds from this commit on."""
        asset = await self._asset(asset_id)
        await refuse_requester(self.session, asset_id, who)
        await self._refuse_beyond_votes(asset, change.clearance_level)
        before = asset.clearance
        set_clearance(asset, change.clearance_level, who)
        await self.exports.settle(asset, who)
        facts = {"before": before, "after": change.clearance_level, "reason": change.reason}
        record(self.session, who, "clearance", f"asset/{asset_id}", **facts)
        return await view(self.session, asset)

    async def exposure(self, asset_id: str, change: ChangeExposure, who: Identity) -> AssetView:
        """Give addresses to the latest approved version only, or to all of them."""
        asset = await self._asset(asset_id)
        before, asset.exposure = asset.exposure, change.exposure
        asset.lock_version += 1
        await self.exports.settle(asset, who)
        record(self.session, who, "exposure", f"asset/{asset_id}", before=before, after=change.exposure)
        return await view(self.session, asset)

    async def words(self, asset_id: str, words: LayerWords, who: Identity) -> LayerWords:
        """Keep words about the asset's layer. They are shown with its first approval, or by `metadata.publish`."""
        asset = await self._asset(asset_id)
        await Layers(self.session).keep(asset_id, words.model_dump(), who.client_id)
        asset.lock_version += 1
        await self.session.flush()
        record(self.session, who, "metadata.keep", f"asset/{asset_id}")
        return words

    async def delete_version(self, asset_id: str, ordinal: int, reason: str, who: Identity) -> None:
        """Delete a version that is not served: it no longer holds back the next one. What runs for it is stopped."""
        assets = Assets(self.session)
        asset = await assets.lock(asset_id)
        version = await assets.version(asset_id, ordinal) if asset else None
        if asset is None or version is None:
            raise NotFound(f"Asset {asset_id} has no version {ordinal}.")
        refuse_scratch(asset)
        require_unchanged(self.if_match, version.lock_version)
        await refuse_requester(self.session, asset_id, who)
        await self._delete(version, who)
        record(self.session, who, "version.delete", f"asset/{asset_id}/version/{ordinal}", reason=reason)

    async def delete_asset(self, asset_id: str, reason: str, who: Identity) -> None:
        """Delete an asset with all its versions, none of which may be served."""
        asset = await self._asset(asset_id)
        await refuse_requester(self.session, asset_id, who)
        for version in await Assets(self.session).versions(asset_id):
            await self._delete(version, who)
        asset.deleted_at, asset.deleted_by = func.clock_timestamp(), who.client_id
        asset.lock_version += 1
        record(self.session, who, "asset.delete", f"asset/{asset_id}", reason=reason)

    async def _delete(self, version: AssetVersion, who: Identity) -> None:
        if version.served_revision is not None:
            raise StillServed(f"Version {version.ordinal} is approved and served. Unpublish it, then delete it.")
        request = await Requests(self.session).of_version(version.asset_id, version.ordinal, version.newest_revision)
        await RunLifecycle(self.session).cancel_request(request, actor=who.client_id)
        await Assets(self.session).unlist(version.asset_id, version.ordinal)
        version.deleted_at, version.deleted_by = func.clock_timestamp(), who.client_id
        version.lock_version += 1
        await Leftovers(self.session).look_again(version.asset_id, version.ordinal)
        Requests(self.session).add_event(request.request_id, "version.deleted", actor=who.client_id)

    async def _asset(self, asset_id: str) -> Asset:
        asset = await locked_asset(self.session, asset_id)
        require_unchanged(self.if_match, asset.lock_version)
        return asset

    async def _refuse_beyond_votes(self, asset: Asset, level: Clearance) -> None:
        """Refuse one person a clearance above what approvals agree to, where the platform asks for several."""
        required = (await self.session.get_one(Platform, asset.platform_id)).approvals_required
        if required == 1 or ORDER.index(level) <= ORDER.index(asset.clearance):
            return
        served = await Assets(self.session).served_revisions(asset.asset_id)
        highest = agreed([await Ballot(self.session, asset, revision).count() for revision in served])
        if ORDER.index(level) > ORDER.index(highest):
            raise InvalidDecision(
                f"The platform asks for {required} approvals, and those of what is served agree to {highest!r}. "
                f"Have {required} reviewers approve a version with clearance {level!r}, unpublished first if served."
            )


async def refuse_requester(session: AsyncSession, asset_id: str, who: Identity) -> None:
    """Refuse a decision about the whole asset by somebody who submitted a part of it."""
    if who.client_id in await Assets(session).requesters(asset_id):
        raise Forbidden("Whoever submitted data cannot decide about it.")


def set_clearance(asset: Asset, level: Clearance, who: Identity) -> None:
    """Set the asset's clearance with who gave it and when; a lowered one leaves no name."""
    if level == asset.clearance:
        return
    if level == "uncleared":
        asset.cleared_at, asset.cleared_by = None, None
    elif asset.clearance == "uncleared":
        asset.cleared_at, asset.cleared_by = func.clock_timestamp(), who.client_id
    if level == PUBLIC:
        asset.made_public_at, asset.made_public_by = func.clock_timestamp(), who.client_id
    else:
        asset.made_public_at, asset.made_public_by = None, None
    asset.clearance = level
    asset.lock_version += 1


def revive(session: AsyncSession, asset: Asset, client_id: str) -> None:
    """Let a deleted asset receive versions again, uncleared."""
    asset.deleted_at = asset.deleted_by = None
    asset.clearance, asset.exposure = "uncleared", "latest_only"
    asset.cleared_at = asset.cleared_by = asset.made_public_at = asset.made_public_by = None
    asset.lock_version += 1
    record(session, Identity(client_id, "partner", asset.platform_id), "asset.revive", f"asset/{asset.asset_id}")


def require_unchanged(if_match: str | None, lock_version: int) -> None:
    """Refuse a change that does not say which state it is meant for, or is meant for another one."""
    if check(if_match, lock_version) is Precondition.MISSING:
        raise PreconditionRequired("Send If-Match with the ETag that reading gave you, or * for whatever is there.")
    refuse_if_changed(if_match, lock_version)


def refuse_if_changed(if_match: str | None, lock_version: int) -> None:
    """Refuse a change meant for another state, where the caller sends If-Match."""
    if check(if_match, lock_version) is Precondition.FAILS:
        raise ChangedMeanwhile(f'It was changed since: its ETag is now "{lock_version}". Read it again, then decide.')


async def view(session: AsyncSession, asset: Asset) -> AssetView:
    """The asset as it is after the change."""
    await session.flush()
    await session.refresh(asset)
    latest = versions.latest(await Assets(session).served(asset.asset_id))
    return AssetView.model_validate(asset).model_copy(update={"latest_ordinal": latest})
