"""What the task run of a group says of its items: by its colour, its name and its message."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.compiler import Item, NodeOutcome, RunError, State
from flows.runs.group_tally import SHOWN_FAILURES, SHOWN_ROWS, FailedItems, GroupTally

DONE, BAD, CUT = "done", "failed", "cut"


def outcome(kind: str) -> NodeOutcome:
    if kind == BAD:
        return NodeOutcome(State.FAILED, None, RunError("handler-failed", "boom", "each"))
    return NodeOutcome(State.COMPLETED if kind == DONE else State.CANCELLED)


def tally(kinds: list[str], total: int | None = None, tries: int = 1) -> GroupTally:
    made = GroupTally(total or len(kinds))
    for index, kind in enumerate(kinds):
        made.add(Item(index, f"k{index}", {}), outcome(kind), tries)
    return made


@pytest.mark.parametrize(
    ("kinds", "total", "is_tolerable", "expected"),
    [
        ([DONE, DONE], 2, True, ("COMPLETED", "Completed")),
        ([DONE, BAD], 2, True, ("COMPLETED", "CompletedWithFailures")),
        ([DONE, BAD], 2, False, ("FAILED", "Failed")),
        ([BAD], 3, False, ("FAILED", "Failed")),
        ([DONE], 3, True, ("CANCELLED", "Cancelled")),
        ([DONE, CUT], 2, False, ("CANCELLED", "Cancelled")),
        ([], 2, True, ("CANCELLED", "Cancelled")),
    ],
)
def test_end_of_a_group_tells_failures_by_name_and_colour(
    kinds: list[str], total: int, is_tolerable: bool, expected: tuple[str, str]
) -> None:
    end = tally(kinds, total).end(is_tolerable=is_tolerable)
    assert (end.kind, end.name) == expected


def test_group_whose_items_were_all_done_before_is_cached() -> None:
    assert tally([DONE, DONE], tries=0).end(is_tolerable=True).name == "Cached"
    half = tally([DONE], total=2, tries=0)
    half.add(Item(1, "1", {}), outcome(DONE), 1)
    assert (half.end(is_tolerable=True).name, half.message) == ("Completed", "2 items, 1 done before")


def test_message_counts_what_failed_what_was_left_and_retries_and_names_the_first_failures() -> None:
    assert tally([DONE, BAD], 4, tries=3).message == (
        "4 items, 1 failed, 2 not begun or cut short, 4 retries; 1 key 'k1': boom"
    )
    assert tally([DONE], tries=2).message == "1 items, 1 retry"


@given(st.lists(st.sampled_from([DONE, BAD, CUT]), max_size=30), st.booleans())
def test_group_is_never_green_without_a_word_where_an_item_did_not_succeed(kinds: list[str], tolerable: bool) -> None:
    made = tally(kinds)
    end = made.end(is_tolerable=tolerable)
    assert (end.name in {"Completed", "Cached"}) == (kinds.count(DONE) == len(kinds))
    assert len(made.first_failures) <= SHOWN_FAILURES
    assert made.failed == kinds.count(BAD)


def test_table_of_failed_items_has_an_end_and_short_cells() -> None:
    failures = FailedItems()
    for index in range(SHOWN_ROWS + 5):
        failures.note(index, "k" * 5000, 1, "e" * 5000)
    assert len(failures.rows) == SHOWN_ROWS
    assert all(len(row.key) + len(row.error) < 500 for row in failures.rows)
