"""What may follow what: the lifecycles of runs, requests, attempts and approvals as tables of (state, event)."""

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar


class RunState(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class RunEvent(StrEnum):
    STARTED = "started"
    COMMITTED = "committed"
    FAILED = "failed"
    ATTEMPT_LOST = "attempt_lost"
    CANCELLED = "cancelled"
    REOPENED = "reopened"


class RequestState(StrEnum):
    PENDING = "pending"
    PROCESSING = "processing"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class AttemptState(StrEnum):
    READY = "ready"
    SENDING = "sending"
    SENT = "sent"
    STARTED = "started"
    COMMITTED = "committed"
    FAILED = "failed"
    FENCED = "fenced"


class AttemptEvent(StrEnum):
    CLAIMED = "claimed"
    SENT = "sent"
    STARTED = "started"
    COMMITTED = "committed"
    FAILED = "failed"
    FENCED = "fenced"


class Approval(StrEnum):
    PENDING_REVIEW = "pending_review"
    APPROVED = "approved"
    REJECTED = "rejected"


class ReviewEvent(StrEnum):
    APPROVED = "approved"
    REJECTED = "rejected"
    UNPUBLISHED = "unpublished"


State = TypeVar("State", bound=StrEnum)
Event = TypeVar("Event", bound=StrEnum)
Table = Mapping[tuple[State, Event], State]

RUN: Table[RunState, RunEvent] = {
    (RunState.PENDING, RunEvent.STARTED): RunState.RUNNING,
    (RunState.PENDING, RunEvent.FAILED): RunState.FAILED,
    (RunState.PENDING, RunEvent.ATTEMPT_LOST): RunState.PENDING,
    (RunState.PENDING, RunEvent.CANCELLED): RunState.CANCELLED,
    (RunState.RUNNING, RunEvent.STARTED): RunState.RUNNING,
    (RunState.RUNNING, RunEvent.COMMITTED): RunState.COMPLETED,
    (RunState.RUNNING, RunEvent.FAILED): RunState.FAILED,
    (RunState.RUNNING, RunEvent.ATTEMPT_LOST): RunState.PENDING,
    (RunState.RUNNING, RunEvent.CANCELLED): RunState.CANCELLED,
    (RunState.COMPLETED, RunEvent.REOPENED): RunState.PENDING,
    (RunState.FAILED, RunEvent.REOPENED): RunState.PENDING,
    (RunState.CANCELLED, RunEvent.REOPENED): RunState.PENDING,
}

ATTEMPT: Table[AttemptState, AttemptEvent] = {
    (AttemptState.READY, AttemptEvent.CLAIMED): AttemptState.SENDING,
    (AttemptState.SENDING, AttemptEvent.CLAIMED): AttemptState.SENDING,  # its lease ran out: another relay takes over
    (AttemptState.SENDING, AttemptEvent.SENT): AttemptState.SENT,
    # The flow may report before the relay that created it: `started` is accepted from both, and never goes back.
    (AttemptState.SENDING, AttemptEvent.STARTED): AttemptState.STARTED,
    (AttemptState.SENT, AttemptEvent.STARTED): AttemptState.STARTED,
    (AttemptState.STARTED, AttemptEvent.SENT): AttemptState.STARTED,
    (AttemptState.STARTED, AttemptEvent.COMMITTED): AttemptState.COMMITTED,
    (AttemptState.STARTED, AttemptEvent.FAILED): AttemptState.FAILED,
    (AttemptState.READY, AttemptEvent.FENCED): AttemptState.FENCED,
    (AttemptState.SENDING, AttemptEvent.FENCED): AttemptState.FENCED,
    (AttemptState.SENT, AttemptEvent.FENCED): AttemptState.FENCED,
    (AttemptState.STARTED, AttemptEvent.FENCED): AttemptState.FENCED,
}

REVIEW: Table[Approval, ReviewEvent] = {
    (Approval.PENDING_REVIEW, ReviewEvent.APPROVED): Approval.APPROVED,
    (Approval.PENDING_REVIEW, ReviewEvent.REJECTED): Approval.REJECTED,
    (Approval.APPROVED, ReviewEvent.UNPUBLISHED): Approval.PENDING_REVIEW,
}


def next_state(table: Table[State, Event], state: State, event: Event) -> State | None:
    """The state that follows, or None where the event may not happen now."""
    return table.get((state, event))


def request_state(runs: list[RunState]) -> RequestState:
    """What a request's runs, in any order, say about the request."""
    if any(run is RunState.FAILED for run in runs):
        return RequestState.FAILED
    if any(run is RunState.CANCELLED for run in runs):
        return RequestState.CANCELLED
    if all(run is RunState.COMPLETED for run in runs):
        return RequestState.COMPLETED
    if all(run is RunState.PENDING for run in runs):
        return RequestState.PENDING
    return RequestState.PROCESSING


def starts_in_vain(attempt: AttemptState, run: RunState, run_count: int) -> bool:
    """Whether a start can come to nothing but a refusal: its attempt is over, and it is no retry that may reopen."""
    is_over = attempt in {AttemptState.COMMITTED, AttemptState.FAILED, AttemptState.FENCED}
    return is_over and not (run_count > 1 and run is RunState.FAILED)
