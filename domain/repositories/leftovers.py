"""What ended requests left over: which of them are due, what their rows tell of their files, and that it is gone."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from domain.models import Request, Run
from domain.rules.leftovers import EndedRequest, Place, Retention
from domain.rules.lifecycle import ENDED_REQUESTS, LIVE_ATTEMPTS, OPEN_RUNS, RequestState, sql_list
from domain.rules.scratch import is_scratch

TEXTS_IN = ("silver", "bronze")  # the zones whose files outputs may name without saying the zone
LIVES = f"""
    a.state in {sql_list(LIVE_ATTEMPTS)}
    or (a.disposed_at is null and (a.flow_run_id is not null or a.lease_until is not null))
"""
# Oldest first, those aside that somebody is at, or was until lately: what could not be removed waits for its turn.
# By the transaction's time: an index serves no condition in which the time may change from row to row.
DUE = text(f"""
    select q.request_id from app.requests q
    where q.collected_at is null and q.status = :status
      and q.finished_at < now() - make_interval(secs => :after)
      and coalesce(q.collecting_at < now() - make_interval(secs => :lease), true)
      and not exists (
          select from app.runs r left join app.attempts a using (run_id)
          where r.request_id = q.request_id and (r.state in {sql_list(OPEN_RUNS)} or {LIVES})
      )
    order by q.finished_at limit :limit
""")  # noqa: S608 - our own words
ENDED = text(f"""
    select q.status, asset.platform_id, asset.deleted_at is not null as is_deleted,
           coalesce(rev.approval = 'approved' or v.served_revision = q.revision, false) as is_decided,
           coalesce(work.is_at_work, false) as is_at_work, coalesce(work.attempts, 0) as attempts,
           coalesce(extract(epoch from clock_timestamp() - greatest(q.finished_at, work.ended_at)), 0)::float as quiet
    from app.requests q
    left join app.assets asset on asset.asset_id = q.asset_id
    left join app.asset_versions v on v.asset_id = q.asset_id and v.ordinal = q.ordinal
    left join app.revisions rev on rev.asset_id = q.asset_id and rev.ordinal = q.ordinal and rev.revision = q.revision
    cross join lateral (
        select bool_or(r.state in {sql_list(OPEN_RUNS)} or coalesce({LIVES}, false)) as is_at_work,
               max(a.number) as attempts, max(greatest(r.finished_at, a.finished_at)) as ended_at
        from app.runs r left join app.attempts a using (run_id) where r.request_id = q.request_id
    ) work
    where q.request_id = :request_id
""")  # noqa: S608 - our own words
ARTIFACTS = text("select zone, name from app.artifacts where run_id = any(:run_ids)")
FORGET = text("delete from app.artifacts where run_id = any(:run_ids)")
COPIES = text("""
    select destination from app.exports
    where (request_id = :request_id and withdrawn_at is null) or withdrawal_id = :request_id
""")
BEGIN = text("""
    update app.requests set collecting_at = clock_timestamp() where request_id = :request_id returning collecting_at
""")
END = text("""
    update app.requests set collected_at = clock_timestamp()
    where request_id = :request_id and collecting_at = :begun and collected_at is null returning 1
""")
AGAIN = text("""
    update app.requests set collected_at = null, collecting_at = null
    where asset_id = :asset_id and ordinal = :ordinal and coalesce(collected_at, collecting_at) is not null
""")
DROP = text("select name, bytes from geo.drop_collected(cast(:run_ids as uuid[]))")
WAITING = text("""
    select status, count(*)::int as requests,
           count(*) filter (where finished_at < now() - make_interval(secs =>
               case status when 'completed' then :after_success else :after_failure end))::int as due,
           min(finished_at) as oldest
    from app.requests where collected_at is null and finished_at is not null group by 1 order by 1
""")


@dataclass(frozen=True)
class Leftovers:
    session: AsyncSession

    async def due(self, patience: Retention, lease_seconds: float, limit: int) -> list[UUID]:
        """Requests that seem to be due, so many of each way to end."""
        found: list[UUID] = []
        for status in ENDED_REQUESTS:
            after = patience.after_success if status is RequestState.COMPLETED else patience.after_failure
            values = {"status": status.value, "after": after, "lease": lease_seconds, "limit": limit}
            found += (await self.session.scalars(DUE, values)).all()
        return found

    async def ended(self, request: Request) -> tuple[EndedRequest, int]:
        """How the request stands, under the caller's locks, and the highest number of its attempts."""
        row = (await self.session.execute(ENDED, {"request_id": request.request_id})).mappings().one()
        ended = EndedRequest(
            RequestState(row["status"]),
            row["quiet"],
            is_at_work=row["is_at_work"],
            is_decided=row["is_decided"],
            is_discarded=is_scratch(row["platform_id"]) and row["is_deleted"],
        )
        return ended, row["attempts"]

    async def named(self, request: Request, runs: Sequence[Run]) -> frozenset[Place]:
        """Every file that a row of the request names."""
        found = await self.session.execute(ARTIFACTS, {"run_ids": [run.run_id for run in runs]})
        told = {told for each in (request.result, *(run.outputs for run in runs)) for told in texts(each)}
        return frozenset({(row.zone, row.name) for row in found} | {(zone, each) for zone in TEXTS_IN for each in told})

    async def copies(self, request_id: UUID) -> frozenset[str]:
        """The folders outside that the request was to fill or to empty."""
        return frozenset(await self.session.scalars(COPIES, {"request_id": request_id}))

    async def forget_artifacts(self, runs: Sequence[Run]) -> None:
        await self.session.execute(FORGET, {"run_ids": [run.run_id for run in runs]})

    async def begin(self, request_id: UUID) -> datetime:
        """Note that what is left over is being removed, from now on."""
        begun: datetime = (await self.session.execute(BEGIN, {"request_id": request_id})).scalar_one()
        return begun

    async def end(self, request_id: UUID, begun: datetime) -> bool:
        """Note that nothing is left over. False where somebody has begun anew since, or the request is open again."""
        ended = await self.session.execute(END, {"request_id": request_id, "begun": begun})
        return ended.first() is not None

    async def look_again(self, asset_id: str, ordinal: int) -> None:
        """Have what was made for a version looked at once more: less of it is needed than before.

        Whoever removes what was left over until now goes on, and notes no end; nobody waits for that lease.
        """
        await self.session.execute(AGAIN, {"asset_id": asset_id, "ordinal": ordinal})

    async def drop_tables(self, run_ids: Sequence[UUID]) -> Sequence[tuple[str, int]]:
        """Drop these runs' tables that nobody needs; returns their names and how large they were."""
        dropped = await self.session.execute(DROP, {"run_ids": list(run_ids)})
        return [(row.name, row.bytes) for row in dropped]

    async def waiting(self, patience: Retention) -> Sequence[Mapping[str, Any]]:
        """By how they ended: how many requests are still to be looked at, how many of them now, and since when."""
        rows = await self.session.execute(WAITING, vars(patience))
        return [dict(row) for row in rows.mappings()]


def texts(value: Any) -> Iterator[str]:
    """Every text of a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from texts(each)
