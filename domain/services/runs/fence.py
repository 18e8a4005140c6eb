"""The locks under which runs change, taken in one order, and the tokens that say whose word counts.

The order is: the asset where there is one, the request, its runs in their sequence, their attempts. Runs of one request
end side by side; whoever changes one of them holds the request's lock first, so that no two wait for each other.
"""

from typing import Any
from uuid import UUID

from sqlalchemy import func
from sqlalchemy.ext.asyncio import AsyncSession

from domain.errors import Fenced
from domain.models import Attempt, Request, Run
from domain.models.transitions import transition
from domain.repositories.requests import Requests
from domain.repositories.runs import Runs
from domain.rules.lifecycle import AttemptEvent, AttemptState, IllegalTransition, RunEvent
from domain.services.lookups import no_run


async def locked_run(session: AsyncSession, run_id: UUID) -> tuple[Request, Run]:
    """The request and its run, locked one after the other."""
    request = await Requests(session).of_run(run_id)
    run = await Runs(session).get(run_id, lock=True) if request else None
    if request is None or run is None:
        raise no_run(run_id)
    return request, run


async def fenced(session: AsyncSession, run_id: UUID, token: str) -> tuple[Run, Attempt]:
    """The run and the attempt of this token, locked, and before both of them the request."""
    _, run = await locked_run(session, run_id)
    attempt = await Runs(session).attempt(run_id, token)
    if attempt is None:
        raise Fenced("This token belongs to no attempt of the run.")
    return run, attempt


def end_attempt(session: AsyncSession, attempt: Attempt, event: AttemptEvent) -> None:
    try:
        transition(attempt, event)
    except IllegalTransition as refused:
        raise Fenced(f"This attempt is {attempt.state.value}; its outcome is not taken.") from refused
    attempt.finished_at = func.clock_timestamp()
    if attempt.state is not AttemptState.COMMITTED:
        Runs(session).tell_fenced(attempt.run_id)


def reopen(run: Run) -> None:
    """Have a run that has ended wait again. What it made is no outcome any more."""
    transition(run, RunEvent.REOPENED)
    run.outputs = run.problem = run.reason = run.finished_at = None


def tell(session: AsyncSession, run: Run, kind: str, **details: Any) -> None:
    """An event of the run, for the timeline of its request."""
    Requests(session).add_event(run.request_id, kind, run_id=run.run_id, **details)
