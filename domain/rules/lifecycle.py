"""What may follow what: the lifecycles of runs, requests, attempts and approvals as tables of (state, event).

It is written here alone. Rows are changed by `domain.models.transitions`, in SQL too, and every list of states is one
of those below.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar


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
    RESULT_REFUSED = "result_refused"
    ATTEMPT_LOST = "attempt_lost"
    CANCELLED = "cancelled"
    REOPENED = "reopened"


class RequestState(StrEnum):
    PENDING = "pending"
    PROCESSING = "processing"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class RequestEvent(StrEnum):
    """What a request's runs say of it together, and that somebody cancels or reopens it."""

    STARTED = "started"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    REOPENED = "reopened"


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
    ADOPTED = "adopted"
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


class IllegalTransition(RuntimeError):
    """An event that may not happen to a thing in its state: whoever let it come so far has not looked."""


@dataclass(frozen=True)
class TransitionTable(Generic[State, Event]):
    """Where a thing of one kind begins, and what may follow what."""

    noun: str
    initial: State
    moves: Mapping[tuple[State, Event], State]

    def after(self, state: State, event: Event) -> State | None:
        """The state that follows, or None where the event may not happen now."""
        return self.moves.get((state, event))

    def transition(self, state: State, event: Event) -> State:
        """The state that follows. Refused where the event may not happen now."""
        after = self.after(state, event)
        if after is None:
            raise IllegalTransition(f"To a {self.noun} that is {state.value}, `{event.value}` cannot happen.")
        return after

    def sources(self, event: Event) -> tuple[State, ...]:
        """The states that the event may happen in, in their order."""
        return tuple(state for state in type(self.initial) if (state, event) in self.moves)


RUN = TransitionTable[RunState, RunEvent](
    "run",
    RunState.PENDING,
    {
        (RunState.PENDING, RunEvent.STARTED): RunState.RUNNING,
        (RunState.PENDING, RunEvent.FAILED): RunState.FAILED,
        (RunState.PENDING, RunEvent.ATTEMPT_LOST): RunState.PENDING,
        (RunState.PENDING, RunEvent.CANCELLED): RunState.CANCELLED,
        (RunState.RUNNING, RunEvent.STARTED): RunState.RUNNING,
        (RunState.RUNNING, RunEvent.COMMITTED): RunState.COMPLETED,
        (RunState.RUNNING, RunEvent.FAILED): RunState.FAILED,
        (RunState.RUNNING, RunEvent.ATTEMPT_LOST): RunState.PENDING,
        (RunState.RUNNING, RunEvent.CANCELLED): RunState.CANCELLED,
        # The last run of a request did what it was to do, and what the request returns cannot be made of it. Where it
        # stayed completed, the request had failed without a failed run that an operator could run again.
        (RunState.COMPLETED, RunEvent.RESULT_REFUSED): RunState.FAILED,
        (RunState.COMPLETED, RunEvent.REOPENED): RunState.PENDING,
        (RunState.FAILED, RunEvent.REOPENED): RunState.PENDING,
        (RunState.CANCELLED, RunEvent.REOPENED): RunState.PENDING,
    },
)

REQUEST = TransitionTable[RequestState, RequestEvent](
    "request",
    RequestState.PENDING,
    {
        (RequestState.PENDING, RequestEvent.STARTED): RequestState.PROCESSING,
        (RequestState.PENDING, RequestEvent.FAILED): RequestState.FAILED,
        (RequestState.PENDING, RequestEvent.CANCELLED): RequestState.CANCELLED,
        (RequestState.PROCESSING, RequestEvent.STARTED): RequestState.PROCESSING,  # a run of several has ended
        (RequestState.PROCESSING, RequestEvent.COMPLETED): RequestState.COMPLETED,
        (RequestState.PROCESSING, RequestEvent.FAILED): RequestState.FAILED,
        (RequestState.PROCESSING, RequestEvent.CANCELLED): RequestState.CANCELLED,
        (RequestState.FAILED, RequestEvent.FAILED): RequestState.FAILED,  # so has a run beside the one that failed
        (RequestState.COMPLETED, RequestEvent.REOPENED): RequestState.PENDING,
        (RequestState.FAILED, RequestEvent.REOPENED): RequestState.PENDING,
        (RequestState.CANCELLED, RequestEvent.REOPENED): RequestState.PENDING,
    },
)

ATTEMPT = TransitionTable[AttemptState, AttemptEvent](
    "attempt",
    AttemptState.READY,
    {
        (AttemptState.READY, AttemptEvent.CLAIMED): AttemptState.SENDING,
        (AttemptState.SENDING, AttemptEvent.CLAIMED): AttemptState.SENDING,  # its lease ran out: another relay's now
        (AttemptState.READY, AttemptEvent.ADOPTED): AttemptState.SENT,  # by a flow run that Prefect has begun already
        (AttemptState.SENDING, AttemptEvent.SENT): AttemptState.SENT,
        # The flow may report before the relay that created it: `started` is accepted from both, and never goes back.
        (AttemptState.SENDING, AttemptEvent.STARTED): AttemptState.STARTED,
        (AttemptState.SENT, AttemptEvent.STARTED): AttemptState.STARTED,
        (AttemptState.STARTED, AttemptEvent.SENT): AttemptState.STARTED,
        # Nor does one that was fenced while it was being sent. Its flow run is noted: only what is linked is stopped.
        (AttemptState.FENCED, AttemptEvent.SENT): AttemptState.FENCED,
        (AttemptState.STARTED, AttemptEvent.COMMITTED): AttemptState.COMMITTED,
        (AttemptState.STARTED, AttemptEvent.FAILED): AttemptState.FAILED,
        (AttemptState.READY, AttemptEvent.FENCED): AttemptState.FENCED,
        (AttemptState.SENDING, AttemptEvent.FENCED): AttemptState.FENCED,
        (AttemptState.SENT, AttemptEvent.FENCED): AttemptState.FENCED,
        (AttemptState.STARTED, AttemptEvent.FENCED): AttemptState.FENCED,
    },
)

REVIEW = TransitionTable[Approval, ReviewEvent](
    "revision",
    Approval.PENDING_REVIEW,
    {
        (Approval.PENDING_REVIEW, ReviewEvent.APPROVED): Approval.APPROVED,
        (Approval.PENDING_REVIEW, ReviewEvent.REJECTED): Approval.REJECTED,
        (Approval.APPROVED, ReviewEvent.UNPUBLISHED): Approval.PENDING_REVIEW,
    },
)

OPEN_RUNS = RUN.sources(RunEvent.CANCELLED)
ENDED_RUNS = RUN.sources(RunEvent.REOPENED)
OPEN_REQUESTS = REQUEST.sources(RequestEvent.CANCELLED)
ENDED_REQUESTS = REQUEST.sources(RequestEvent.REOPENED)
LIVE_ATTEMPTS = ATTEMPT.sources(AttemptEvent.FENCED)
ENDED_ATTEMPTS = tuple(state for state in AttemptState if state not in LIVE_ATTEMPTS)
UNSENT_ATTEMPTS = ATTEMPT.sources(AttemptEvent.CLAIMED)
UNSTARTED_ATTEMPTS = tuple(state for state in LIVE_ATTEMPTS if state is not AttemptState.STARTED)
ATTEMPTS_IN_FLIGHT = tuple(state for state in LIVE_ATTEMPTS if state is not ATTEMPT.initial)


def sql_list(states: Iterable[StrEnum]) -> str:
    """The states as SQL lists them."""
    quoted = ", ".join(f"'{state.value}'" for state in states)
    return f"({quoted})"


def request_event(runs: Iterable[RunState]) -> RequestEvent | None:
    """What a request's runs, in any order, say about the request. Nothing where none of them has begun."""
    found = set(runs)
    if RunState.FAILED in found:
        return RequestEvent.FAILED
    if RunState.CANCELLED in found:
        return RequestEvent.CANCELLED
    if found == {RunState.COMPLETED}:
        return RequestEvent.COMPLETED
    return None if found == {RunState.PENDING} else RequestEvent.STARTED


def starts_in_vain(attempt: AttemptState, run: RunState, run_count: int) -> bool:
    """Whether a start can only be refused: the attempt is over, and the start is no retry that may reopen it."""
    return attempt in ENDED_ATTEMPTS and not (run_count > 1 and run is RunState.FAILED)
