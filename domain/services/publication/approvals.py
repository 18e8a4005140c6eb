"""Votes on a revision: giving one, taking it back, and what they add up to under the platform's rules."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import cast

from sqlalchemy.ext.asyncio import AsyncSession

from domain.contracts.reviews import Approve
from domain.errors import InvalidDecision, NotReviewable, StaleRevision
from domain.models import Asset, GivenApproval, Platform, Revision
from domain.repositories.approvals import Approvals
from domain.rules.clearance import Clearance
from domain.rules.quorum import Tally, Vote, tally
from domain.security import Identity


@dataclass(frozen=True)
class Ballot:
    """The votes on one revision, whose asset is locked."""

    session: AsyncSession
    asset: Asset
    revision: Revision

    async def count(self) -> Tally:
        """What the votes add up to now."""
        approvals, platform = Approvals(self.session), await self._platform()
        votes = [_vote(given) for given in await approvals.given(self.revision)]
        return tally(votes, self.revision.content_hash, platform.approvals_required, await approvals.now())

    async def approve(self, decision: Approve, reviewer: Identity) -> Tally:
        """Add the reviewer's vote. Each has one."""
        if decision.content_hash not in {None, self.revision.content_hash}:
            raise StaleRevision("The revision was processed again: its content is another one. Look at it again.")
        if reviewer.client_id in (before := await self.count()).reviewers:
            raise NotReviewable(
                f"You approved this revision already; it has {len(before.reviewers)} of {before.required} approvals. "
                "Withdraw yours to change it."
            )
        given = GivenApproval(
            asset_id=self.revision.asset_id,
            ordinal=self.revision.ordinal,
            revision=self.revision.revision,
            reviewer=reviewer.client_id,
            clearance_level=decision.clearance_level,
            comment=decision.comment,
            content_hash=self.revision.content_hash,
            expires_at=await self._end(decision.expires_at),
        )
        Approvals(self.session).add(given)
        await self.session.flush()
        return await self.count()

    async def withdraw(self, reviewer: Identity, reason: str) -> Tally:
        """Take the reviewer's own vote back."""
        if not await Approvals(self.session).withdraw(self.revision, reason, reviewer.client_id):
            raise NotReviewable("You have no approval of this revision to withdraw.")
        return await self.count()

    async def close(self, reason: str | None) -> None:
        """Void every vote on the revision."""
        await Approvals(self.session).withdraw(self.revision, reason)

    async def _end(self, asked: datetime | None) -> datetime | None:
        """Return when a vote given now ends: at the asked time, else as the platform has it."""
        now, days = await Approvals(self.session).now(), (await self._platform()).approval_days
        if asked is not None and asked <= now:
            raise InvalidDecision("expires_at has passed: name a moment that is yet to come, or none.")
        latest = now + timedelta(days=days) if days is not None else None
        return min((moment for moment in (asked, latest) if moment is not None), default=None)

    async def _platform(self) -> Platform:
        return await self.session.get_one(Platform, self.asset.platform_id)


def _vote(given: GivenApproval) -> Vote:
    return Vote(given.reviewer, cast("Clearance", given.clearance_level), given.content_hash, given.expires_at)
