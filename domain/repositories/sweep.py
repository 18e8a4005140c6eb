"""What the reconciler looks at: attempts that have been quiet, with everything its table asks about them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import RowMapping, TextClause, text
from sqlalchemy.ext.asyncio import AsyncSession

from domain.repositories.backlog import IS_OVERDUE
from domain.repositories.controls import is_held
from domain.repositories.listening import ListeningSpans
from domain.rules.lifecycle import ATTEMPTS_IN_FLIGHT, ENDED_ATTEMPTS, LIVE_ATTEMPTS, AttemptState, sql_list
from domain.rules.listening import Moment
from domain.rules.reconcile import AttemptFacts, Patience

# `quiet` counts from what an attempt did last, and not before we listened without a gap. A heartbeat that never came
# counts from its beginning. `:now` is when that was looked up: what froze the database since is no silence.
FACTS = f"""
    select a.run_id, a.number, a.token, a.state, a.flow_run_id, r.workflow_id, r.pool,
           extract(epoch from cast(:now as timestamptz) - greatest(last.at, cast(:since as timestamptz)))::float
               as quiet,
           last.at >= cast(:since as timestamptz) as spoke,
           coalesce({IS_OVERDUE}, false) as lease_expired,
           {is_held("a.workflow_id", "a.platform_id")} as paused,
           r.state = 'cancelled' as cancelled, last.at
    from app.attempts a join app.runs r using (run_id)
    cross join lateral (select case
        when a.state in {sql_list(ENDED_ATTEMPTS)} then a.finished_at
        when a.state = 'started' then coalesce(a.heartbeat_at, a.sent_at, a.created_at)
        else coalesce(greatest(a.sent_at, a.heartbeat_at), a.created_at) end as at) last
"""  # noqa: S608 - our own words
# Of each state in turns: many that wait in Prefect's queues must not keep one from sight whose worker is gone.
QUIET = text(f"""
    select * from ({FACTS} where a.state in {sql_list(ATTEMPTS_IN_FLIGHT)}) live
    where lease_expired or (state <> 'sending' and quiet >= :quiet)
    order by row_number() over (partition by state order by quiet desc), quiet desc limit :limit
""")  # noqa: S608 - no value is spliced in
# A flow run that was retried in Prefect's UI may be at work for a newer attempt: then it is left alone. Of the fenced
# an index of their own tells: after a rush they are few among many.
ENDED = f"""
    {FACTS}
    where a.disposed_at is null and a.flow_run_id is not null and {{ended}}
      and a.finished_at < statement_timestamp() - make_interval(secs => :quiet)
      and (cast(:after_at as timestamptz) is null
           or (a.finished_at, a.run_id, a.number)
              > (cast(:after_at as timestamptz), cast(:after as uuid), :after_number))
      and not exists (
          select from app.attempts b
          where b.flow_run_id = a.flow_run_id and b.state in {sql_list(LIVE_ATTEMPTS)}
      )
    order by a.finished_at, a.run_id, a.number limit :limit
"""
ALL_ENDED = text(ENDED.format(ended=f"a.state in {sql_list(ENDED_ATTEMPTS)}"))
FENCED = text(ENDED.format(ended="a.state = 'fenced'"))
# Fenced while it was being sent: a sender that died may have left a flow run that nobody knows of.
UNLINKED = text(f"""
    {FACTS}
    where a.disposed_at is null and a.flow_run_id is null and a.lease_until is not null and a.state = 'fenced'
      and a.lease_until < statement_timestamp()
    order by a.lease_until limit :limit
""")
ONE = text(f"{FACTS} where a.run_id = :run_id and a.number = :number")
# How many were sent and have not begun, by pool, and how many runs began lately.
SPEEDS = text("""
    select pool, sum(waits)::int as waits, sum(began)::int as began from (
        select r.pool, count(*) as waits, 0 as began from app.attempts a join app.runs r using (run_id)
        where a.state = 'sent' group by r.pool
        union all
        select pool, 0, count(*) from app.runs
        where started_at > cast(:now as timestamptz) - make_interval(secs => :start) group by pool
    ) counted
    group by pool
""")
# Not those of sub-workflows: they are inside of these, and end with them.
FLOW_RUNS = text("""
    select f.run_id, f.number, f.flow_run_id from app.attempt_flow_runs f
    join unnest(cast(:run_ids as uuid[]), cast(:numbers as int[])) as ended (run_id, number) using (run_id, number)
    where f.nodes is null or f.segment is not null
""")
# A child run names itself to us when it begins. One that is to begin still is answered that its attempt is over.
UNHEARD = text(f"""
    select child.flow_run_id
    from unnest(cast(:flow_run_ids as uuid[]), cast(:tokens as text[])) as child (flow_run_id, token)
    join app.attempts a on a.token = child.token
    where a.state in {sql_list(ENDED_ATTEMPTS)}
      and a.finished_at < statement_timestamp() - make_interval(secs => :seconds)
      and not exists (select from app.attempt_flow_runs f where f.flow_run_id = child.flow_run_id)
""")  # noqa: S608 - our own words

# All at once: one by one, each is a transaction. What another sweep has in hand it disposes of itself.
DISPOSE = text("""
    update app.attempts a set disposed_at = clock_timestamp()
    from (
        select d.run_id, d.number from app.attempts d
        join unnest(cast(:run_ids as uuid[]), cast(:numbers as int[])) as over (run_id, number) using (run_id, number)
        where d.disposed_at is null
        for update of d skip locked
    ) over
    where a.run_id = over.run_id and a.number = over.number
""")


@dataclass(frozen=True)
class Suspect:
    """One attempt to judge. `at` is when it was last heard of, or its end."""

    run_id: UUID
    number: int
    token: str
    flow_run_id: UUID | None
    workflow_id: str
    at: datetime
    facts: AttemptFacts


@dataclass(frozen=True)
class Sweep:
    session: AsyncSession
    patience: Patience = field(default_factory=Patience)

    async def quiet(self, quiet_seconds: float, limit: int = 500) -> Sequence[Suspect]:
        """Live attempts that were quiet for so long, and those whose sending nobody finished."""
        return await self._suspects(QUIET, quiet=quiet_seconds, limit=limit)

    async def ended(
        self, quiet_seconds: float, *, fenced_only: bool = False, after: Suspect | None = None, limit: int = 500
    ) -> Sequence[Suspect]:
        """Attempts that are over and whose flow runs nobody has seen to be over, those that ended first first."""
        place = {
            "after_at": after.at if after else None,
            "after": after.run_id if after else None,
            "after_number": after.number if after else 0,
        }
        return await self._suspects(FENCED if fenced_only else ALL_ENDED, quiet=quiet_seconds, limit=limit, **place)

    async def unlinked(self, limit: int = 200) -> Sequence[Suspect]:
        """Attempts that were fenced while they were being sent, once no sender may be at it any more."""
        return await self._suspects(UNLINKED, limit=limit)

    async def again(self, suspect: Suspect) -> AttemptFacts:
        """The facts as they are now, under the caller's locks."""
        [found] = await self._suspects(ONE, run_id=suspect.run_id, number=suspect.number)
        return found.facts

    async def flow_runs(self, suspects: Sequence[Suspect]) -> dict[Suspect, frozenset[UUID]]:
        """Every flow run that worked for these attempts, children included."""
        found = {(one.run_id, one.number): {one.flow_run_id} if one.flow_run_id else set() for one in suspects}
        for run_id, number, flow_run_id in await self.session.execute(FLOW_RUNS, _places(suspects)):
            found[run_id, number].add(flow_run_id)
        return {one: frozenset(found[one.run_id, one.number]) for one in suspects}

    async def unheard(self, children: Mapping[UUID, str], seconds: float) -> Sequence[UUID]:
        """Those child runs, by the tokens of their attempts, whose attempt ended so long ago without hearing of them.

        What has a token that none of ours has belongs to somebody else.
        """
        values = {"flow_run_ids": list(children), "tokens": list(children.values()), "seconds": seconds}
        return (await self.session.scalars(UNHEARD, values)).all()

    async def dispose(self, suspects: Sequence[Suspect]) -> None:
        """Never look at these again: they are over, and so are their flow runs."""
        await self.session.execute(DISPOSE, _places(suspects))

    async def _suspects(self, query: TextClause, **values: Any) -> Sequence[Suspect]:
        moment = await ListeningSpans(self.session).moment(self.patience.gap)
        found = await self.session.execute(query, {"now": moment.now, "since": moment.since} | values)
        rows = found.mappings().all()
        speeds = await self._speeds(moment) if any(row["state"] == AttemptState.SENT for row in rows) else {}
        return [_suspect(row, *speeds.get(row["pool"], (0, 0))) for row in rows]

    async def _speeds(self, moment: Moment) -> dict[str, tuple[int, int]]:
        """Of each pool how many wait to begin, and how many began within a start's patience."""
        rows = await self.session.execute(SPEEDS, {"now": moment.now, "start": self.patience.start})
        return {row.pool: (row.waits, row.began) for row in rows}


def _places(suspects: Sequence[Suspect]) -> dict[str, Any]:
    return {"run_ids": [one.run_id for one in suspects], "numbers": [one.number for one in suspects]}


def _suspect(row: RowMapping, waits: int, began: int) -> Suspect:
    known = {name: row[name] for name in ("spoke", "lease_expired", "paused", "cancelled")}
    facts = AttemptFacts(AttemptState(row["state"]), row["quiet"], **known, pool_waits=waits, pool_began=began)
    known_of = ("run_id", "number", "token", "flow_run_id", "workflow_id", "at")
    return Suspect(**{name: row[name] for name in known_of}, facts=facts)
