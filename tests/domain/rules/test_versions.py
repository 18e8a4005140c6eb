"""Which version a submission is, over every kind of history."""

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.rules.lifecycle import Approval, RequestState
from domain.rules.versions import Blocked, Duplicate, NewVersion, Resubmission, VersionFacts, latest, place

FIRST = VersionFacts(
    ordinal=0,
    label="1",
    revision=1,
    approval=Approval.PENDING_REVIEW,
    processing=RequestState.COMPLETED,
    fingerprint="same",
    served=False,
    decided=False,
)
EVERY = [
    replace(FIRST, approval=approval, processing=processing, served=served, decided=decided)
    for approval, processing, served, decided in product(Approval, RequestState, (True, False), (True, False))
]


def test_the_first_version_of_an_asset_is_new() -> None:
    assert place("1", "any", [], 0) == NewVersion(0)


@pytest.mark.parametrize("version", EVERY)
def test_repeated_label_is_a_duplicate_or_a_resubmission(version: VersionFacts) -> None:
    in_flight = version.processing in {RequestState.PENDING, RequestState.PROCESSING}
    unseen = (version.processing, version.approval, version.decided) == ("completed", "pending_review", False)
    resubmission = Resubmission(0, 2, in_flight)
    assert place("1", "other", [version], 1) == resubmission
    assert place("1", "same", [version], 1) == (Duplicate(0, 1) if in_flight or unseen else resubmission)


@pytest.mark.parametrize("version", EVERY)
def test_a_new_label_waits_until_every_version_is_approved(version: VersionFacts) -> None:
    """A staged revision beside a served one blocks nothing: the order rule reads what is approved."""
    placed = place("2", "any", [version], 1)
    assert placed == (
        NewVersion(1) if version.served else Blocked(0, "1", version.revision, version.approval, version.processing)
    )


@given(st.lists(st.booleans(), max_size=6))
def test_the_first_unresolved_version_is_the_one_in_the_way(served: list[bool]) -> None:
    history = [replace(FIRST, ordinal=n, label=str(n), served=approved) for n, approved in enumerate(served)]
    placed = place("new", "any", history, 9)
    if all(served):
        assert placed == NewVersion(9)
    else:
        assert isinstance(placed, Blocked)
        assert placed.ordinal == served.index(False)


@given(st.sets(st.integers(0, 50)))
def test_latest_is_the_highest_served_ordinal(ordinals: set[int]) -> None:
    assert latest(sorted(ordinals)) == (max(ordinals) if ordinals else None)
