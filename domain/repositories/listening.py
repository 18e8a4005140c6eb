"""The notes of processes that listen to workers, and what they say together.

Each statement asks the clock once: were the database frozen in the middle of one, two answers would hide the gap.
"""

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from domain.rules.listening import Moment, Span, moment

KEEP_SECONDS = 3600.0  # far longer than anything is waited for whose silence counts

# Each process has rows of its own: one that is frozen with a row locked is in no other's way.
GO_ON = text("""
    update app.listening_spans set noted_at = statement_timestamp()
    where span_id = :span_id and noted_at > statement_timestamp() - make_interval(secs => :gap)
    returning span_id
""")
BEGIN = text("""
    insert into app.listening_spans (span_id, since, noted_at)
    values (:span_id, statement_timestamp(), statement_timestamp())
    returning (select extract(epoch from statement_timestamp() - max(noted_at))::float from app.listening_spans)
""")
PRUNE = text("""
    delete from app.listening_spans where noted_at < statement_timestamp() - make_interval(secs => :keep)
""")
READ = text("""
    select statement_timestamp() as now, s.since, s.noted_at
    from (values (1)) always left join app.listening_spans s on true
""")


@dataclass(frozen=True)
class ListeningSpans:
    session: AsyncSession

    async def go_on(self, span_id: UUID, gap_seconds: float) -> bool:
        """Note that the process still listens. False where it was away for too long: it begins anew then."""
        values = {"span_id": span_id, "gap": gap_seconds}
        return (await self.session.execute(GO_ON, values)).first() is not None

    async def begin(self, span_id: UUID) -> float | None:
        """Note that a process listens from now on; returns how long ago any had noted it, if one had."""
        await self.session.execute(PRUNE, {"keep": KEEP_SECONDS})
        silent: float | None = await self.session.scalar(BEGIN, {"span_id": span_id})
        return silent

    async def moment(self, gap_seconds: float) -> Moment:
        """Now, and since when the processes have listened without a gap."""
        rows = (await self.session.execute(READ)).all()
        spans = [Span(row.since, row.noted_at) for row in rows if row.since is not None]
        return moment(rows[0].now, spans, gap_seconds)
