"""Which approvals of a version count, and who may take one back."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from domain.console.standing import standing_of
from domain.contracts.assets import PlatformView, RevisionView, VersionView
from domain.contracts.reviews import ApprovalView

NOW = datetime(2026, 3, 1, tzinfo=UTC)
FIRST, SECOND = "1" * 64, "2" * 64
PLATFORM = PlatformView(
    platform_id="ddh",
    display_name="DDH",
    required_refs=["dataset_id"],
    optional_refs=[],
    version_ref="version_id",
    is_active=True,
    approvals_required=2,
    approval_days=30,
    source_prefixes=[],
    share=1,
    priority_cap="normal",
)


def revision(number: int, content_hash: str) -> RevisionView:
    nothing: dict[str, Any] = dict.fromkeys(("decided_by", "decided_at", "reason", "approved_until", "outputs"))
    return RevisionView(
        revision=number,
        request_id=UUID(int=number),
        approval="pending_review",
        processing="completed",
        content_hash=content_hash,
        created_at=NOW,
        **nothing,
    )


def approval(reviewer: str = "ann", number: int = 3, **facts: Any) -> ApprovalView:
    usual = {"clearance_level": "ouo", "comment": None, "content_hash": FIRST, "given_at": NOW, "expires_at": None}
    withdrawn = {"withdrawn_at": None, "withdrawn_reason": None}
    return ApprovalView(**({"revision": number, "reviewer": reviewer} | usual | withdrawn | facts))


REVISIONS = [revision(number, FIRST) for number in (1, 2, 3)]
VERSION = VersionView(
    asset_id="a" * 32,
    ordinal=0,
    label="spring",
    served_revision=2,
    newest=REVISIONS[-1],
    created_at=NOW,
    deleted_at=None,
    deleted_by=None,
    lock_version=1,
)
MOMENTS = st.none() | st.sampled_from([-1, 0, 1]).map(lambda days: NOW + timedelta(days=days))
APPROVALS = st.lists(
    st.builds(
        lambda reviewer, number, content, ends, gone: approval(
            reviewer, number, content_hash=content, expires_at=ends, withdrawn_at=gone
        ),
        st.sampled_from(["ann", "bob", "eve"]),
        st.sampled_from([1, 2, 3]),
        st.sampled_from([FIRST, SECOND]),
        MOMENTS,
        st.none() | st.just(NOW),
    ),
    max_size=6,
)


@given(APPROVALS)
def test_approval_is_shown_as_counting_exactly_when_the_tally_counts_it(given_: list[ApprovalView]) -> None:
    # As the service keeps it: nobody has two that hold of one revision.
    holding = {(each.revision, each.reviewer): each for each in given_ if each.withdrawn_at is None}
    kept = [each for each in given_ if each.withdrawn_at is not None] + list(holding.values())
    told = standing_of(kept, VERSION, REVISIONS, PLATFORM, "ann", NOW)
    counting = {(line.given.revision, line.given.reviewer) for line in told.lines if line.state == "counts"}
    assert {who for number, who in counting if number == 3} == told.tally.reviewers
    assert told.mine == sorted(number for number, who in counting if who == "ann")
    assert told.has_approved == ("ann" in told.tally.reviewers)
    assert all(number in {2, 3} for number, _ in counting)


def test_each_approval_is_shown_as_counting_withdrawn_ended_or_outdated() -> None:
    became = {
        "counts": approval(),
        "withdrawn": approval(withdrawn_at=NOW, withdrawn_reason="the wrong map"),
        "ended": approval(expires_at=NOW),
        "outdated": approval(number=1),
    }
    told = standing_of(list(became.values()), VERSION, REVISIONS, PLATFORM, "bob", NOW)
    assert [line.state for line in told.lines] == list(became)
    assert standing_of([approval(content_hash=SECOND)], VERSION, REVISIONS, PLATFORM, "bob", NOW).lines[0].state == (
        "outdated"
    )


def test_approval_that_completes_the_quorum_is_announced() -> None:
    for given_, is_last in (([], False), ([approval()], True), ([approval(), approval("bob")], True)):
        assert standing_of(given_, VERSION, REVISIONS, PLATFORM, "eve", NOW).is_last == is_last
