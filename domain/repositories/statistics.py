"""Figures for operators, each one statement over a window by an index. Nothing here writes.

The clock is `now()`: it is stable, and only a stable bound can be looked up in an index.
A request or run belongs to the window that it was made in; its fate may be younger.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import RowMapping, TextClause, text
from sqlalchemy.ext.asyncio import AsyncSession

from domain.rules.lifecycle import UNSENT_ATTEMPTS, sql_list

STORM_ATTEMPTS = 10
STILL_SECONDS = 300.0
MOST_LISTED = 50
MOST_CELLS, COLUMNS, SHORTEST_CELL_SECONDS = 1000, 24, 300.0

SPREAD = """count({0}) as count, percentile_cont(0.5) within group (order by {0}) as p50_seconds,
            percentile_cont(0.95) within group (order by {0}) as p95_seconds, max({0}) as max_seconds"""

PLATFORMS = text(f"""
    select platform_id, count(*) as received,
        count(*) filter (where status = 'completed') as completed,
        count(*) filter (where status = 'failed') as failed,
        count(*) filter (where status = 'cancelled') as cancelled,
        {SPREAD.format("duration")}
    from (select platform_id, status, extract(epoch from finished_at - created_at)::float as duration
          from app.requests
          where created_at > now() - make_interval(secs => :window) and not is_internal) q
    group by platform_id order by platform_id
""")  # noqa: S608 - our own words

WORKFLOWS = text(f"""
    select q.workflow_id, count(*) as runs,
        count(*) filter (where state = 'completed') as completed,
        count(*) filter (where state = 'failed') as failed,
        count(*) filter (where state = 'cancelled') as cancelled,
        coalesce(sum(repeated), 0)::int as repeated_attempts,
        coalesce(sum(retries), 0)::int as repeated_tries,
        max(sla) as sla_seconds,
        count(*) filter (where age > sla and state <> 'cancelled') as sla_breaches,
        {SPREAD.format("duration")}
    from (select r.workflow_id, r.state, a.repeated, t.retries, d.sla,
            extract(epoch from r.finished_at - r.started_at)::float as duration,
            extract(epoch from coalesce(r.finished_at, now()) - r.created_at)::float as age
          from app.runs r
          join (select workflow_id, version, (plan ->> 'sla_seconds')::float as sla from app.workflow_definitions) d
            on d.workflow_id = r.workflow_id and d.version = r.version
          left join (select run_id, count(*) as repeated from app.attempts
                     where number > 1 and created_at > now() - make_interval(secs => :window)
                     group by run_id) a on a.run_id = r.run_id
          left join (select run_id, sum(retries) as retries from app.node_transitions
                     where retries > 0 and at > now() - make_interval(secs => :window)
                     group by run_id) t on t.run_id = r.run_id
          where r.created_at > now() - make_interval(secs => :window)) q
    group by q.workflow_id order by q.workflow_id
""")  # noqa: S608 - our own words

# Runs that were made in the window by how many attempts they took.
ATTEMPTS = text("""
    select attempts, count(*) as runs
    from (select r.run_id, coalesce(a.highest, 1) as attempts
          from app.runs r
          left join (select run_id, max(number) as highest from app.attempts
                     where number > 1 and created_at > now() - make_interval(secs => :window)
                     group by run_id) a using (run_id)
          where r.created_at > now() - make_interval(secs => :window)) q
    group by attempts order by attempts
""")

# A fan-out's row comes with its end: of one at work, what its node says so far counts as of now.
RETRIED = """
    select r.workflow_id, t.node_id, t.at, t.retries
    from app.node_transitions t join app.runs r using (run_id)
    where t.retries > 0 and t.at > now() - make_interval(secs => :window)
    union all
    select r.workflow_id, n.node_id, now(), n.items_retried
    from app.runs r join app.run_nodes n using (run_id)
    where r.state = 'running' and n.state = 'running' and n.items_retried > 0
"""
STORMS = text(f"""
    with retried as ({RETRIED}), again as (
        select r.workflow_id, a.created_at as at, 1 as attempts, 0 as tries
        from app.attempts a join app.runs r using (run_id)
        where a.number > 1 and a.created_at > now() - make_interval(secs => :window)
        union all
        select workflow_id, at, 0, retries from retried
    )
    select workflow_id, date_bin('5 minutes', at, timestamptz '2000-01-01') as at,
        sum(attempts)::int as repeated_attempts, sum(tries)::int as repeated_tries
    from again group by 1, 2 having sum(attempts + tries) >= :many
    order by sum(attempts + tries) desc limit :most
""")  # noqa: S608 - our own words
HEATMAP = text(f"""
    select workflow_id, node_id, date_bin(make_interval(secs => :cell), at, timestamptz '2000-01-01') as at,
        sum(retries)::int as retries
    from ({RETRIED}) retried group by 1, 2, 3 order by retries desc, 3, 1, 2 limit :cells
""")  # noqa: S608 - our own words

# Between one start and the next, a long while in which a run waited that is not over. The window's beginning and end
# count as starts: else nothing would be told before the first, nor where there was none.
DOWNTIMES = text("""
    with starts as (
        select at as since, lead(at, 1, now()) over (order by at) as until
        from (select started_at as at from app.runs where started_at > now() - make_interval(secs => :window)
              union all select now() - make_interval(secs => :window)) s
    ), gaps as (
        select since, until from starts where until - since > make_interval(secs => :still)
        order by until - since desc limit :most
    ), waited as (
        select greatest(g.since, w.first) as since, g.until
        from gaps g cross join lateral (
            select min(r.created_at) as first from app.runs r
            where r.created_at > now() - make_interval(secs => :window) - interval '1 day'
                and r.created_at < g.until - make_interval(secs => :still)
                and coalesce(r.started_at, r.finished_at, 'infinity') >= g.until
        ) w
        where w.first is not null
    )
    select since, until, extract(epoch from until - since)::float as seconds from waited order by since
""")

QUEUES = text(f"""
    select priority, {SPREAD.format("age")}
    from (select r.priority, extract(epoch from now() - a.created_at)::float as age
          from app.attempts a join app.runs r using (run_id)
          where a.state in {sql_list(UNSENT_ATTEMPTS)}) q
    group by priority order by priority
""")  # noqa: S608 - our own words

APPROVALS = text(f"""
    select {SPREAD.format("wait")}
    from (select extract(epoch from v.decided_at - q.finished_at)::float as wait
          from app.revisions v join app.requests q using (request_id)
          where v.decided_at > now() - make_interval(secs => :window) and v.approval = 'approved') w
""")  # noqa: S608 - our own words


@dataclass(frozen=True)
class StatisticsReader:
    """Every figure of the window that ends now."""

    session: AsyncSession
    window_seconds: float

    async def platforms(self) -> Sequence[RowMapping]:
        return await self._rows(PLATFORMS)

    async def workflows(self) -> Sequence[RowMapping]:
        return await self._rows(WORKFLOWS)

    async def attempts(self) -> Sequence[RowMapping]:
        return await self._rows(ATTEMPTS)

    async def storms(self) -> Sequence[RowMapping]:
        return await self._rows(STORMS, many=STORM_ATTEMPTS, most=MOST_LISTED)

    @property
    def cell_seconds(self) -> float:
        """How much time a cell of the heat map stands for: the window has two dozen of them."""
        return max(SHORTEST_CELL_SECONDS, self.window_seconds / COLUMNS)

    async def heatmap(self) -> Sequence[RowMapping]:
        return await self._rows(HEATMAP, cell=self.cell_seconds, cells=MOST_CELLS)

    async def downtimes(self) -> Sequence[RowMapping]:
        return await self._rows(DOWNTIMES, still=STILL_SECONDS, most=MOST_LISTED)

    async def queues(self) -> Sequence[RowMapping]:
        return (await self.session.execute(QUEUES)).mappings().all()

    async def approvals(self) -> RowMapping:
        return (await self._rows(APPROVALS))[0]

    async def _rows(self, query: TextClause, **values: float) -> Sequence[RowMapping]:
        return (await self.session.execute(query, {"window": self.window_seconds, **values})).mappings().all()
