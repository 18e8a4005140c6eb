"""The transition tables over every state and event there is, and the lists of states that are made of them."""

from collections.abc import Iterable
from enum import StrEnum
from itertools import product
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.contracts import assets, records, submissions
from domain.models import Attempt, Request, Revision, Run
from domain.models.transitions import follow, sql_after, transition
from domain.rules import lifecycle
from domain.rules.lifecycle import (
    ATTEMPT,
    REQUEST,
    REVIEW,
    RUN,
    Approval,
    AttemptEvent,
    AttemptState,
    IllegalTransition,
    RequestEvent,
    RequestState,
    ReviewEvent,
    RunEvent,
    RunState,
    TransitionTable,
    request_event,
    sql_list,
)
from gateway.reads import operations

Table = TransitionTable[Any, Any]
# One row a state, one word an event, in the enums' order; `.` where the event is refused.
RUNS = {  #      started committed failed result_refused lost cancelled reopened
    "pending": "running . failed . pending cancelled .",
    "running": "running completed failed . pending cancelled .",
    "completed": ". . . failed . . pending",
    "failed": ". . . . . . pending",
    "cancelled": ". . . . . . pending",
}
REQUESTS = {  #     started completed failed cancelled reopened
    "pending": "processing . failed cancelled .",
    "processing": "processing completed failed cancelled .",
    "completed": ". . . . pending",
    "failed": ". . failed . pending",
    "cancelled": ". . . . pending",
}
ATTEMPTS = {  #   claimed adopted sent started committed failed fenced
    "ready": "sending sent . . . . fenced",
    "sending": "sending . sent started . . fenced",
    "sent": ". . . started . . fenced",
    "started": ". . started . committed failed fenced",
    "committed": ". . . . . . .",
    "failed": ". . . . . . .",
    "fenced": ". . fenced . . . .",
}
REVIEWS = {  #         approved rejected unpublished
    "pending_review": "approved rejected .",
    "approved": ". . pending_review",
    "rejected": ". . .",
}
ALL: list[tuple[Table, type[StrEnum], dict[str, str], type, str]] = [
    (RUN, RunEvent, RUNS, Run, "state"),
    (REQUEST, RequestEvent, REQUESTS, Request, "status"),
    (ATTEMPT, AttemptEvent, ATTEMPTS, Attempt, "state"),
    (REVIEW, ReviewEvent, REVIEWS, Revision, "approval"),
]


@pytest.mark.parametrize(("table", "events", "expected", "model", "column"), ALL)
def test_every_event_in_every_state_leads_where_it_should_or_is_refused(
    table: Table, events: type[StrEnum], expected: dict[str, str], model: type, column: str
) -> None:
    states: type[StrEnum] = type(table.initial)
    happen: Any = transition
    assert set(expected) == {state.value for state in states}
    for state in states:
        found = [table.after(state, event) for event in events]
        assert " ".join(after.value if after else "." for after in found) == expected[state.value]
        for event, after in zip(events, found, strict=True):
            row: Any = model(**{column: state})
            if after is None:
                with pytest.raises(IllegalTransition, match=f"{table.noun} that is {state}, `{event}`"):
                    happen(row, event)
            else:
                happen(row, event)
            assert getattr(row, column) is (after or state)


@pytest.mark.parametrize(("table", "events"), [row[:2] for row in ALL])
def test_every_event_may_happen_and_every_state_is_reached(table: Table, events: type[StrEnum]) -> None:
    assert [event for event in events if not table.sources(event)] == []
    states: type[StrEnum] = type(table.initial)
    assert {table.initial, *table.moves.values()} == set(states)


@pytest.mark.parametrize(("model", "column", "table"), [(model, column, table) for table, _, _, model, column in ALL])
def test_rows_that_sql_adds_begin_where_the_table_says(model: Any, column: str, table: Table) -> None:
    assert model.__table__.c[column].server_default.arg == table.initial.value


def test_processing_of_a_revision_is_that_of_its_request() -> None:
    assert Revision.__table__.c.processing.server_default.arg == REQUEST.initial.value
    revision = Revision(processing=RequestState.PENDING)
    follow(revision, Request(status=RequestState.CANCELLED))
    assert revision.processing is RequestState.CANCELLED


def test_an_attempt_never_goes_back() -> None:
    order = [AttemptState.READY, AttemptState.SENDING, AttemptState.SENT, AttemptState.STARTED]
    ended = set(AttemptState) - set(order)
    for (before, _), after in ATTEMPT.moves.items():
        assert after in ended or order.index(after) >= order.index(before)


def test_an_ended_attempt_stays_as_it_ended() -> None:
    assert {after for (before, _), after in ATTEMPT.moves.items() if before in lifecycle.ENDED_ATTEMPTS} <= {
        AttemptState.FENCED
    }
    assert [e for (before, e) in ATTEMPT.moves if before is AttemptState.FENCED] == [AttemptEvent.SENT]


def test_a_finished_run_opens_again_only_when_somebody_reopens_it() -> None:
    leaving = {(state, event) for (state, event) in RUN.moves if state in lifecycle.ENDED_RUNS}
    assert leaving - set(product(lifecycle.ENDED_RUNS, [RunEvent.REOPENED])) == {
        (RunState.COMPLETED, RunEvent.RESULT_REFUSED)
    }


def test_a_finished_request_opens_again_only_when_somebody_reopens_it() -> None:
    moved = {event for (state, event), to in REQUEST.moves.items() if state in lifecycle.ENDED_REQUESTS and to != state}
    assert moved == {RequestEvent.REOPENED}


def test_a_rejected_revision_stays_rejected() -> None:
    assert not [event for (state, event) in REVIEW.moves if state is Approval.REJECTED]


@given(st.lists(st.sampled_from(RunState), min_size=1, max_size=6))
def test_state_of_a_request_follows_from_its_runs(runs: list[RunState]) -> None:
    told = request_event(runs)
    assert told is request_event(runs[::-1])
    assert (told is RequestEvent.FAILED) is (RunState.FAILED in runs)
    assert (told is RequestEvent.COMPLETED) is (set(runs) == {RunState.COMPLETED})
    assert (told is None) is (set(runs) == {RunState.PENDING})
    if told is RequestEvent.CANCELLED:
        assert RunState.CANCELLED in runs


def test_a_request_ends_only_when_no_run_is_open() -> None:
    """One failed run beside an open one would end the request early; the open one is cancelled with it."""
    for pair in product(RunState, repeat=2):
        if request_event(pair) is RequestEvent.COMPLETED:
            assert not set(lifecycle.OPEN_RUNS) & set(pair)


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        (lifecycle.OPEN_RUNS, "('pending', 'running')"),
        (lifecycle.ENDED_RUNS, "('completed', 'failed', 'cancelled')"),
        (lifecycle.OPEN_REQUESTS, "('pending', 'processing')"),
        (lifecycle.ENDED_REQUESTS, "('completed', 'failed', 'cancelled')"),
        (lifecycle.LIVE_ATTEMPTS, "('ready', 'sending', 'sent', 'started')"),
        (lifecycle.ENDED_ATTEMPTS, "('committed', 'failed', 'fenced')"),
        (lifecycle.UNSENT_ATTEMPTS, "('ready', 'sending')"),
        (lifecycle.UNSTARTED_ATTEMPTS, "('ready', 'sending', 'sent')"),
        (lifecycle.ATTEMPTS_IN_FLIGHT, "('sending', 'sent', 'started')"),
        (ATTEMPT.sources(AttemptEvent.SENT), "('sending', 'started', 'fenced')"),
    ],
)
def test_lists_of_states_follow_from_the_tables(states: Iterable[StrEnum], expected: str) -> None:
    assert sql_list(states) == expected


def test_sql_transitions_follow_from_the_tables() -> None:
    assert sql_after(ATTEMPT, AttemptEvent.CLAIMED, "a.state") == "'sending'"
    assert sql_after(ATTEMPT, AttemptEvent.SENT, "state") == "case state when 'sending' then 'sent' else state end"


@pytest.mark.parametrize(
    ("words", "states"),
    [
        (records.RunStateName, RunState),
        (operations.JobState, RunState),
        (submissions.RequestState, RequestState),
        (assets.Approval, Approval),
    ],
)
def test_contracts_know_every_state_by_its_word(words: Any, states: type[StrEnum]) -> None:
    assert get_args(words) == tuple(state.value for state in states)
