"""How the approvals of a version stand: which of them count, what is missing, whose may be taken back. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from domain.contracts.assets import PlatformView, RevisionView, VersionView
from domain.contracts.reviews import ApprovalView
from domain.rules.quorum import Tally, Vote, tally

Becoming = Literal["counts", "withdrawn", "ended", "outdated"]


@dataclass(frozen=True)
class ApprovalLine:
    """One approval, and what became of it."""

    given: ApprovalView
    state: Becoming


@dataclass(frozen=True)
class ReviewStanding:
    """How many approvals the newest revision has. `mine` are revisions whose approval this person may take back."""

    tally: Tally
    days: int | None
    lines: Sequence[ApprovalLine]
    mine: Sequence[int]
    has_approved: bool

    @property
    def mine_named(self) -> Sequence[tuple[int, str]]:
        return [(revision, f"Revision {revision}") for revision in self.mine]

    @property
    def is_last(self) -> bool:
        """Whether one more approval would have the revision served."""
        return len(self.tally.reviewers) + 1 >= self.tally.required


def standing_of(
    given: Sequence[ApprovalView],
    version: VersionView,
    revisions: Sequence[RevisionView],
    platform: PlatformView,
    who: str,
    now: datetime,
) -> ReviewStanding:
    """The approvals of all revisions, as they stand at this moment for this person."""
    contents = {each.revision: each.content_hash for each in revisions}
    current = {version.newest.revision, version.served_revision}
    lines = [
        ApprovalLine(each, _state(each, contents.get(each.revision), is_current=each.revision in current, now=now))
        for each in given
    ]
    newest = version.newest.revision
    return ReviewStanding(
        tally=count([each for each in given if each.revision == newest], contents.get(newest), platform, now),
        days=platform.approval_days,
        lines=lines,
        mine=sorted({line.given.revision for line in lines if line.state == "counts" and line.given.reviewer == who}),
        has_approved=any(
            line.state == "counts" and (line.given.revision, line.given.reviewer) == (newest, who) for line in lines
        ),
    )


def count(given: Sequence[ApprovalView], content_hash: str | None, platform: PlatformView, now: datetime) -> Tally:
    """What the approvals of one revision add up to."""
    votes = [
        Vote(each.reviewer, each.clearance_level, each.content_hash, each.expires_at)
        for each in given
        if each.withdrawn_at is None
    ]
    return tally(votes, content_hash, platform.approvals_required, now)


def _state(given: ApprovalView, content_hash: str | None, *, is_current: bool, now: datetime) -> Becoming:
    if given.withdrawn_at is not None:
        return "withdrawn"
    if given.expires_at is not None and given.expires_at <= now:
        return "ended"
    return "counts" if is_current and given.content_hash == content_hash else "outdated"
