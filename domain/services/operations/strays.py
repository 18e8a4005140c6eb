"""Goes through whole zones and compares every file with the rows. Slow: for operators, never for a loop.

What the collector knows by its rows it is left to remove: here its request is only put before it once more.
"""

import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from uuid import UUID

from domain.contracts.leftovers import Looked, Stray
from domain.db import Database
from domain.repositories.strays import Owned, Owners
from domain.rules.strays import Owner, owner, why_unowned
from domain.services.operations.leftovers import Collecting
from domain.services.reading import storage_answers
from flows.storage import ZONES, StampedStore, Zones
from flows.storage.protocol import ListedBlob, is_partial
from flows.storage.threads import in_storage_thread

FILES_AT_ONCE = 1000


@dataclass
class Looking:
    """One look through all zones for strays."""

    database: Database
    zones: Zones
    collecting: Collecting
    removes: bool
    _files: int = field(default=0, init=False)
    _found: list[int] = field(default_factory=list, init=False)
    _removed: int = field(default=0, init=False)

    async def strays(self) -> AsyncIterator[Stray | Looked]:
        """Every file that no row needs, as it is found; at the end how many there were."""
        for zone in ZONES:
            store = self.zones.of_service(zone)
            listed = await in_storage_thread(store.listed)
            while piece := await in_storage_thread(_next_files, listed):
                self._files += len(piece)
                for stray in await self._strays_among(zone, store, piece):
                    self._found.append(stray.size_bytes)
                    yield stray
        yield Looked(files=self._files, strays=len(self._found), stray_bytes=sum(self._found), removed=self._removed)

    async def _strays_among(self, zone: str, store: StampedStore, piece: Sequence[ListedBlob]) -> list[Stray]:
        whose = {one.name: owner(zone, one.name) for one in piece}
        async with self.database.transaction() as session:
            known = await Owners(session).of({each for each in whose.values() if each is not None})
        late = await self._late_files(zone, [one.name for one in piece], whose, known)
        reasons = {one.name: _reason(zone, one, whose[one.name], known, late) for one in piece}
        alone = [one for one in piece if reasons[one.name]]
        if self.removes:
            await self._remove(store, [one for one in alone if one.name not in late and _is_ours(one, whose)])
        return [
            Stray(zone=zone, name=one.name, size_bytes=one.size_bytes, reason=reasons[one.name] or "") for one in alone
        ]

    async def _late_files(
        self, zone: str, names: Sequence[str], whose: Mapping[str, Owner | None], known: Mapping[Owner, Owned]
    ) -> set[str]:
        """Return files that came after their request was collected, and have the collector look there again."""
        late = set[str]()
        by_request: dict[UUID, list[str]] = {}
        for name in names:
            of = known.get(named) if (named := whose[name]) else None
            if of is not None and of.is_collected:
                by_request.setdefault(of.request_id, []).append(name)
        for request_id, theirs in by_request.items():
            found = await self.collecting.left_over(request_id, zone, theirs)
            late.update(found)
            if found and self.removes:
                async with self.database.transaction() as session:
                    self._removed += len(found)
                    await Owners(session).look_again(request_id)
        return late

    async def _remove(self, store: StampedStore, alone: Sequence[ListedBlob]) -> None:
        def remove() -> None:
            with storage_answers():
                store.remove(alone)

        await in_storage_thread(remove)
        self._removed += len(alone)


def _is_ours(file: ListedBlob, whose: Mapping[str, Owner | None]) -> bool:
    """Whether a run of ours can have made the file. Others were put there by people, who have to remove them."""
    return whose[file.name] is not None or is_partial(file.name)


def _next_files(listed: Iterator[ListedBlob]) -> list[ListedBlob]:
    with storage_answers():
        return list(islice(listed, FILES_AT_ONCE))


def _reason(
    zone: str, file: ListedBlob, whose: Owner | None, known: Mapping[Owner, Owned], late: set[str]
) -> str | None:
    if whose is None:
        return why_unowned(zone, file.name, time.time() - file.written_at)
    if whose not in known:
        return f"there is no such {whose.kind}"
    return "its request needs it no more" if file.name in late else None
