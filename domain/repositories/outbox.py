"""The relay's view of the database: which attempts to send, leases on them, and what became of the sending.

Which ones is decided by `domain/rules/fairness.py`. Two relays that decide at once may overshoot a room by a batch: a
lock on counting would cost every claim.
"""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from uuid import UUID

import psycopg
from sqlalchemy import text

from domain.after_commit import after_commit
from domain.db import Database
from domain.models.transitions import sql_after
from domain.repositories.backlog import Backlog
from domain.rules.fairness import Turns, choose
from domain.rules.lifecycle import ATTEMPT, AttemptEvent, sql_list
from domain.shared.database_address import DatabaseAddress
from flows.pools import POOLS

DISPATCH_CHANNEL = "cairn_dispatch"
LEASE_SECONDS = 60
IN_FLIGHT = (
    200  # Prefect looks at 200 waiting runs at a time; more than that delays runs that have nothing to do with it
)

# `sending` becomes `sent` only if the flow has not reported first; its id is written where none is known, for an
# attempt that was fenced meanwhile too: only what is linked is stopped.
SENT = text(f"""
    update app.attempts
    set flow_run_id = coalesce(flow_run_id, :flow_run_id),
        state = {sql_after(ATTEMPT, AttemptEvent.SENT, "state")},
        sent_at = clock_timestamp(),
        lease_until = null,
        disposed_at = null
    where run_id = :run_id and number = :number and state in {sql_list(ATTEMPT.sources(AttemptEvent.SENT))}
""")  # noqa: S608 - our own words

LATER = text("""
    update app.attempts set lease_until = clock_timestamp() + make_interval(secs => :seconds)
    where run_id = :run_id and number = :number and state = 'sending'
""")


@dataclass(frozen=True)
class Dispatch:
    """One attempt to send, with what makes its flow run recognisable to an operator."""

    run_id: UUID
    number: int
    token: str
    workflow_id: str
    priority: str
    request_id: UUID
    platform_id: str | None
    asset_id: str | None
    label: str | None
    revision: int | None


@dataclass(frozen=True)
class Claimed:
    """What a relay took, and whether more waits that finds no room now."""

    dispatches: Sequence[Dispatch]
    is_full: bool = False


async def claim(
    database: Database, batch: int, in_flight: int = IN_FLIGHT, lease_seconds: float = LEASE_SECONDS
) -> Sequence[Dispatch]:
    """Take a lease on attempts that are due, as a relay that has just begun. A lease that runs out hands them on."""
    return (await claim_in_turn(database, batch, in_flight, lease_seconds, Turns())).dispatches


async def claim_in_turn(database: Database, batch: int, in_flight: int, lease_seconds: float, turns: Turns) -> Claimed:
    """Take a lease on attempts whose turn it is. A lease that runs out hands them to the next relay."""
    async with database.transaction() as session:
        backlog = Backlog(session)
        await backlog.by_index()
        rows = [*await backlog.take_again(batch, lease_seconds)]
        waiting = await backlog.waiting(batch) if len(rows) < batch else []
        if waiting:
            terms = await backlog.terms(list(POOLS), in_flight)
            waiting = terms.in_line(waiting)
            chosen = choose(waiting, await backlog.loads(), terms, turns, batch - len(rows), time.monotonic())
            rows += await backlog.take(chosen, lease_seconds) if chosen else []
        after_commit(session).failpoint = "claim" if rows else ""
    return Claimed([Dispatch(*row) for row in rows], is_full=bool(waiting) and not rows)


async def link(database: Database, run_id: UUID, number: int, flow_run_id: UUID) -> None:
    """Note the flow run that was created for an attempt."""
    async with database.transaction("link") as session:
        await session.execute(SENT, {"run_id": run_id, "number": number, "flow_run_id": flow_run_id})


async def retry_later(database: Database, dispatch: Dispatch, seconds: float) -> None:
    async with database.transaction() as session:
        await session.execute(LATER, {"run_id": dispatch.run_id, "number": dispatch.number, "seconds": seconds})


def deployment_name(workflow_id: str) -> str:
    """Flow and deployment are both named after the workflow."""
    return f"{workflow_id}/{workflow_id}"


def key(workflow_id: str, run_id: UUID, number: int) -> str:
    """The idempotency key of an attempt's flow run: ours alone, so that no partner can name another's."""
    return f"{deployment_name(workflow_id)}:{run_id}:{number}"


@asynccontextmanager
async def listener(address: DatabaseAddress) -> AsyncIterator[psycopg.AsyncConnection]:
    """A connection that hears of new attempts the moment they are committed."""
    connection = await address.connect(autocommit=True, application_name="cairn-relay")
    async with connection:
        await connection.execute(f"listen {DISPATCH_CHANNEL}")
        yield connection
