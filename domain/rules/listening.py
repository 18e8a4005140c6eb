"""Since when the platform has listened to its workers without a gap. Pure.

Silence tells nothing of who could not be heard. Each process of the domain notes in the database, again and again, that
it is there to take heartbeats; here the notes of all of them become one moment, from which silence counts.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

NOTES_A_GAP = 5  # how often a process notes that it listens, in the time after which a gap is one


@dataclass(frozen=True)
class Span:
    """A time in which one process listened, as far as it could note it. By the database's clock."""

    since: datetime
    noted_at: datetime


@dataclass(frozen=True)
class Moment:
    """The time of a look at the database, and since when there had been no gap in listening."""

    now: datetime
    since: datetime

    @property
    def seconds(self) -> float:
        """How long there has been no gap."""
        return (self.now - self.since).total_seconds()


def moment(now: datetime, spans: Iterable[Span], gap_seconds: float) -> Moment:
    """Combine the notes of all processes: a gap is a time in which none of them listened.

    A span from the future is left out: the clock was put back, and whose note it was may have died since.
    """
    gap, since = timedelta(seconds=gap_seconds), now
    for span in sorted(spans, key=lambda span: span.noted_at, reverse=True):
        if span.noted_at > now + gap:
            continue
        if since - span.noted_at > gap:
            break
        since = min(since, span.since)
    return Moment(now, since)
