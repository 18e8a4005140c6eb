"""What the façade reads: offered processes, and a platform's requests as jobs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from domain.contracts.offers import Offer
from domain.rules import paging
from domain.rules.clearance import Identity
from domain.rules.paging import Position
from gateway.reads.queries import NOBODYS, REQUEST, Queries, RequestRow, reader_of

PROCESSES: Final = f"""
    select {", ".join(Offer.__dataclass_fields__)} from api.processes
    where %(id)s::text is null or process_id = %(id)s order by process_id
"""  # noqa: S608 - our own names
# So many of the newest are looked at and no more, whatever is wanted of them, or what is rare would have all be read.
# In an order that only the platform's own index has: the planner may think more of the one of all.
LOOKED_AT: Final = """
    select request_id, created_at, status, data_type, operation from api.requests
    where platform_id >= %(platform_id)s and platform_id <= %(platform_id)s
        and (%(at)s::timestamptz is null or (created_at, request_id) < (%(at)s, %(after)s::uuid))
    order by platform_id desc, created_at desc, request_id desc limit %(look)s
"""
# The page is found before anything of its jobs is counted.
JOBS: Final = f"""
    select {", ".join(RequestRow.__dataclass_fields__)} from api.requests where request_id in (
        select request_id from ({LOOKED_AT}) looked_at
        where (%(statuses)s::text[] is null or status = any(%(statuses)s))
            and (%(process_id)s::text is null or data_type || '_' || operation = %(process_id)s)
        order by created_at desc, request_id desc limit %(limit)s
    ) order by created_at desc, request_id desc
"""  # noqa: S608 - our own names
END: Final = f"select created_at as at, request_id as id from ({LOOKED_AT}) looked_at offset %(look)s - 1"  # noqa: S608 - our own names


@dataclass(frozen=True)
class JobQueries:
    """Reads for one partner."""

    queries: Queries
    caller: Identity

    async def processes(self) -> Sequence[Offer]:
        return await self.queries.rows(NOBODYS, Offer, PROCESSES, {"id": None})

    async def process(self, process_id: str) -> Offer | None:
        return await self.queries.one(NOBODYS, Offer, PROCESSES, {"id": process_id})

    async def job(self, request_id: UUID) -> RequestRow | None:
        """Return the platform's own request; None for another platform's."""
        return await self.queries.one(reader_of(self.caller), RequestRow, REQUEST, {"id": request_id})

    async def jobs(
        self, limit: int, after: Position | None, process_id: str | None, statuses: Sequence[str] | None
    ) -> tuple[Sequence[RequestRow], Position | None]:
        """Return one page of the platform's requests, newest first, and where the next one begins."""
        place = {"at": after.at if after else None, "after": after.id if after else None}
        wanted = {"limit": limit, "process_id": process_id, "statuses": statuses, "look": paging.LOOK}
        values = {"platform_id": self.caller.platform_id} | wanted | place
        reader = reader_of(self.caller)
        rows = await self.queries.rows(reader, RequestRow, JOBS, values)
        if len(rows) == limit:
            return rows, Position(rows[-1].created_at, rows[-1].request_id)
        return rows, await self.queries.one(reader, Position, END, values)
