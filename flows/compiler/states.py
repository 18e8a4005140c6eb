"""The states of a node and the ways between them. The table is the whole law; nobody else decides what may follow."""

from collections.abc import Mapping
from enum import StrEnum


class State(StrEnum):
    PENDING = "pending"
    READY = "ready"
    DISPATCHED = "dispatched"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"

    @property
    def is_terminal(self) -> bool:
        """Whether successors may be decided. A failed node may still be retried before anybody calls it failed."""
        return self in _TERMINAL


_TERMINAL = frozenset((State.COMPLETED, State.FAILED, State.SKIPPED, State.CANCELLED))

TRANSITIONS: Mapping[State, frozenset[State]] = {
    State.PENDING: frozenset((State.READY, State.SKIPPED, State.CANCELLED)),
    State.READY: frozenset((State.DISPATCHED, State.COMPLETED, State.FAILED, State.SKIPPED, State.CANCELLED)),
    State.DISPATCHED: frozenset((State.RUNNING, State.FAILED, State.CANCELLED)),
    State.RUNNING: frozenset((State.COMPLETED, State.FAILED, State.CANCELLED)),
    State.FAILED: frozenset((State.READY,)),
    State.COMPLETED: frozenset(),
    State.SKIPPED: frozenset(),
    State.CANCELLED: frozenset(),
}
