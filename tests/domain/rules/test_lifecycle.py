"""The transition tables over every state and event there is."""

from collections.abc import Mapping
from enum import StrEnum
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.rules.lifecycle import (
    ATTEMPT,
    REVIEW,
    RUN,
    Approval,
    AttemptEvent,
    AttemptState,
    RequestState,
    ReviewEvent,
    RunEvent,
    RunState,
    next_state,
    request_state,
)

# One row a state, one letter an event, in the enums' order; `.` where the event is refused.
RUNS = {  #      started committed failed lost cancelled reopened
    "pending": "running . failed pending cancelled .",
    "running": "running completed failed pending cancelled .",
    "completed": ". . . . . pending",
    "failed": ". . . . . pending",
    "cancelled": ". . . . . pending",
}
ATTEMPTS = {  #   claimed sent started committed failed fenced
    "ready": "sending . . . . fenced",
    "sending": "sending sent started . . fenced",
    "sent": ". . started . . fenced",
    "started": ". started . committed failed fenced",
    "committed": ". . . . . .",
    "failed": ". . . . . .",
    "fenced": ". . . . . .",
}
REVIEWS = {  #         approved rejected unpublished
    "pending_review": "approved rejected .",
    "approved": ". . pending_review",
    "rejected": ". . .",
}


@pytest.mark.parametrize(
    ("table", "states", "events", "expected"),
    [
        (RUN, RunState, RunEvent, RUNS),
        (ATTEMPT, AttemptState, AttemptEvent, ATTEMPTS),
        (REVIEW, Approval, ReviewEvent, REVIEWS),
    ],
)
def test_every_state_and_event(
    table: Mapping[tuple[StrEnum, StrEnum], StrEnum],
    states: type[StrEnum],
    events: type[StrEnum],
    expected: dict[str, str],
) -> None:
    assert set(expected) == {state.value for state in states}
    for state in states:
        found = [next_state(table, state, event) for event in events]
        assert " ".join(after.value if after else "." for after in found) == expected[state.value]


def test_an_attempt_never_goes_back() -> None:
    order = [AttemptState.READY, AttemptState.SENDING, AttemptState.SENT, AttemptState.STARTED]
    ended = set(AttemptState) - set(order)
    for (before, _), after in ATTEMPT.items():
        assert after in ended or order.index(after) >= order.index(before)


def test_a_finished_run_opens_again_only_when_somebody_reopens_it() -> None:
    finished = {RunState.COMPLETED, RunState.FAILED, RunState.CANCELLED}
    leaving = {event for (state, event) in RUN if state in finished}
    assert leaving == {RunEvent.REOPENED}


def test_a_rejected_revision_stays_rejected() -> None:
    assert not [event for (state, event) in REVIEW if state is Approval.REJECTED]


@given(st.lists(st.sampled_from(RunState), min_size=1, max_size=6))
def test_a_request_is_what_its_runs_say(runs: list[RunState]) -> None:
    told = request_state(runs)
    assert told is request_state(runs[::-1])
    assert (told is RequestState.FAILED) is (RunState.FAILED in runs)
    assert (told is RequestState.COMPLETED) is (set(runs) == {RunState.COMPLETED})
    assert (told is RequestState.PENDING) is (set(runs) == {RunState.PENDING})
    if told is RequestState.CANCELLED:
        assert RunState.CANCELLED in runs


def test_a_request_ends_only_when_no_run_is_open() -> None:
    """One failed run beside an open one would end the request early; the open one is cancelled with it."""
    for pair in product(RunState, repeat=2):
        if request_state(list(pair)) is RequestState.COMPLETED:
            assert not {RunState.PENDING, RunState.RUNNING} & set(pair)
