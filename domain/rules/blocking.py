"""What somebody may do about a version that keeps the next one out. Pure: only ways that are open are advised."""

from dataclasses import dataclass
from enum import StrEnum

from domain.rules.lifecycle import OPEN_REQUESTS, Approval, RequestState


class Way(StrEnum):
    WAIT = "wait"
    APPROVE = "approve"
    RESUBMIT = "resubmit"
    DELETE = "delete"
    ASK = "ask"


@dataclass(frozen=True)
class Standing:
    """The state of the newest revision of the version that is in the way."""

    approval: Approval
    processing: RequestState
    asset_is_cleared: bool

    @property
    def awaits_review(self) -> bool:
        return self.processing is RequestState.COMPLETED and self.approval is Approval.PENDING_REVIEW

    @property
    def words(self) -> str:
        if self.processing in OPEN_REQUESTS:
            return "being processed"
        if self.processing is not RequestState.COMPLETED:
            return self.processing.value
        return "awaiting its review" if self.awaits_review else self.approval.value


@dataclass(frozen=True)
class Asker:
    """What is known of whoever submits: whether they review for the platform, and what of the asset is their own."""

    may_review: bool
    sent_the_revision: bool
    sent_some_of_the_asset: bool
    has_approved: bool

    def may_approve(self, asset_is_cleared: bool) -> bool:
        """Whether the asker may approve: a first approval clears the asset, which nobody may do for their own data."""
        own = self.sent_the_revision or (self.sent_some_of_the_asset and not asset_is_cleared)
        return self.may_review and not own and not self.has_approved

    @property
    def may_delete(self) -> bool:
        return self.may_review and not self.sent_some_of_the_asset


def ways(standing: Standing, asker: Asker) -> tuple[Way, ...]:
    """Return the acts that would let the next version in, or bring that nearer; the best one first."""
    forward: tuple[Way, ...] = ()
    if standing.awaits_review:
        forward = (Way.APPROVE if asker.may_approve(standing.asset_is_cleared) else Way.WAIT,)
    elif standing.processing in OPEN_REQUESTS:
        forward = (Way.WAIT,)
    return (*forward, Way.RESUBMIT, Way.DELETE if asker.may_delete else Way.ASK)


def advice(label: str, standing: Standing, open_ways: tuple[Way, ...]) -> str:
    """The ways in one sentence."""
    until = "until a reviewer has approved it"
    if standing.processing in OPEN_REQUESTS:
        until = "until it has been processed and approved"
    changed = " with what has changed" if standing.awaits_review or standing.processing in OPEN_REQUESTS else ""
    said = {
        Way.WAIT: f"wait {until}",
        Way.APPROVE: "approve it",
        Way.RESUBMIT: f"submit {label!r} again under its own label{changed}",
        Way.DELETE: "delete it",
        Way.ASK: "ask the platform's reviewers to delete it",
    }
    *first, last = (said[way] for way in open_ways)
    text = f"{', '.join(first)}, or {last}" if first else last
    return f"{text[0].upper()}{text[1:]}."
