"""How long a try may go on: until its time is up or the run stops, and then a little longer to leave by itself."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

from flows.errors import HandlerError, Stopped, TimedOut

GRACE_SECONDS = 10.0
LOOK_SECONDS = 0.2


def usual_grace() -> float:
    """How long a try may take to leave, where nobody says otherwise."""
    return GRACE_SECONDS


class Step(Enum):
    """What whoever waits for a try does next."""

    WAIT = auto()
    ASK = auto()
    GIVE_UP = auto()


@dataclass
class Patience:
    """One try's time. Knows no clock: it is told what time it is."""

    begun: float
    timeout_seconds: float
    grace_seconds: Callable[[], float] = usual_grace
    why: HandlerError | None = None
    _until: float = math.inf

    def look(self, now: float, stopping: bool) -> Step:
        """Wait on, ask the try to leave (once), or give it up."""
        if self.why is not None:
            return Step.GIVE_UP if now >= self._until else Step.WAIT
        if stopping:
            self.why = Stopped("The run was asked to stop.")
        elif now >= self.begun + self.timeout_seconds:
            self.why = TimedOut(f"The try took longer than its {self.timeout_seconds:g} s.")
        else:
            return Step.WAIT
        self._until = now + self.grace_seconds()
        return Step.ASK

    def pause(self, now: float) -> float:
        """How long to wait before the next look."""
        due = self._until if self.why else self.begun + self.timeout_seconds
        return min(LOOK_SECONDS, max(0.0, due - now))

    def check(self) -> None:
        """Called when an answer came: one that came after its time counts for nothing, one during a stop counts."""
        if isinstance(self.why, TimedOut):
            raise self.why
