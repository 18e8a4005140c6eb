"""Keeps the condition of one service: how often it was restarted, what failed last, how long to pause.

Knows processes by their exit codes and logs by their last lines, and starts nothing.
"""

import json
import signal
import time
from dataclasses import dataclass
from pathlib import Path

FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 30.0
STEADY_SECONDS = 10.0  # of a service that died after as long its start was not what failed
TAIL_BYTES = 4096
LAST_LINES = 3
LONGEST_WORDS = 600


@dataclass
class Condition:
    """One service, as `cairn status` shows it. `failures` counts those in a row, which the pause grows with."""

    restarts: int = 0
    failures: int = 0
    reason: str | None = None
    reason_at: str | None = None

    def failed(self, reason: str, ready_seconds: float) -> float:
        """Note a failure of a service that was ready for so long; returns how long to wait before the next start."""
        if ready_seconds >= STEADY_SECONDS:
            self.failures = 0
        self.say(reason)
        self.failures += 1
        return pause_seconds(self.failures)

    def left(self, reason: str) -> float:
        """Note that a ready service ended in order, as a drained worker does.

        That is no failure: the next start waits the shortest pause, and pauses grow no further.
        """
        self.say(reason)
        return FIRST_PAUSE_SECONDS

    def say(self, reason: str) -> None:
        """Note what is or was wrong."""
        self.reason, self.reason_at = reason, time.strftime("%Y-%m-%d %H:%M:%S")


def pause_seconds(failures: int) -> float:
    """The wait before the next start: it doubles with each failure in a row, up to half a minute."""
    return min(FIRST_PAUSE_SECONDS * 2.0 ** min(failures - 1, 10), LONGEST_PAUSE_SECONDS)


def ended(code: int | None) -> str:
    """How a process ended, in words."""
    if code is None:
        return "ended"
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


def last_words(log: Path) -> str:
    """The last lines of a log on one line, without what could move a terminal's cursor. Empty where there are none."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - TAIL_BYTES))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return ""
    told = [_words(line.strip()) for line in lines if line.strip()][-LAST_LINES:]
    words = "".join(letter if letter.isprintable() else " " for letter in " | ".join(told))
    words = words.strip()
    return words if len(words) <= LONGEST_WORDS else f"…{words[-LONGEST_WORDS:]}"


def _words(line: str) -> str:
    """Return message and error of a JSON log line; other lines as they are."""
    try:
        facts = json.loads(line)
        told = [str(facts[name]).splitlines()[-1] for name in ("message", "error", "exception") if facts.get(name)]
        return " ".join(told) or line
    except (ValueError, TypeError, AttributeError):
        return line


def with_last_words(reason: str, log: Path) -> str:
    """The reason, and how the log ends."""
    words = last_words(log)
    return f"{reason}; its log ends with: {words}" if words else f"{reason}; its log is empty"
