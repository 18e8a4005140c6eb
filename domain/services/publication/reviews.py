"""Decisions about revisions. Whatever a decision moves, it moves in one transaction."""

from dataclasses import dataclass
from typing import Any, cast

from sqlalchemy import func
from sqlalchemy.ext.asyncio import AsyncSession

from domain.after_commit import after_commit
from domain.contracts.reviews import Approve, Decision, Reject, Unpublish, Withdraw
from domain.errors import Forbidden, NotFound, NotReviewable, StaleRevision
from domain.models import Asset, AssetVersion, Revision
from domain.models.transitions import transition
from domain.repositories.assets import Assets
from domain.repositories.requests import Requests
from domain.rules import versions
from domain.rules.clearance import Clearance, after_approval
from domain.rules.lifecycle import REVIEW, Approval, RequestState, ReviewEvent
from domain.rules.quorum import Tally
from domain.security import Identity
from domain.services.lookups import refuse_scratch
from domain.services.operations.audit import THE_SERVICE, record
from domain.services.publication.approvals import Ballot
from domain.services.publication.assets import refuse_if_changed, refuse_requester, set_clearance
from domain.services.publication.catalogue import ServedCatalogue
from domain.services.publication.exports import ExportDesk
from domain.services.publication.publishing import RevisionPublisher

ENDED = "Its approval has come to its end."


@dataclass(frozen=True)
class Reviews:
    """Approve, reject, withdraw, unpublish. `if_match` is the version's entity tag, where the caller sends one."""

    session: AsyncSession
    catalogue: ServedCatalogue
    exports: ExportDesk
    if_match: str | None = None

    async def approve(self, asset_id: str, ordinal: int, decision: Approve, reviewer: Identity) -> Decision:
        """Add an approval. With the last one that the platform asks for, the revision is served from now on."""
        after_commit(self.session).failpoint = "approve"
        asset, version, revision = await self._reviewable(asset_id, ordinal, decision.revision, reviewer)
        self._refuse_unless(revision, ReviewEvent.APPROVED)
        if after_approval(cast("Clearance", asset.clearance), decision.clearance_level) != asset.clearance:
            await refuse_requester(self.session, asset_id, reviewer)  # it is raised for every version
        tally = await Ballot(self.session, asset, revision).approve(decision, reviewer)
        version.lock_version += 1
        if tally.is_enough:
            self._decide(revision, ReviewEvent.APPROVED, reviewer, decision.comment)
            revision.approved_until = tally.until
            set_clearance(asset, after_approval(cast("Clearance", asset.clearance), tally.level), reviewer)
            await self._publisher().serve(asset, version, revision, reviewer)
        return await self._record_decision(asset, revision, reviewer, "approve", decision.comment, tally)

    async def withdraw(self, asset_id: str, ordinal: int, decision: Withdraw, reviewer: Identity) -> Decision:
        """Take back one's own approval; where it was needed, stop serving."""
        after_commit(self.session).failpoint = "withdraw"
        asset, version, revision = await self._decidable(asset_id, ordinal, decision.revision, reviewer)
        tally = await Ballot(self.session, asset, revision).withdraw(reviewer, decision.reason)
        version.lock_version += 1
        if version.served_revision == revision.revision:
            revision.approved_until = tally.until
            if not tally.is_enough:
                await self._stop_serving(asset, version, revision, reviewer, decision.reason, keep_votes=True)
        return await self._record_decision(asset, revision, reviewer, "withdraw", decision.reason, tally)

    async def reject(self, asset_id: str, ordinal: int, decision: Reject, reviewer: Identity) -> Decision:
        """Refuse this revision; whatever was served before goes on being served."""
        after_commit(self.session).failpoint = "reject"
        asset, version, revision = await self._reviewable(asset_id, ordinal, decision.revision, reviewer)
        self._decide(revision, ReviewEvent.REJECTED, reviewer, decision.reason)
        version.lock_version += 1
        ballot = Ballot(self.session, asset, revision)
        await ballot.close(decision.reason)
        return await self._record_decision(asset, revision, reviewer, "reject", decision.reason, await ballot.count())

    async def unpublish(self, asset_id: str, ordinal: int, decision: Unpublish, reviewer: Identity) -> Decision:
        """Stop serving: the revision awaits a decision again, its item leaves the catalogue, `latest` moves back."""
        after_commit(self.session).failpoint = "unpublish"
        asset, version, revision = await self._decidable(asset_id, ordinal, decision.revision, reviewer)
        if version.served_revision != revision.revision:
            raise NotReviewable(_not_served(version, revision))
        version.lock_version += 1
        await self._stop_serving(asset, version, revision, reviewer, decision.reason)
        tally = await Ballot(self.session, asset, revision).count()
        return await self._record_decision(asset, revision, reviewer, "unpublish", decision.reason, tally)

    async def end(self, asset_id: str, ordinal: int, number: int) -> bool:
        """Stop serving a revision whose approvals have ended. False where it was decided anew meanwhile."""
        after_commit(self.session).failpoint = "end"
        found = await self._read_locked(asset_id, ordinal, number)
        if found is None or found[1].served_revision != number:
            return False
        asset, version, revision = found
        ballot = Ballot(self.session, asset, revision)
        if (tally := await ballot.count()).is_enough:
            revision.approved_until = tally.until
            return False
        version.lock_version += 1
        await self._stop_serving(asset, version, revision, THE_SERVICE, ENDED, keep_votes=True)
        await self._record_decision(asset, revision, THE_SERVICE, "approval.end", ENDED, tally)
        return True

    async def _stop_serving(
        self,
        asset: Asset,
        version: AssetVersion,
        revision: Revision,
        who: Identity,
        reason: str,
        *,
        keep_votes: bool = False,
    ) -> None:
        """Stop serving the revision. Others' approvals go on to count only where nobody decided against it."""
        self._decide(revision, ReviewEvent.UNPUBLISHED, who, reason)
        revision.approved_until = None
        if not keep_votes:
            await Ballot(self.session, asset, revision).close(reason)
        await self._publisher().withdraw(asset, version, revision, who)

    def _publisher(self) -> RevisionPublisher:
        return RevisionPublisher(self.session, self.catalogue, self.exports)

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
        found = await self._read_locked(asset_id, ordinal, number)
        if found is None:
            raise NotFound(f"Asset {asset_id} has no version {ordinal} with revision {number}.")
        asset, version, revision = found
        refuse_scratch(asset)
        refuse_if_changed(self.if_match, version.lock_version)
        request = await Requests(self.session).get(revision.request_id)
        if request and request.client_id == reviewer.client_id:
            raise Forbidden("Whoever submitted a revision cannot decide about it.")
        return found

    async def _read_locked(
        self, asset_id: str, ordinal: int, number: int
    ) -> tuple[Asset, AssetVersion, Revision] | None:
        assets = Assets(self.session)
        asset = await assets.lock(asset_id)
        version = await assets.version(asset_id, ordinal) if asset else None
        revision = await assets.revision(asset_id, ordinal, number) if version else None
        return None if asset is None or version is None or revision is None else (asset, version, revision)

    def _refuse_unless(self, revision: Revision, event: ReviewEvent) -> None:
        if REVIEW.after(revision.approval, event) is None:
            raise NotReviewable(f"This revision is {revision.approval.value} already.")

    def _decide(self, revision: Revision, event: ReviewEvent, who: Identity, reason: str | None) -> None:
        self._refuse_unless(revision, event)
        transition(revision, event)
        revision.decided_by = who.client_id
        revision.decided_at = func.clock_timestamp()
        revision.reason = reason

    async def _record_decision(
        self, asset: Asset, revision: Revision, who: Identity, action: str, reason: str | None, tally: Tally
    ) -> Decision:
        """Record the decision in the request's events and in the audit; return how things stand now."""
        await self.session.flush()
        counted = {"approvals": len(tally.reviewers), "approvals_required": tally.required}
        kind = f"revision.{revision.approval.value}"
        if action == "approve" and not tally.is_enough:
            kind = "revision.approval_given"
        elif action == "withdraw":
            kind = "revision.approval_withdrawn"
        facts: dict[str, Any] = {"clearance": asset.clearance, "reason": reason, **counted}
        Requests(self.session).add_event(
            revision.request_id, kind, actor=who.client_id, revision=revision.revision, **facts
        )
        subject = f"asset/{asset.asset_id}/version/{revision.ordinal}/revision/{revision.revision}"
        record(self.session, who, action, subject, **facts)
        return Decision(
            asset_id=asset.asset_id,
            ordinal=revision.ordinal,
            revision=revision.revision,
            approval=Approval(revision.approval).value,
            clearance=asset.clearance,
            latest_ordinal=versions.latest(await Assets(self.session).served(asset.asset_id)),
            **counted,
        )


def _not_served(version: AssetVersion, revision: Revision) -> str:
    if version.served_revision is None:
        return f"Version {version.ordinal} is not served; its revision {revision.revision} cannot be unpublished."
    return f"Revision {version.served_revision} is the one that is served, not {revision.revision}. Unpublish that one."
