"""The relay's view of the database: which attempts to send, leases on them, and what became of the sending."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from uuid import UUID

import psycopg
from sqlalchemy import text

from domain.database_address import DatabaseAddress
from domain.db import Database
from flows.segments import GDAL, LIGHT

DISPATCH_CHANNEL = "cairn_dispatch"
LEASE_SECONDS = 60
IN_FLIGHT = (
    200  # Prefect looks at 200 waiting runs at a time; more than that delays runs that have nothing to do with it
)

# Which attempts are due: not at rest nor awaiting a worker, not paused, and with room on their pool, of their workflow
# and of their platform. `room` and `limited` count what is in flight, the latter only where operators have set such a
# limit; two relays that count at once may overshoot it by a batch, which a lock on counting would cost every claim.
# More candidates are looked at than are taken, so that relays which look at once need not find the same ones locked.
# Claimed here, sent after this transaction is over: no row stays locked while Prefect is asked.
CLAIM = text("""
    with room as (
        select pool.name, greatest(0, coalesce((s.value #>> '{}')::int, :in_flight) - (
            select count(*) from app.attempts a join app.runs r using (run_id)
            where r.pool = pool.name
              and (a.state in ('sent', 'started') or (a.state = 'sending' and a.lease_until >= clock_timestamp()))
        )) as free
        from unnest(cast(:pools as text[])) as pool (name)
        left join app.settings s on s.kind = 'in_flight' and s.name = 'pool:' || pool.name
    ), limited as materialized (
        select s.name, greatest(0, (s.value #>> '{}')::int - (
            select count(*)
            from app.attempts a join app.runs r using (run_id) join app.requests q using (request_id)
            where s.name in ('workflow:' || r.workflow_id, 'platform:' || q.platform_id)
              and (a.state in ('sent', 'started') or (a.state = 'sending' and a.lease_until >= clock_timestamp()))
        )) as free
        from app.settings s
        where s.kind = 'in_flight' and (s.name like 'workflow:%' or s.name like 'platform:%')
    ), candidates as (
        select c.run_id, c.number, c.place, c.created_at, c.workflow, c.platform,
               row_number() over (partition by c.workflow order by c.place, c.created_at) as of_workflow,
               row_number() over (partition by c.platform order by c.place, c.created_at) as of_platform
        from room, lateral (
            select a.run_id, a.number, a.created_at,
                   'workflow:' || r.workflow_id as workflow, 'platform:' || q.platform_id as platform,
                   case r.priority when 'high' then 0 when 'normal' then 1 else 2 end as place
            from app.attempts a join app.runs r using (run_id) join app.requests q using (request_id)
            where (a.state = 'ready' or (a.state = 'sending' and a.lease_until < clock_timestamp()))
              and a.awaits is null and coalesce(a.not_before <= clock_timestamp(), true)
              and r.pool = room.name
              and not exists (
                  select from app.settings s
                  where s.kind = 'pause'
                    and s.name in ('*', 'workflow:' || r.workflow_id, 'platform:' || q.platform_id)
              )
              and not exists (
                  select from limited l
                  where l.free = 0 and l.name in ('workflow:' || r.workflow_id, 'platform:' || q.platform_id)
              )
            order by place, a.created_at
            limit least(room.free, 4 * :batch)
        ) c
    ), due as (
        select a.run_id, a.number
        from app.attempts a join candidates c using (run_id, number)
        where (a.state = 'ready' or (a.state = 'sending' and a.lease_until < clock_timestamp()))
          and not exists (
              select from limited l
              where (l.name = c.workflow and c.of_workflow > l.free) or (l.name = c.platform and c.of_platform > l.free)
          )
        order by c.place, c.created_at
        limit :batch
        for update of a skip locked
    )
    update app.attempts a
    set state = 'sending', dispatch_tries = dispatch_tries + 1,
        lease_until = clock_timestamp() + make_interval(secs => :lease)
    from due, app.runs r, app.requests q
    left join app.asset_versions v on v.asset_id = q.asset_id and v.ordinal = q.ordinal
    where a.run_id = due.run_id and a.number = due.number and r.run_id = a.run_id and q.request_id = r.request_id
    returning a.run_id, a.number, a.token, r.workflow_id, r.priority, r.request_id, q.platform_id, q.asset_id, v.label,
              q.revision
""")

# `sending` becomes `sent` only if the flow has not reported first; its id is written where none is known, for an
# attempt that was fenced meanwhile too: only what is linked is stopped.
SENT = text("""
    update app.attempts
    set flow_run_id = coalesce(flow_run_id, :flow_run_id),
        state = case when state = 'sending' then 'sent' else state end,
        sent_at = clock_timestamp(),
        lease_until = null,
        disposed_at = null
    where run_id = :run_id and number = :number and state in ('sending', 'started', 'fenced')
""")

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


async def claim(
    database: Database, batch: int, in_flight: int = IN_FLIGHT, lease_seconds: float = LEASE_SECONDS
) -> Sequence[Dispatch]:
    """Take a lease on attempts that are due. A lease that runs out hands them to the next relay."""
    values = {"lease": lease_seconds, "batch": batch, "in_flight": in_flight, "pools": [LIGHT, GDAL]}
    async with database.transaction() as session:
        claimed = [Dispatch(*row) for row in await session.execute(CLAIM, values)]
        session.info["unit"] = "claim" if claimed else ""
    return claimed


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
