"""Decisions about revisions. Approving moves what is served and what the catalogue shows, in one transaction."""

from dataclasses import dataclass
from typing import cast

from sqlalchemy import func
from sqlalchemy.ext.asyncio import AsyncSession

from domain.contracts.reviews import Approve, Decision, Reject, Unpublish
from domain.errors import Forbidden, NotFound, NotReviewable, StaleRevision
from domain.models import Asset, AssetVersion, Revision
from domain.repositories.assets import Assets
from domain.repositories.requests import Requests
from domain.rules import versions
from domain.rules.clearance import Clearance, after_approval
from domain.rules.lifecycle import REVIEW, Approval, RequestState, ReviewEvent, next_state
from domain.security import Identity
from domain.services.assets import refuse_if_changed, set_clearance
from domain.services.audit import record
from domain.services.exports import ExportDesk
from domain.services.shelf import Shelf


@dataclass(frozen=True)
class Reviews:
    """Approve, reject, unpublish. `if_match` is the version's entity tag, where the caller sends one."""

    session: AsyncSession
    shelf: Shelf
    exports: ExportDesk
    if_match: str | None = None

    async def approve(self, asset_id: str, ordinal: int, decision: Approve, reviewer: Identity) -> Decision:
        """Serve this revision from now on, and raise the asset's clearance where the decision asks for it."""
        asset, version, revision = await self._reviewable(asset_id, ordinal, decision.revision, reviewer)
        self._decide(revision, ReviewEvent.APPROVED, reviewer, decision.comment)
        replaced, version.served_revision = version.served_revision, revision.revision
        version.lock_version += 1
        set_clearance(asset, after_approval(cast("Clearance", asset.clearance), decision.clearance_level), reviewer)
        await self.session.flush()
        if replaced is not None:
            await self.shelf.take_out(asset, ordinal, replaced)
        if await self.shelf.put(asset, ordinal, revision.revision) or replaced is not None:
            await self.shelf.describe(asset)
        decided = await self._decided(asset, revision, reviewer, "approve")
        await self.exports.settle(asset, reviewer)
        return decided

    async def reject(self, asset_id: str, ordinal: int, decision: Reject, reviewer: Identity) -> Decision:
        """Refuse this revision; whatever was served before goes on being served."""
        asset, version, revision = await self._reviewable(asset_id, ordinal, decision.revision, reviewer)
        self._decide(revision, ReviewEvent.REJECTED, reviewer, decision.reason)
        version.lock_version += 1
        await self.session.flush()
        return await self._decided(asset, revision, reviewer, "reject")

    async def unpublish(self, asset_id: str, ordinal: int, decision: Unpublish, reviewer: Identity) -> Decision:
        """Stop serving: the revision awaits a decision again, its item leaves the catalogue, `latest` moves back."""
        asset, version, revision = await self._decidable(asset_id, ordinal, decision.revision, reviewer)
        if version.served_revision != revision.revision:
            raise NotReviewable(_not_served(version, revision))
        self._decide(revision, ReviewEvent.UNPUBLISHED, reviewer, decision.reason)
        version.served_revision = None
        version.lock_version += 1
        await self.session.flush()
        await self.shelf.take_out(asset, ordinal, revision.revision)
        await self.shelf.describe(asset)
        decided = await self._decided(asset, revision, reviewer, "unpublish")
        await self.exports.settle(asset, reviewer)
        return decided

    async def _reviewable(
        self, asset_id: str, ordinal: int, number: int, reviewer: Identity
    ) -> tuple[Asset, AssetVersion, Revision]:
        """The locked asset and the revision to decide, or why it cannot be decided."""
        asset, version, revision = await self._decidable(asset_id, ordinal, number, reviewer)
        if number != version.newest_revision:
            raise StaleRevision(
                f"Revision {number} was replaced by revision {version.newest_revision}. Review that one."
            )
        if revision.processing is not RequestState.COMPLETED:
            raise NotReviewable(f"Processing is {revision.processing.value}; only a completed revision can be decided.")
        return asset, version, revision

    async def _decidable(
        self, asset_id: str, ordinal: int, number: int, reviewer: Identity
    ) -> tuple[Asset, AssetVersion, Revision]:
        """The locked asset with a version and a revision that this reviewer did not submit."""
        assets = Assets(self.session)
        asset = await assets.lock(asset_id)
        version = await assets.version(asset_id, ordinal) if asset else None
        revision = await assets.revision(asset_id, ordinal, number) if version else None
        if asset is None or version is None or revision is None:
            raise NotFound(f"Asset {asset_id} has no version {ordinal} with revision {number}.")
        refuse_if_changed(self.if_match, version.lock_version)
        request = await Requests(self.session).get(revision.request_id)
        if request and request.client_id == reviewer.client_id:
            raise Forbidden("Whoever submitted a revision cannot decide about it.")
        return asset, version, revision

    def _decide(self, revision: Revision, event: ReviewEvent, reviewer: Identity, reason: str | None) -> None:
        decided = next_state(REVIEW, revision.approval, event)
        if decided is None:
            raise NotReviewable(f"This revision is {revision.approval.value} already.")
        revision.approval = decided
        revision.decided_by = reviewer.client_id
        revision.decided_at = func.clock_timestamp()
        revision.reason = reason

    async def _decided(self, asset: Asset, revision: Revision, reviewer: Identity, action: str) -> Decision:
        Requests(self.session).add_event(
            revision.request_id,
            f"revision.{revision.approval.value}",
            actor=reviewer.client_id,
            revision=revision.revision,
            clearance=asset.clearance,
            reason=revision.reason,
        )
        subject = f"asset/{asset.asset_id}/version/{revision.ordinal}/revision/{revision.revision}"
        record(self.session, reviewer, action, subject, clearance=asset.clearance, reason=revision.reason)
        served = await Assets(self.session).served_ordinals(asset.asset_id)
        return Decision(
            asset_id=asset.asset_id,
            ordinal=revision.ordinal,
            revision=revision.revision,
            approval=Approval(revision.approval).value,
            clearance=asset.clearance,
            latest_ordinal=versions.latest(served),
        )


def _not_served(version: AssetVersion, revision: Revision) -> str:
    if version.served_revision is None:
        return f"Version {version.ordinal} is not served; its revision {revision.revision} cannot be unpublished."
    return f"Revision {version.served_revision} is the one that is served, not {revision.revision}. Unpublish that one."
