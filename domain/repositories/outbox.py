"""The relay's view of the database: which attempts to send, leases on them, and what became of the sending.

Which ones is decided by `domain/rules/fairness.py`. Two relays that decide at once may overshoot a room by a batch: a
lock on counting would cost every claim.
"""

import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from uuid import UUID

import psycopg
from sqlalchemy import TextClause, text
from sqlalchemy.ext.asyncio import AsyncSession

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
IS_SENT = f"""
    set flow_run_id = coalesce(a.flow_run_id, told.flow_run_id),
        state = {sql_after(ATTEMPT, AttemptEvent.SENT, "a.state")},
        sent_at = clock_timestamp(),
        lease_until = null,
        disposed_at = null
"""
CAN_BE_SENT = f"a.state in {sql_list(ATTEMPT.sources(AttemptEvent.SENT))}"
TOLD = """
    select * from unnest(cast(:run_ids as uuid[]), cast(:numbers as int[]), cast(:flow_run_ids as uuid[]))
        as told (run_id, number, flow_run_id)
"""
SENT = text(f"""
    update app.attempts a {IS_SENT} from ({TOLD}) told
    where a.run_id = told.run_id and a.number = told.number and {CAN_BE_SENT}
    returning a.run_id, a.pool
""")
# What another transaction holds is passed over: waiting for several rows at once could be waiting in a circle.
SENT_TOGETHER = text(f"""
    with told as ({TOLD}), free as (
        select a.run_id, a.number from told join app.attempts a using (run_id, number)
        where {CAN_BE_SENT} for update of a skip locked
    )
    update app.attempts a {IS_SENT} from told join free using (run_id, number)
    where a.run_id = told.run_id and a.number = told.number
    returning a.run_id, a.pool
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
        values = {"run_ids": [run_id], "numbers": [number], "flow_run_ids": [flow_run_id]}
        await _note_sent(session, SENT, values)


async def link_together(database: Database, made: Sequence[tuple[Dispatch, UUID]]) -> None:
    """Note the flow runs that were created for these attempts, those that are held by others one by one."""
    values = {
        "run_ids": [dispatch.run_id for dispatch, _ in made],
        "numbers": [dispatch.number for dispatch, _ in made],
        "flow_run_ids": [flow_run_id for _, flow_run_id in made],
    }
    async with database.transaction("link") as session:
        linked = await _note_sent(session, SENT_TOGETHER, values)
    for dispatch, flow_run_id in made:
        if dispatch.run_id not in linked:
            await link(database, dispatch.run_id, dispatch.number, flow_run_id)


async def _note_sent(session: AsyncSession, statement: TextClause, values: Mapping[str, object]) -> set[UUID]:
    """Which runs' attempts were noted as sent; the workers of their pools are told."""
    rows = (await session.execute(statement, values)).all()
    after_commit(session).sent |= {row.pool for row in rows}
    return {row.run_id for row in rows}


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
