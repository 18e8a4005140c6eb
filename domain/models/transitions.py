"""The one gate through which the states of rows change. Everywhere else they are read, which
`tests/architecture/test_gates.py` holds everybody to.
"""

from enum import StrEnum
from typing import Any, overload

from domain.models.assets import Revision
from domain.models.requests import Request
from domain.models.runs import Attempt, Run
from domain.rules.lifecycle import (
    ATTEMPT,
    REQUEST,
    REVIEW,
    RUN,
    AttemptEvent,
    Event,
    RequestEvent,
    ReviewEvent,
    RunEvent,
    State,
    TransitionTable,
)

GATES: dict[type, tuple[TransitionTable[Any, Any], str]] = {
    Run: (RUN, "state"),
    Request: (REQUEST, "status"),
    Attempt: (ATTEMPT, "state"),
    Revision: (REVIEW, "approval"),
}


@overload
def transition(row: Run, event: RunEvent) -> None: ...
@overload
def transition(row: Request, event: RequestEvent) -> None: ...
@overload
def transition(row: Attempt, event: AttemptEvent) -> None: ...
@overload
def transition(row: Revision, event: ReviewEvent) -> None: ...
def transition(row: Run | Request | Attempt | Revision, event: StrEnum) -> None:
    """Let the event happen to the row, as its table has it. Refused where it may not happen now."""
    table, column = GATES[type(row)]
    setattr(row, column, table.transition(getattr(row, column), event))


def follow(revision: Revision, request: Request) -> None:
    """Have the revision be processed as far as the request that it is made for: it has no lifecycle of its own."""
    revision.processing = request.status


def sql_after(table: TransitionTable[State, Event], event: Event, column: str) -> str:
    """What `set column =` takes, for an update of rows that the event may happen to."""
    after = {state: table.transition(state, event) for state in table.sources(event)}
    if len(set(after.values())) == 1:
        return f"'{next(iter(after.values())).value}'"
    moved = " ".join(f"when '{state.value}' then '{to.value}'" for state, to in after.items() if to is not state)
    return f"case {column} {moved} else {column} end"
