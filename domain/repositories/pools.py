"""Which pools are served, and which runs wait for one that is not."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import RowMapping, text
from sqlalchemy.ext.asyncio import AsyncSession

from domain.contracts.pools import Beacon
from domain.repositories.controls import is_held
from domain.repositories.holds import QUEUE, is_held_by_prefect
from domain.rules.lifecycle import UNSTARTED_ATTEMPTS, sql_list
from domain.rules.listening import Moment

KEEP_SECONDS = 3600.0  # how long a worker that left is listed
OF_PREFECT = "prefect/"  # before the names of workers that only Prefect hears of

BEACON = text("""
    insert into app.pool_workers
        (pool, worker, seen_at, at_once, handlers, loop_lag_seconds, memory_mb, cpus, gpus)
    values (:pool, :worker, clock_timestamp(), :at_once, cast(:handlers as text[]), :loop_lag_seconds,
        :memory_mb, :cpus, :gpus)
    on conflict (pool, worker) do update
    set seen_at = excluded.seen_at, at_once = excluded.at_once, handlers = excluded.handlers,
        loop_lag_seconds = excluded.loop_lag_seconds,
        memory_mb = excluded.memory_mb, cpus = excluded.cpus, gpus = excluded.gpus
""")
# A worker that sends beacons is judged by them alone: Prefect counts it as online for long after its end.
HEARD_OF = text("""
    insert into app.pool_workers (pool, worker, seen_at)
    select :pool, :prefix || name, clock_timestamp() from unnest(cast(:names as text[])) as name
    where not exists (select from app.pool_workers where pool = :pool and worker = name)
    on conflict (pool, worker) do update set seen_at = excluded.seen_at
    returning worker
""")
PRUNE = text("delete from app.pool_workers where seen_at < clock_timestamp() - make_interval(secs => :keep)")

# A run waits for its own pool until it begins, and for another where a stretch of it was sent there. One that a worker
# without its handlers refused awaits one that says it has them, in each of its pools; of those that only Prefect hears
# of nobody knows. What a pause holds, of ours or of Prefect's, waits for people. Runs that are marked are looked
# at until their mark is gone, whatever became of them. How long one is marked counts from when we listened again: a
# worker that came before could not say so. A worker that tells how large its host is takes nothing that needs more.
WAITING = f"""
    with served as (
        select pool, worker, handlers, memory_mb, cpus, gpus from app.pool_workers
        where seen_at > cast(:now as timestamptz) - make_interval(secs => :silence)
    ), waiting as (
        select a.run_id, r.pool, null::text[] as awaits, {QUEUE} as queue, null::jsonb as needs
        from app.attempts a join app.runs r using (run_id) where a.state = 'sent'
        union all
        select a.run_id, n.pool, null, {QUEUE}, n.needs from app.attempts a join app.run_nodes n using (run_id)
        where a.state = 'started' and n.state = 'dispatched'
        union all
        select a.run_id, p.pool, a.awaits, {QUEUE}, null
        from app.attempts a join app.runs r using (run_id) cross join lateral (
            select r.pool union select n.pool from app.run_nodes n where n.run_id = a.run_id and n.pool is not null
        ) p
        where a.state = 'ready' and a.awaits is not null
    ), in_vain as (
        select w.run_id, min(w.pool) as pool, (array_agg(w.needs order by w.pool))[1] as needs
        from waiting w join app.runs r using (run_id) join app.requests q using (request_id)
        where not exists (
            select from served b where b.pool = w.pool
            and (w.awaits is null or b.handlers @> w.awaits
                 or (b.handlers is null and starts_with(b.worker, '{OF_PREFECT}')))
            and coalesce(b.memory_mb >= (w.needs->>'memory_mb')::float, true)
            and coalesce(b.cpus >= (w.needs->>'cpus')::float, true)
            and coalesce(b.gpus >= (w.needs->>'gpu')::float, true)
        ) and not {is_held("r.workflow_id", "q.platform_id")} and not {is_held_by_prefect("w.pool", "w.queue")}
        group by w.run_id
    ), looked_at as (
        select run_id from in_vain union select run_id from app.runs where unroutable_since is not null
        union select run_id from waiting where awaits is not null
    )
    select r.run_id, v.pool, case when r.unroutable_since is not null then extract(
        epoch from cast(:now as timestamptz) - greatest(r.unroutable_since, cast(:since as timestamptz))
    )::float end as marked_seconds,
        (select w.awaits from waiting w where w.run_id = r.run_id and w.awaits is not null limit 1) as awaits,
        v.needs, (
            select jsonb_build_object('memory_mb', max(b.memory_mb), 'cpus', max(b.cpus), 'gpu', max(b.gpus))
            from served b where b.pool = v.pool having count(*) > 0
        ) as largest
    from looked_at join app.runs r using (run_id) left join in_vain v using (run_id)
"""  # noqa: S608 - our own words
ALL = text(f"{WAITING} order by r.created_at limit :limit")
ONE = text(f"{WAITING} where r.run_id = :run_id")

POOLS = text(f"""
    select pool, count(distinct worker) filter (where worker is not null) as workers,
        coalesce(max(waiting), 0) as waiting, coalesce(max(unroutable), 0) as unroutable, max(loop_lag) as loop_lag
    from (
        select pool, worker, null::bigint as waiting, null::bigint as unroutable, loop_lag_seconds as loop_lag
        from app.pool_workers where seen_at > clock_timestamp() - make_interval(secs => :silence)
        union all
        select r.pool, null, count(*), null, null from app.attempts a join app.runs r using (run_id)
        where a.state in {sql_list(UNSTARTED_ATTEMPTS)} group by r.pool
        union all
        select unroutable_pool, null, null, count(*), null from app.runs where unroutable_since is not null
        group by unroutable_pool
    ) facts
    group by pool order by pool
""")  # noqa: S608 - our own words


@dataclass(frozen=True)
class Waits:
    """A run that waits in vain for a pool, or that was marked for it."""

    run_id: UUID
    pool: str | None = None
    marked_seconds: float | None = None
    awaits: list[str] | None = None  # handlers that it is not sent without
    needs: dict[str, float] | None = None  # what its child run needs of a host
    largest: dict[str, float | None] | None = None  # the most that workers of the pool have; None: there are none


@dataclass(frozen=True)
class Pools:
    session: AsyncSession

    async def beacon(self, pool: str, told: Beacon) -> None:
        """Note that the worker serves the pool now, with what it says of itself."""
        handlers = None if told.handlers is None else sorted(told.handlers)
        await self.session.execute(BEACON, told.model_dump() | {"pool": pool, "handlers": handlers})

    async def heard_of(self, pool: str, names: Collection[str]) -> bool:
        """Note workers that Prefect hears of and we never did; whether there is one."""
        values = {"pool": pool, "names": sorted(names), "prefix": OF_PREFECT}
        return (await self.session.execute(HEARD_OF, values)).first() is not None

    async def prune(self, keep_seconds: float = KEEP_SECONDS) -> None:
        """Forget workers that left."""
        await self.session.execute(PRUNE, {"keep": keep_seconds})

    async def waiting(self, silence_seconds: float, moment: Moment, limit: int = 1000) -> Sequence[Waits]:
        """Runs whose pool nobody serves and runs already marked for it, the oldest first, as they stood then."""
        rows = await self.session.execute(ALL, _then(silence_seconds, moment) | {"limit": limit})
        return [Waits(*row) for row in rows]

    async def waits(self, run_id: UUID, silence_seconds: float, moment: Moment) -> Waits:
        """How the one run stands."""
        row = (await self.session.execute(ONE, _then(silence_seconds, moment) | {"run_id": run_id})).first()
        return Waits(*row) if row else Waits(run_id)

    async def figures(self, silence_seconds: float) -> Sequence[RowMapping]:
        """Each pool's workers, and what waits for it."""
        return (await self.session.execute(POOLS, {"silence": silence_seconds})).mappings().all()


def _then(silence_seconds: float, moment: Moment) -> dict[str, object]:
    return {"silence": silence_seconds, "now": moment.now, "since": moment.since}
