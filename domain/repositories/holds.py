"""Which pools and queues Prefect holds, and which runs wait because of that, or of a pause or limit of ours."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from domain.repositories.controls import no_room_of, pauses_of
from domain.rules.holds import NO_ROOM, PAUSED, in_words, order_in_words
from domain.rules.lifecycle import UNSTARTED_ATTEMPTS, sql_list

# What is not said any more is gone; a hold that goes on is not written again.
NOTE = text("""
    with said as (
        select * from unnest(cast(:places as text[]), cast(:holds as text[])) as said (place, hold)
    ), gone as (
        delete from app.held_places where place not in (select place from said)
    )
    insert into app.held_places as known (place, hold) select place, hold from said
    on conflict (place) do update set hold = excluded.hold, since = excluded.since where known.hold <> excluded.hold
""")
IS_OF_INTEREST = text(f"""
    select exists (select from app.attempts where state in {sql_list(UNSTARTED_ATTEMPTS)})
        or exists (select from app.attempts a join app.run_nodes n using (run_id)
                   where a.state = 'started' and n.state = 'dispatched')
        or exists (select from app.held_places)
""")  # noqa: S608 - our own words
QUEUE = "case a.priority when 'urgent' then 'high' else a.priority end"
# A run waits on its own pool until it begins, and on a child run's where one was sent.
HELD = text(f"""
    with waiting as (
        select a.run_id, a.state = 'ready' as is_here, a.pool, {QUEUE} as queue,
            a.work_pool, a.workflow_id, a.platform_id
        from app.attempts a where a.run_id = any(cast(:run_ids as uuid[])) and a.state in {sql_list(UNSTARTED_ATTEMPTS)}
        union all
        select a.run_id, false, n.pool, {QUEUE}, a.work_pool, a.workflow_id, a.platform_id
        from app.attempts a join app.run_nodes n using (run_id)
        where a.run_id = any(cast(:run_ids as uuid[])) and a.state = 'started' and n.state = 'dispatched'
    )
    select w.run_id, held.name, held.hold, held.is_ours from waiting w cross join lateral (
        select name, '{PAUSED}' as hold, true as is_ours, 1 as rank
        from ({pauses_of("w.workflow_id", "w.platform_id")}) p
        union all
        select place, hold, false, 2 from app.held_places where place in (w.pool, w.pool || '/' || w.queue)
        union all
        select name, '{NO_ROOM}', true, 3
        from ({no_room_of("w.pool", "w.work_pool", "w.workflow_id", "w.platform_id")}) l where w.is_here
        order by rank, name limit 1
    ) held
    order by w.run_id, held.rank
""")  # noqa: S608 - our own words
NOW_HELD = text("select place, hold from app.held_places order by place")


def is_held_by_prefect(pool: str, queue: str) -> str:
    """Whether the pool or queue of these expressions gives nothing to workers, as a condition in SQL."""
    return f"exists (select from app.held_places h where h.place in ({pool}, {pool} || '/' || {queue}))"


@dataclass(frozen=True)
class Holds:
    session: AsyncSession

    async def is_of_interest(self) -> bool:
        """Whether anything waits that a pool could hold, or was held when somebody last looked."""
        return bool(await self.session.scalar(IS_OF_INTEREST))

    async def note(self, held: Mapping[str, str]) -> None:
        """Note which places Prefect holds now, by their names."""
        await self.session.execute(NOTE, {"places": list(held), "holds": list(held.values())})

    async def now(self) -> dict[str, str]:
        """Which places Prefect held when somebody last looked, and how."""
        return {row.place: row.hold for row in await self.session.execute(NOW_HELD)}

    async def of_runs(self, run_ids: Collection[UUID]) -> dict[UUID, str]:
        """In words what holds each of these runs that somebody's order holds."""
        rows = await self.session.execute(HELD, {"run_ids": list(run_ids)}) if run_ids else ()
        return {row.run_id: (order_in_words if row.is_ours else in_words)(row.name, row.hold) for row in rows}
