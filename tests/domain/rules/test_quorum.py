"""What approvals add up to: by whom, of which content, for whom, until when."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.rules.clearance import ORDER
from domain.rules.quorum import Vote, agreed, tally

NOW = datetime(2026, 3, 1, tzinfo=UTC)
ENDS = st.one_of(st.none(), st.integers(-5, 5).map(lambda days: NOW + timedelta(days=days)))
VOTES = st.lists(
    st.builds(Vote, st.sampled_from("abcde"), st.sampled_from(["ouo", "public"]), st.sampled_from(["x", "y"]), ENDS),
    max_size=8,
)


def counted(votes: list[Vote], content: str, now: datetime) -> set[str]:
    """The plain reading of the law, vote by vote."""
    found = set()
    for number, vote in enumerate(votes):
        is_last = all(later.reviewer != vote.reviewer or later.content_hash != content for later in votes[number + 1 :])
        if vote.content_hash == content and is_last and (vote.expires_at is None or now < vote.expires_at):
            found.add(vote.reviewer)
    return found


@given(VOTES, st.integers(1, 4))
def test_approval_counts_once_for_its_own_content_until_it_ends(votes: list[Vote], required: int) -> None:
    told = tally(votes, "x", required, NOW)
    assert told.reviewers == counted(votes, "x", NOW)
    assert told.is_enough == (len(told.reviewers) >= required)


@given(VOTES, st.integers(1, 4))
def test_the_end_is_the_first_moment_with_too_few_votes(votes: list[Vote], required: int) -> None:
    told = tally(votes, "x", required, NOW)
    if not told.is_enough:
        return
    moments = [NOW + timedelta(days=days) for days in range(7)]
    too_few = [moment for moment in moments if not tally(votes, "x", required, moment).is_enough]
    assert told.until == (too_few[0] if too_few else None)


@given(VOTES)
def test_agreed_clearance_is_the_lowest_of_all_approvals(votes: list[Vote]) -> None:
    told = tally(votes, "x", 1, NOW)
    last = {vote.reviewer: vote for vote in votes if vote.content_hash == "x"}
    levels = [last[reviewer].level for reviewer in told.reviewers]
    assert all(ORDER.index(told.level) <= ORDER.index(level) for level in levels)
    assert told.level in levels or not levels


@given(st.lists(VOTES, max_size=4), st.integers(1, 3))
def test_asset_is_cleared_to_the_highest_level_agreed_for_any_revision(
    ballots: list[list[Vote]], required: int
) -> None:
    tallies = [tally(votes, "x", required, NOW) for votes in ballots]
    enough = [each.level for each in tallies if len(each.reviewers) >= required]
    assert agreed(tallies) in (enough or ["uncleared"])
    assert all(ORDER.index(level) <= ORDER.index(agreed(tallies)) for level in enough)


@pytest.mark.parametrize(
    ("ends", "required", "until"),
    [([1, 3], 1, 3), ([1, 3], 2, 1), ([None, 3], 1, None), ([None, 3], 2, 3), ([None, None], 2, None)],
)
def test_quorum_ends_when_the_deciding_approval_ends(ends: list[int | None], required: int, until: int | None) -> None:
    moments = [None if days is None else NOW + timedelta(days=days) for days in ends]
    votes = [Vote(str(number), "ouo", None, moment) for number, moment in enumerate(moments)]
    expected = None if until is None else NOW + timedelta(days=until)
    assert tally(votes, None, required, NOW).until == expected
