"""What the sweep does about an attempt, from what we know of it and what Prefect says of its flow run. Pure.

Prefect's state is a hint. A wrong hint costs an attempt at most: outcomes are taken by token, and a fenced attempt's
token opens nothing.
"""

import math
from dataclasses import dataclass
from enum import Enum, StrEnum

from domain.rules.lifecycle import UNSTARTED_ATTEMPTS, AttemptState

GAPS_UNTIL_LOST = 6
LONGEST_QUEUE = 9.0  # times the start's patience: what has no process is found in the end, however slow the pool is
BEATS_UNTIL_MISSED = 2


class FlowState(StrEnum):
    """Prefect's word about a flow run; `missing` where there is none, `unknown` where Prefect did not answer.

    `beginning` is pending or running since a moment ago: what it does first, it may be doing now. `overstaying` is
    cancelling for longer than whoever would end it takes: nobody does.
    """

    SCHEDULED = "scheduled"
    BEGINNING = "beginning"
    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CRASHED = "crashed"
    CANCELLING = "cancelling"
    OVERSTAYING = "overstaying"
    CANCELLED = "cancelled"
    MISSING = "missing"
    UNKNOWN = "unknown"


class Action(Enum):
    """What the sweep does about an attempt. Only the first four change anything about a run."""

    LOSE = "fence the attempt, stop its flow run, try again or park"
    FAIL_ENDED = "the flow ended without an outcome: keep the evidence, try again or park"
    CANCEL = "somebody cancelled the flow run in Prefect: cancel the request"
    RETURN = "nothing was sent: hand it to the next relay at once"
    LINK = "it was sent after all: note the flow run"
    STOP_FLOW = "the attempt is over, its flow run is not: stop it"
    DISPOSE = "attempt and flow run are both over: never look again"
    WARN = "something is slow that only people can speed up"
    LEAVE = "nothing to do yet"


@dataclass(frozen=True)
class Patience:
    """How long things may take, in seconds by the database's clock."""

    start: float = 120.0  # and as long again as the pool takes, as fast as it is, to begin all that waits for it
    heartbeat: float = 10.0
    suspect: float = 60.0
    lost: float = 90.0
    stop_fenced: float = 8.0
    stop_ended: float = 300.0
    prefect_answers: float = math.inf  # for how long it has answered: without it nothing begins, and that is no silence

    def to_begin(self, attempt: "AttemptFacts") -> float:
        """Return how long a sent attempt may be quiet before it begins.

        Where others of its pool begin, it waits in their queue: it is given the time in which the pool, at its speed of
        the last `start` seconds, begins all of them. Where none has begun for so long, nothing explains its silence.
        """
        queue = attempt.pool_waits / attempt.pool_began if attempt.pool_began else 0.0
        return self.start * (1 + min(queue, LONGEST_QUEUE))

    @property
    def missed(self) -> float:
        """Return after how long a flow run has certainly missed a heartbeat."""
        return min(BEATS_UNTIL_MISSED * self.heartbeat, self.suspect)

    @property
    def gap(self) -> float:
        """Return after how long without listening silence counts anew. A shorter gap costs a heartbeat or two."""
        return self.lost / GAPS_UNTIL_LOST


@dataclass(frozen=True)
class AttemptFacts:
    """One attempt as the database has it.

    `quiet_seconds` is the time since it last did anything that we noticed, or since we listen again without a gap
    (`rules.listening`), whichever is shorter. `spoke` says whether it did anything since then. Of its pool,
    `pool_waits` were sent and have not begun, and `pool_began` began lately.
    """

    state: AttemptState
    quiet_seconds: float
    lease_expired: bool = False
    paused: bool = False
    cancelled: bool = False
    spoke: bool = True
    pool_waits: int = 0
    pool_began: int = 0

    @property
    def has_begun(self) -> bool:
        """Whether a flow run has taken the attempt's work."""
        return self.state not in UNSTARTED_ATTEMPTS


OVER = frozenset({FlowState.COMPLETED, FlowState.FAILED, FlowState.CRASHED, FlowState.CANCELLED, FlowState.MISSING})
BROKEN = frozenset({FlowState.FAILED, FlowState.CRASHED})


def decide(attempt: AttemptFacts, flow: FlowState, patience: Patience) -> Action:
    """Return the action of the row of the reconciler's table that applies."""
    match attempt.state:
        case AttemptState.READY:
            return Action.LEAVE
        case AttemptState.SENDING:
            return _sending(attempt, flow)
        case AttemptState.SENT:
            return _sent(attempt, flow, patience)
        case AttemptState.STARTED:
            return _started(attempt, flow, patience)
        case AttemptState.COMMITTED | AttemptState.FAILED | AttemptState.FENCED:
            return _ended(attempt, flow, patience)


def _sending(attempt: AttemptFacts, flow: FlowState) -> Action:
    if not attempt.lease_expired or flow is FlowState.UNKNOWN:
        return Action.LEAVE
    return Action.RETURN if flow is FlowState.MISSING else Action.LINK


def _sent(attempt: AttemptFacts, flow: FlowState, patience: Patience) -> Action:
    """Judge an attempt that was sent and did not begin. A pause holds starts: then only its end counts.

    A start that is held asks again and again, which we notice. One that says nothing for so long has no process.
    """
    over = _over_without_outcome(flow)
    if over is not Action.LEAVE:
        return over if attempt.quiet_seconds >= _until_believed(attempt, patience) else Action.LEAVE
    if attempt.paused or min(attempt.quiet_seconds, patience.prefect_answers) < patience.to_begin(attempt):
        return Action.LEAVE
    if flow is FlowState.SCHEDULED:
        return Action.WARN  # no worker takes it: another attempt would wait in the same queue
    return Action.LOSE if flow in {FlowState.PENDING, FlowState.RUNNING} else Action.LEAVE


def _started(attempt: AttemptFacts, flow: FlowState, patience: Patience) -> Action:
    """Judge a started attempt by its heartbeat; Prefect's word shortens the wait, once it can be believed.

    Who beats is quiet for a whole heartbeat each time. No automation's mark must end what is between two of them.
    """
    over = _over_without_outcome(flow)
    if over is not Action.LEAVE:
        missed = patience.heartbeat if over is Action.CANCEL else patience.missed  # that is somebody's order
        believed = max(missed, _until_believed(attempt, patience))
        return over if attempt.quiet_seconds >= believed else Action.LEAVE
    if attempt.quiet_seconds >= patience.lost:
        return Action.LOSE
    return Action.WARN if attempt.quiet_seconds >= patience.suspect else Action.LEAVE


def _until_believed(attempt: AttemptFacts, patience: Patience) -> float:
    """Return how long an attempt must be quiet before Prefect's word about it is believed.

    After a gap it has to find its way back to us first. Prefect may have been away together with us and have missed
    signs of life as we did: then it says of healthy flow runs that they crashed.
    """
    return patience.heartbeat if attempt.spoke else patience.suspect


def _over_without_outcome(flow: FlowState) -> Action:
    if flow in BROKEN or flow is FlowState.MISSING:
        return Action.LOSE
    if flow is FlowState.COMPLETED:
        return Action.FAIL_ENDED
    if flow in {FlowState.CANCELLED, FlowState.OVERSTAYING}:  # the order stands, be it that nobody was left to hear it
        return Action.CANCEL
    return Action.LEAVE


def _ended(attempt: AttemptFacts, flow: FlowState, patience: Patience) -> Action:
    if flow in OVER:
        return Action.DISPOSE
    if attempt.cancelled and flow is FlowState.SCHEDULED:
        return Action.STOP_FLOW  # it waits in its queue: no process has to be given time
    if flow is FlowState.OVERSTAYING:
        return Action.STOP_FLOW  # it has had its time
    allowed = patience.stop_fenced if attempt.state is AttemptState.FENCED else patience.stop_ended
    if flow in {FlowState.UNKNOWN, FlowState.CANCELLING} or attempt.quiet_seconds < allowed:
        return Action.LEAVE
    return Action.STOP_FLOW
