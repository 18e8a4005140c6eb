"""Whether a revision has the approvals that its platform asks for, and until when. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from domain.rules.clearance import ORDER, Clearance


@dataclass(frozen=True)
class Vote:
    """One reviewer's yes to this content for these readers. `expires_at` is None where it has no end."""

    reviewer: str
    level: Clearance
    content_hash: str | None
    expires_at: datetime | None = None


@dataclass(frozen=True)
class Tally:
    """The votes that count. `level` is what all of them agree to; `until` when too few of them will be left."""

    reviewers: frozenset[str]
    required: int
    level: Clearance
    until: datetime | None

    @property
    def is_enough(self) -> bool:
        return len(self.reviewers) >= self.required


def tally(votes: Sequence[Vote], content_hash: str | None, required: int, now: datetime) -> Tally:
    """Count the last vote of each reviewer that has not ended and was given to this content."""
    last = {vote.reviewer: vote for vote in votes if vote.content_hash == content_hash}
    counted = [vote for vote in last.values() if vote.expires_at is None or vote.expires_at > now]
    levels: list[Clearance] = [vote.level for vote in counted]
    level = min(levels, key=ORDER.index) if levels else "uncleared"
    return Tally(frozenset(vote.reviewer for vote in counted), required, level, _until(counted, required))


def agreed(tallies: Iterable[Tally]) -> Clearance:
    """Return the clearance that enough reviewers gave; of several revisions the highest."""
    return max((each.level for each in tallies if each.is_enough), key=ORDER.index, default="uncleared")


def eased_fields(differences: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return which approval rules of a platform the change would weaken; a new platform weakens none."""
    required, days = differences.get("approvals_required"), differences.get("approval_days")
    eased = []
    if required and required["before"] is not None and required["after"] < required["before"]:
        eased.append(f"{required['after']} approvals instead of {required['before']}")
    if days and days["before"] is not None and (days["after"] is None or days["after"] > days["before"]):
        ends = "without end" if days["after"] is None else f"for {days['after']} days"
        eased.append(f"approvals that hold {ends} instead of for {days['before']} days")
    return eased


def _until(counted: Sequence[Vote], required: int) -> datetime | None:
    """Return the end of the vote whose end leaves too few."""
    lasting = sum(vote.expires_at is None for vote in counted)
    ends = sorted((vote.expires_at for vote in counted if vote.expires_at is not None), reverse=True)
    place = required - lasting - 1
    return ends[place] if 0 <= place < len(ends) else None
