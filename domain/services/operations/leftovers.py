"""Removes what a request that has ended left over: files of every zone, and tables of vectors.

First it is decided and noted, under the request's locks; then removed, without any; then noted that nothing is left.
Where a process dies in between, another removes the rest. From the first note on nobody takes up what was there.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from domain.db import Database
from domain.models import Request, Run
from domain.repositories.leftovers import Leftovers
from domain.repositories.requests import Requests
from domain.repositories.runs import Runs
from domain.rules.leftovers import Fate, Making, Retention, fate
from domain.services.reading import storage_answers
from flows.storage import Zones
from flows.storage.protocol import ListedBlob
from flows.storage.threads import in_storage_thread

FILES_AT_ONCE = 500


@dataclass(frozen=True)
class Collected:
    """What was removed."""

    files: int = 0
    tables: int = 0
    bytes: int = 0

    def __add__(self, other: "Collected") -> "Collected":
        return Collected(self.files + other.files, self.tables + other.tables, self.bytes + other.bytes)


@dataclass(frozen=True)
class Begun:
    """What is to be removed, and of which request."""

    request_id: UUID
    at: datetime
    making: Making
    run_ids: tuple[UUID, ...]


@dataclass(frozen=True)
class Collecting:
    """Removes leftovers. Any number of processes may do so at once, for the same request too."""

    database: Database
    zones: Zones
    patience: Retention

    async def collect(self, request_id: UUID) -> Collected | None:
        """Remove what is left over of the request. None where it may not be done now."""
        begun = await self._begin(request_id)
        if begun is None:
            return None
        done = Collected()
        while piece := await in_storage_thread(self._remove_some, begun.making):
            done += Collected(files=len(piece), bytes=sum(one.size_bytes for one in piece))
        async with self.database.transaction() as session:
            dropped = await Leftovers(session).drop_tables(begun.run_ids)
        done += Collected(tables=len(dropped), bytes=sum(size for _, size in dropped))
        await self._end(begun, done)
        return done

    async def _begin(self, request_id: UUID) -> Begun | None:
        """Decide under the locks of the request and its runs, so that a reopening comes before this or after."""
        async with self.database.transaction("collect") as session:
            request = await Requests(session).get(request_id, lock=True)
            if request is None or request.collected_at is not None:
                return None
            runs = await Runs(session).locked_of_request(request_id)
            making = await self._making(session, request, runs)
            if making.fate is Fate.LEAVE:
                return None
            leftovers = Leftovers(session)
            if making.fate is Fate.COLLECT:
                await leftovers.forget_artifacts(runs)
            return Begun(request_id, await leftovers.begin(request_id), making, _ids(runs))

    async def left_over(self, request_id: UUID, zone: str, names: Iterable[str]) -> list[str]:
        """Return those of these files that the request does not need, as things are now."""
        async with self.database.transaction() as session:
            request = await Requests(session).get(request_id)
            if request is None:
                return []
            making = await self._making(session, request, await Runs(session).of_request(request_id))
        return [name for name in names if making.is_left_over(zone, name)]

    async def _making(self, session: AsyncSession, request: Request, runs: Sequence[Run]) -> Making:
        """What the request has made, and what may become of it."""
        leftovers = Leftovers(session)
        ended, attempts = await leftovers.ended(request)
        decided = fate(ended, self.patience)
        if decided is Fate.LEAVE:
            return Making(decided, 0, {})
        return Making(
            decided,
            attempts,
            {str(run.run_id): run.memory for run in runs},
            _revision(request),
            await leftovers.copies(request.request_id),
            await leftovers.named(request, runs),
        )

    def _remove_some(self, making: Making) -> list[ListedBlob]:
        """Remove a bounded number of files and return them; return none where none is left."""
        with storage_answers():
            for zone, folder in making.folders():
                store = self.zones.of_service(zone)
                left = (one for one in store.listed(folder) if making.is_left_over(zone, one.name))
                if piece := list(islice(left, FILES_AT_ONCE)):
                    store.remove(piece)
                    return piece
        return []

    async def _end(self, begun: Begun, done: Collected) -> None:
        async with self.database.transaction() as session:
            is_mine = await Leftovers(session).end(begun.request_id, begun.at)
            if is_mine and begun.making.fate is Fate.COLLECT:
                Requests(session).add_event(begun.request_id, "request.collected", **vars(done))


def _revision(request: Request) -> tuple[str, int, int] | None:
    if request.asset_id is None or request.ordinal is None or request.revision is None:
        return None
    return request.asset_id, request.ordinal, request.revision


def _ids(runs: Sequence[Run]) -> tuple[UUID, ...]:
    return tuple(run.run_id for run in runs)
