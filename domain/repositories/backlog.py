"""What waits to be sent and what is in flight, as the rule of fairness asks, and the taking of what it chose.

Nothing here reads or sorts the whole backlog. The index of lanes is entered once for each lane, and only the oldest of
each are read, so that a claim touches no more rows where a thousand times as many wait.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import RowMapping, text
from sqlalchemy.ext.asyncio import AsyncSession

from domain.models.transitions import sql_after
from domain.repositories.controls import Controls, is_held
from domain.rules.control import scope_name
from domain.rules.fairness import Lane, Load, PoolRoom, Terms, Waiting, room
from domain.rules.lifecycle import ATTEMPT, ATTEMPTS_IN_FLIGHT, AttemptEvent, sql_list
from flows.pools import INLINE, POOLS

SOON_SECONDS = 30.0  # a run inside a worker that began longer ago waits for something, or keeps one thread busy
HEARD_SECONDS = 25.0
COLUMNS = "pool, work_pool, priority, platform_id, workflow_id"
SINCE = "coalesce(a.not_before, a.created_at)"  # as the index of lanes has it; what rests comes last in its lane
READY, SENDING = ATTEMPT.sources(AttemptEvent.CLAIMED)
IS_IN_LINE = f"a.state = '{READY}' and a.awaits is null"
IS_DUE = f"{IS_IN_LINE} and {SINCE} <= statement_timestamp()"
IS_OVERDUE = f"a.state = '{SENDING}' and a.lease_until < clock_timestamp()"  # a relay took it and did not send it
OF_LANE = (
    "a.pool = l.pool and a.work_pool = l.work_pool and a.priority = l.priority"
    " and a.platform_id = l.platform_id and a.workflow_id = l.workflow_id"
)
# How much waits changes faster than what the planner knows of it. It would rather read and sort all of few rows than
# follow an index, and then do so with many.
BY_INDEX = text("""
    select set_config(name, 'off', true)
    from unnest(array['enable_seqscan', 'enable_bitmapscan', 'enable_hashjoin', 'enable_mergejoin']) as name
""")
# From lane to lane by the index, instead of over all that wait.
WAITING = text(f"""
    with recursive lanes as (
        (select {COLUMNS} from app.attempts a where {IS_IN_LINE} order by {COLUMNS} limit 1)
        union all
        select n.* from lanes l cross join lateral (
            select {COLUMNS} from app.attempts a
            where {IS_IN_LINE}
              and ({COLUMNS}) > (l.pool, l.work_pool, l.priority, l.platform_id, l.workflow_id)
            order by {COLUMNS} limit 1
        ) n
    )
    select l.*, array(
        select extract(epoch from clock_timestamp() - {SINCE})::float from app.attempts a
        where {IS_DUE} and {OF_LANE}
        order by {SINCE} limit :batch
    ) as waited
    from lanes l
""")  # noqa: S608 - the parts are the constants above
# A run whose nodes are all at work elsewhere needs nothing of its own pool. Until it has begun, and for a moment after,
# nobody knows what it will need next.
IN_FLIGHT = text(f"""
    select {", ".join(f"a.{name}" for name in COLUMNS.split(", "))}, count(*) as in_flight,
        count(*) filter (where not away) as at_home,
        count(*) filter (where not away and (is_new or a.pool <> all(cast(:inline as text[])))) as busy,
        count(*) filter (where is_new or coalesce(n.there, false)) as at_work
    from app.attempts a
    left join lateral (
        select bool_or(n.pool = a.pool) as here, bool_or(n.pool <> a.pool) as elsewhere,
               bool_or(n.pool = a.work_pool) as there
        from app.run_nodes n
        where a.state = 'started' and n.run_id = a.run_id and n.state in ('dispatched', 'running')
    ) n on true
    cross join lateral (select
        coalesce(n.elsewhere and not n.here, false) as away,
        a.state <> 'started'
            or coalesce(a.started_at > clock_timestamp() - make_interval(secs => :soon), false) as is_new
    ) judged
    where a.state in {sql_list(ATTEMPTS_IN_FLIGHT)}
    group by {", ".join(f"a.{name}" for name in COLUMNS.split(", "))}
""")  # noqa: S608 - the parts are the constants above
SHARES = text("select platform_id, share from app.platforms where share <> 1")
# Where no worker is heard of now, the pool is as large as by the one that was heard of last.
WORKERS = text("""
    select pool, at_once, seen_at > clock_timestamp() - make_interval(secs => :heard) as is_here
    from app.pool_workers where pool = any(cast(:pools as text[])) order by seen_at desc
""")
TAKEN = f"""
    , taken as (
        update app.attempts a
        set state = {sql_after(ATTEMPT, AttemptEvent.CLAIMED, "a.state")}, dispatch_tries = dispatch_tries + 1,
            lease_until = clock_timestamp() + make_interval(secs => :lease)
        from due where a.run_id = due.run_id and a.number = due.number
        returning a.run_id, a.number, a.token, due.place
    )
    select t.run_id, t.number, t.token, r.workflow_id, r.priority, r.request_id, q.platform_id, q.asset_id, v.label,
           q.revision
    from taken t join app.runs r using (run_id) join app.requests q using (request_id)
    left join app.asset_versions v on v.asset_id = q.asset_id and v.ordinal = q.ordinal
    order by t.place
"""  # noqa: S608 - our own words
# Relays that chose at once need not find the same ones locked: what one holds, the next passes over. No row stays
# locked while Prefect is asked.
TAKE = text(f"""
    with due as (
        select a.run_id, a.number, l.place
        from unnest(
            cast(:pools as text[]), cast(:work_pools as text[]), cast(:priorities as text[]),
            cast(:platforms as text[]), cast(:workflows as text[]), cast(:wanted as int[])
        ) with ordinality as l (pool, work_pool, priority, platform_id, workflow_id, wanted, place)
        cross join lateral (
            select a.run_id, a.number from app.attempts a
            where {IS_DUE} and {OF_LANE}
            order by {SINCE} limit l.wanted for update skip locked
        ) a
    ) {TAKEN}
""")  # noqa: S608 - the parts are the constants above
# What a relay took and did not send. It was chosen once and is in flight: it needs no room again.
TAKE_AGAIN = text(f"""
    with due as (
        select a.run_id, a.number, 0 as place from app.attempts a
        where {IS_OVERDUE} and not {is_held("a.workflow_id", "a.platform_id")}
        limit :batch for update skip locked
    ) {TAKEN}
""")  # noqa: S608 - the parts are the constants above


@dataclass(frozen=True)
class Backlog:
    session: AsyncSession

    async def by_index(self) -> None:
        """Have what follows in this transaction find its rows by indexes, however few there seem to be."""
        await self.session.execute(BY_INDEX)

    async def waiting(self, batch: int) -> list[Waiting]:
        """Every lane that something is due in, with its oldest."""
        rows = await self.session.execute(WAITING, {"batch": batch})
        return [Waiting(Lane(*row[:5]), row.waited) for row in rows if row.waited]

    async def loads(self) -> dict[Lane, Load]:
        """What is in flight, by lane."""
        inline = [name for name, pool in POOLS.items() if pool.worker_type == INLINE]
        rows = await self.session.execute(IN_FLIGHT, {"inline": inline, "soon": SOON_SECONDS})
        return {Lane(*row[:5]): Load(*row[5:]) for row in rows}

    async def terms(self, pools: Sequence[str], in_flight: int) -> Terms:
        """What operators and workers say now."""
        paused, limits = await Controls(self.session).of_dispatch()
        shares = {row.platform_id: row.share for row in await self.session.execute(SHARES)}
        return Terms(
            rooms=await self._rooms(pools, in_flight, limits),
            paused=paused,
            limits=limits,
            shares=shares,
        )

    async def take(self, chosen: Sequence[Lane], lease_seconds: float) -> Sequence[Any]:
        """Take a lease on the oldest of these lanes that nobody else is taking, in this order."""
        wanted = Counter(chosen)
        columns = zip(
            *((one.pool, one.work_pool, one.priority, one.platform, one.workflow) for one in wanted), strict=True
        )
        names = ("pools", "work_pools", "priorities", "platforms", "workflows")
        values = dict(zip(names, map(list, columns), strict=True))
        rows = await self.session.execute(TAKE, values | {"wanted": list(wanted.values()), "lease": lease_seconds})
        return rows.all()

    async def take_again(self, batch: int, lease_seconds: float) -> Sequence[Any]:
        """Take over what another relay took and did not send in its time."""
        return (await self.session.execute(TAKE_AGAIN, {"batch": batch, "lease": lease_seconds})).all()

    async def _rooms(self, pools: Sequence[str], in_flight: int, limits: Mapping[str, int]) -> dict[str, PoolRoom]:
        rows = (await self.session.execute(WORKERS, {"pools": list(pools), "heard": HEARD_SECONDS})).mappings().all()
        of_pool = {pool: _at_once([row for row in rows if row["pool"] == pool]) for pool in pools}
        return {pool: room(limits.get(scope_name(pool=pool), in_flight), at_once) for pool, at_once in of_pool.items()}


def _at_once(workers: Sequence[RowMapping]) -> list[int | None]:
    """What each worker says; without one that is here, the one that was heard of last."""
    here = [row["at_once"] for row in workers if row["is_here"]]
    return here or [row["at_once"] for row in workers[:1]]
