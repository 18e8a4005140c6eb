"""Which version a submission is: a new one, a resubmission, a duplicate, or one that must wait its turn."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from domain.rules.lifecycle import OPEN_REQUESTS, Approval, RequestState


@dataclass(frozen=True)
class VersionFacts:
    """One undeleted version, by its newest revision. `served` tells whether it has an approved one."""

    ordinal: int
    label: str
    revision: int
    approval: Approval
    processing: RequestState
    fingerprint: str
    served: bool
    decided: bool


@dataclass(frozen=True)
class NewVersion:
    ordinal: int


@dataclass(frozen=True)
class Resubmission:
    ordinal: int
    revision: int
    supersedes_running: bool


@dataclass(frozen=True)
class Duplicate:
    ordinal: int
    revision: int


@dataclass(frozen=True)
class Blocked:
    """An earlier version is unresolved; `label` is the one that is in the way."""

    ordinal: int
    label: str
    revision: int
    approval: Approval
    processing: RequestState


Placement = NewVersion | Resubmission | Duplicate | Blocked


def place(label: str, fingerprint: str, versions: Sequence[VersionFacts], next_ordinal: int) -> Placement:
    """Decide what a submission of this label is, given the asset's undeleted versions."""
    same = next((version for version in versions if version.label == label), None)
    if same is not None:
        return _again(same, fingerprint)
    for version in versions:
        if not version.served:
            return Blocked(version.ordinal, version.label, version.revision, version.approval, version.processing)
    return NewVersion(next_ordinal)


def _again(version: VersionFacts, fingerprint: str) -> Placement:
    """Judge a known label: a duplicate while its work is open or unreviewed, else a new revision.

    An approved revision goes on being served while the new one is staged beside it.
    """
    awaits_review = version.processing is RequestState.COMPLETED and version.approval is Approval.PENDING_REVIEW
    awaits_first_review = awaits_review and not version.decided  # one that was unpublished has had its review
    if version.fingerprint == fingerprint and (version.processing in OPEN_REQUESTS or awaits_first_review):
        return Duplicate(version.ordinal, version.revision)
    return Resubmission(version.ordinal, version.revision + 1, version.processing in OPEN_REQUESTS)


def latest(served_ordinals: Iterable[int]) -> int | None:
    """The highest ordinal that has an approved, undeleted revision."""
    return max(served_ordinals, default=None)
