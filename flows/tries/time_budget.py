"""How long a try may go on: until its time is up or the run stops, and then a little longer to leave by itself.

And how long it is worth to wait for what is ours and away. Here stand all budgets of a stop, of handlers, flow runs and
workers, because they nest: whoever waits for another has time left, when that one's is up, to see it gone and to tell
how it ended.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from flows.handlers.errors import HandlerError, Stopped, TimedOut
from flows.runs.stopping import Reason

GRACE_SECONDS = 10.0  # after a timeout
LOOK_SECONDS = 0.2

# A worker that drains has ended within 30 s. Its runs have handed over in the first of these, else they are ended.
RUNS_DRAIN_SECONDS: Final = 24.0
RUNS_ENDED_SECONDS: Final = 2.0  # to be gone, of those that were ended
WORKER_ENDED_SECONDS: Final = 29.0  # since it was told to end: whatever is then left waits for nobody
RUN_RECORDED_SECONDS: Final = 4.0  # for Prefect to hear how a run ended that was torn off
HANDLER_DRAIN_SECONDS: Final = 18.0

# A light run that is cancelled in Prefect has ended within 10 s: it is seen, told to leave, and torn off at last.
CANCEL_LOOK_SECONDS: Final = 1.5
RUN_CANCEL_SECONDS: Final = 7.0
HANDLER_CANCEL_SECONDS: Final = 4.0

TRY_LEAVE_SECONDS: Final = 1.5  # after a handler's grace: by then it was killed or given up
# What is ours, the domain, a database, storage, a disk, may be away for so long before work that needs it fails. Nobody
# who waits asks more often than that something that comes back is found by all of them soon, and not by all at once.
OUTAGE_SECONDS: Final = 3600.0
FIRST_WAIT_SECONDS: Final = 0.5
LONGEST_WAIT_SECONDS: Final = 15.0

BROKER_LEAVE_SECONDS: Final = 5.0  # a transfer notices between two pieces that its try is over; its run does not wait


def grace_seconds(reason: Reason | None) -> float:
    """How long a handler may take to save its work and leave. Without a reason it was its time that was up."""
    match reason:
        case None:
            return usual_grace()
        case "draining":
            return HANDLER_DRAIN_SECONDS
        case "fenced" | "over" | "cancelled":
            return HANDLER_CANCEL_SECONDS


def usual_grace() -> float:
    """How long a try may take to leave, where nobody says otherwise."""
    return GRACE_SECONDS


@dataclass
class Outlasting:
    """One piece of work's time to wait for what is ours and away. Knows no clock: it is told what time it is."""

    allowed_seconds: float = OUTAGE_SECONDS
    since: float | None = None
    _longest: float = FIRST_WAIT_SECONDS

    def pause(self, now: float, spread: float) -> float | None:
        """How long to wait before asking again; None once it has been away for too long. `spread` is 0 to 1."""
        self.since = now if self.since is None else self.since
        if now - self.since >= self.allowed_seconds:
            return None
        longest, self._longest = self._longest, min(2 * self._longest, LONGEST_WAIT_SECONDS)
        return longest * (1 + spread) / 2

    def seconds(self, now: float) -> float:
        """For how long it has been away."""
        return 0.0 if self.since is None else now - self.since


class WaitStep(Enum):
    """What whoever waits for a try does next."""

    WAIT = auto()
    ASK = auto()
    GIVE_UP = auto()


@dataclass
class TimeBudget:
    """One try's time. Knows no clock: it is told what time it is."""

    begun: float
    timeout_seconds: float
    grace_seconds: Callable[[], float] = usual_grace
    why: HandlerError | None = None
    _until: float = math.inf

    def next_step(self, now: float, stopping: bool) -> WaitStep:
        """Say whether to wait on, to ask the try to leave (once), or to give it up."""
        if self.why is not None:
            if stopping:  # which may leave it less than a timeout did
                self._until = min(self._until, now + self.grace_seconds())
            return WaitStep.GIVE_UP if now >= self._until else WaitStep.WAIT
        if stopping:
            self.why = Stopped("The run was asked to stop.")
        elif now >= self.begun + self.timeout_seconds:
            self.why = TimedOut(f"The try took longer than its {self.timeout_seconds:g} s.")
        else:
            return WaitStep.WAIT
        self._until = now + self.grace_seconds()
        return WaitStep.ASK

    def seconds_to_next_step(self, now: float) -> float:
        """How long to wait before asking for the next step."""
        due = self._until if self.why else self.begun + self.timeout_seconds
        return min(LOOK_SECONDS, max(0.0, due - now))

    def refuse_late_answer(self) -> None:
        """Raise where an answer came after the try's time. One that came during a stop counts."""
        if isinstance(self.why, TimedOut):
            raise self.why
