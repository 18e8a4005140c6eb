"""What must hold once all is quiet: by the journal, the database, the files, and what readers get."""

import asyncio
import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx
import psycopg

from flows.storage import Zones
from flows.storage.protocol import Store
from tests.support.chaos_invariants import INVARIANTS
from tests.support.leftovers import strays
from tests.support.stack import RunningStack
from tests.support.storm.journal import Entry
from tests.support.storm.people import People

QUIET_SECONDS = 1500.0
AT_ONCE = 6
COLLECTED_SECONDS = 300.0  # flow runs of lost attempts must have been seen to be over
RERUN_SECONDS = 7 * 86_400  # what failed may be rerun so long, and keeps what it made
# Those that hold of real work too: what a revision holds is not made of its attempt's token here.
HOLDING = {name: query for name, query in INVARIANTS.items() if "late or fenced attempt" not in name}
OPEN = """
    select r.request_id::text || ' ' || coalesce(u.workflow_id, '') || ' ' || r.status || ' ' || coalesce((
        select string_agg(a.number || a.state, ' ' order by number) from app.attempts a where a.run_id = u.run_id), '')
    from app.requests r left join app.runs u using (request_id) where r.status in ('pending', 'processing')
"""
FAILED = """
    select r.request_id::text, u.workflow_id, u.problem ->> 'code', u.problem ->> 'message'
    from app.requests r join app.runs u using (request_id) where r.status = 'failed' and u.state = 'failed'
"""
ATTEMPTS = "select most, count(*) from (select max(number) as most from app.attempts group by run_id) as a group by 1"
STANDS = """
    select r.approval, v.served_revision, a.clearance, v.deleted_at is not null
    from app.revisions r join app.asset_versions v using (asset_id, ordinal) join app.assets a using (asset_id)
    where (r.asset_id, r.ordinal, r.revision) = (%s, %s, %s)
"""
FILES = """
    select zone, name, sha256, external_blob_path, ordinal = (
        select max(ordinal) from app.asset_versions v where v.asset_id = a.asset_id and served_revision is not null
    ) and role not in ('stac_item', 'stac_items')
    from app.artifacts a where (asset_id, ordinal, revision) = (%s, %s, %s)
"""


@dataclass(frozen=True)
class Judge:
    """Looks at everything, and says in sentences what is not as it should be."""

    stack: RunningStack
    people: People
    zones: Zones
    collects: bool = True

    async def quiet(self, seconds: float = QUIET_SECONDS) -> None:
        """Wait until nothing is open: exports and what is taken back too."""
        end = time.monotonic() + seconds
        while await self.rows(OPEN):
            if time.monotonic() > end:
                return
            await asyncio.sleep(1)

    async def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """What the database says, once it says something: its own restart may not be over."""
        while True:
            try:
                return await asyncio.to_thread(self.stack.rows, query, *values)
            except psycopg.OperationalError:
                await asyncio.sleep(1)

    async def verdict(self) -> list[str]:
        """Every fault that was found."""
        journal = self.people.journal
        faults = [*journal.faults, *journal.wrong()]
        faults += [f"still open: {row[0]}" for row in await self.rows(OPEN)]
        faults += await self._failures()
        for name, query in HOLDING.items():
            faults += [f"{name}: {row}" for row in await self.rows(query)]
        completed = [entry for entry in journal.accepted if entry.ended == "completed"]
        places = asyncio.Semaphore(AT_ONCE)

        async def looked(entry: Entry) -> list[str]:
            async with places:
                return [f"{entry.story} {entry.request_id}: {fault}" for fault in await self._entry(entry)]

        for found in await asyncio.gather(*map(looked, completed)):
            faults += found
        return faults + await self._alone()

    async def _failures(self) -> list[str]:
        """Runs that failed and were not meant to, the service's own too."""
        meant = {entry.request_id for entry in self.people.journal.accepted if "failed" in entry.wanted}
        return [
            f"{workflow} of {request} failed: {code} {message}"
            for request, workflow, code, message in await self.rows(FAILED)
            if request not in meant
        ]

    async def _entry(self, entry: Entry) -> list[str]:
        place = (entry.asset_id, entry.ordinal, entry.revision)
        [(approval, served, clearance, deleted)] = await self.rows(STANDS, *place)
        faults = []
        if entry.approval and (approval, served is not None) != (entry.approval, entry.served is not None):
            faults.append(f"is {approval} and serves {served}, not {entry.approval} and serving {entry.served}")
        if deleted != entry.deleted:
            faults.append("was to be deleted" if entry.deleted else "is deleted")
        if entry.served and clearance != entry.served:
            faults.append(f"is {clearance}, not {entry.served}")
        if entry.served:
            rows = await self.rows(FILES, *place)
            faults += await asyncio.to_thread(self._kept, rows, is_public=entry.served == "public")
            faults += await self._readable(entry, {name: digest for _, name, digest, _, _ in rows})
        return faults

    def _kept(self, rows: list[tuple[Any, ...]], *, is_public: bool) -> list[str]:
        """Each file of it is what its row says; of what is public, its copy outside too."""
        faults = [] if rows else ["has no file"]
        for zone, name, digest, copy, is_copied in rows:
            if _digest(getattr(self.zones, zone), name) != digest:
                faults.append(f"{zone}/{name} is not what its row says")
            if is_public and (copy is not None) != is_copied:
                faults.append(f"{zone}/{name} has {'a' if copy else 'no'} copy outside")
            if copy and _digest(self.zones.external, copy) != digest:
                faults.append(f"external/{copy} is not what {zone}/{name} is")
        return faults

    async def _readable(self, entry: Entry, digests: Mapping[str, str]) -> list[str]:
        """The catalogue has it, its file comes whole, and a tile is drawn."""
        reader = self.people.reviewers[0]
        name = f"{entry.asset_id}-{entry.ordinal}-r{entry.revision}"
        item = await reader.ask("GET", "gateway", f"/stac/collections/{entry.asset_id}/items/{name}")
        if item.status_code != httpx.codes.OK:
            return [f"its item is answered {item.status_code}"]
        faults = []
        told = item.json()
        href = httpx.URL(told["assets"]["data"]["href"])
        data = await reader.ask("GET", "gateway", href.raw_path.decode())
        if hashlib.sha256(data.content).hexdigest() not in digests.values():
            faults.append(f"its file is answered {data.status_code} with {len(data.content)} other bytes")
        west, south, east, north = told["bbox"]
        z, x, y = tile_at((west + east) / 2, (south + north) / 2)
        path = f"/tiles/{entry.asset_id}/WebMercatorQuad/{z}/{x}/{y}"
        tile = await reader.ask("GET", "gateway", path, params={"version": entry.ordinal})
        if tile.status_code != httpx.codes.OK:
            faults.append(f"its tile is answered {tile.status_code} {tile.text[:200]}")
        return faults

    async def _alone(self) -> list[str]:
        """Files and tables that nobody owns and rows without their file, once the collector has had its time."""
        end = time.monotonic() + COLLECTED_SECONDS
        while True:
            found = await asyncio.to_thread(strays, self.stack.url("postgres"), self.zones, RERUN_SECONDS)
            if not self.collects:
                return [one for one in found if one.startswith("artifact")]
            if not found or time.monotonic() > end:
                return found
            await asyncio.sleep(1)


def tile_at(lon: float, lat: float, zoom: int = 9) -> tuple[int, int, int]:
    import morecantile

    tile = morecantile.tms.get("WebMercatorQuad").tile(lon, lat, zoom)
    return tile.z, tile.x, tile.y


def _digest(store: Store, name: str) -> str | None:
    """The checksum of a blob as it lies there; none of what is not there."""
    if store.size_bytes(name) is None:
        return None
    summed = hashlib.sha256()
    for chunk in store.chunks(name):
        summed.update(chunk)
    return summed.hexdigest()
