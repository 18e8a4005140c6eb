"""How much there is of what waits, now: figures for machines that watch. Each statement goes by a partial index.

Statistics over a window, for people, are `statistics`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import TextClause, text
from sqlalchemy.ext.asyncio import AsyncSession

from domain.repositories.backlog import IS_DUE, IS_OVERDUE, SINCE
from domain.repositories.controls import is_held
from domain.rules.lifecycle import ENDED_ATTEMPTS, LIVE_ATTEMPTS, OPEN_REQUESTS, sql_list

Row = tuple[str, float]
AGE = "extract(epoch from clock_timestamp() - {0})::float"

OPEN = text(f"select status, count(*)::float from app.requests where status in {sql_list(OPEN_REQUESTS)} group by 1")  # noqa: S608 - our own words
LIVE = text(f"""
    select state, count(*)::float from app.attempts
    where state in {sql_list(LIVE_ATTEMPTS)} group by 1
""")  # noqa: S608 - our own words
# Of a queue that was paused nothing is late: people hold it. Nor is what rests after an attempt that was lost.
WAITING = text(f"""
    select a.pool, max({AGE.format(SINCE)}) from app.attempts a
    where ({IS_DUE} or {IS_OVERDUE}) and not {is_held("a.workflow_id", "a.platform_id")}
    group by 1
""")  # noqa: S608 - our own words
OVERDUE = text(f"select '', count(*)::float from app.attempts a where {IS_OVERDUE}")  # noqa: S608 - our own words
ENDED = text(f"""
    select a.state, count(*)::float from app.attempts a join app.runs r using (run_id)
    where r.created_at > now() - make_interval(secs => 3600) and a.state in {sql_list(ENDED_ATTEMPTS)}
    group by 1
""")  # noqa: S608 - our own words
CALLBACKS = text("select state, count(*)::float from app.callbacks where state in ('ready', 'sending') group by 1")
CALLBACK_AGE = text(f"""
    select '', coalesce(max({AGE.format("next_at")}), 0) from app.callbacks
    where state in ('ready', 'sending') and next_at < clock_timestamp()
""")  # noqa: S608 - our own words
BEACONS = text(f"select pool, min({AGE.format('seen_at')}) from app.pool_workers group by 1")  # noqa: S608 - our own words


@dataclass(frozen=True)
class Gauges:
    session: AsyncSession

    async def open_requests(self) -> Sequence[Row]:
        """By status."""
        return await self._rows(OPEN)

    async def live_attempts(self) -> Sequence[Row]:
        """By state."""
        return await self._rows(LIVE)

    async def oldest_waiting(self) -> Sequence[Row]:
        """Seconds that the oldest attempt has waited to be sent, by the pool of its run."""
        return await self._rows(WAITING)

    async def overdue_leases(self) -> Sequence[Row]:
        """Attempts that a relay took and did not send in time."""
        return await self._rows(OVERDUE)

    async def ended_attempts(self) -> Sequence[Row]:
        """Of the runs of the last hour, by what became of them."""
        return await self._rows(ENDED)

    async def open_callbacks(self) -> Sequence[Row]:
        """By state."""
        return await self._rows(CALLBACKS)

    async def callback_lag(self) -> Sequence[Row]:
        """Seconds that the callback which should have been sent first is late."""
        return await self._rows(CALLBACK_AGE)

    async def beacons(self) -> Sequence[Row]:
        """Seconds since the last worker of each pool was heard of."""
        return await self._rows(BEACONS)

    async def _rows(self, query: TextClause) -> Sequence[Row]:
        return [(name, value) for name, value in await self.session.execute(query)]
