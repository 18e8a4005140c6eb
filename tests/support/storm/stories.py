"""What partners and reviewers do while processes die: one story after the other, in several lanes."""

import asyncio
import itertools
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from deployments import sample
from flows.storage import Zones
from tests.support import vectors
from tests.support.storm.callers import NoAnswer
from tests.support.storm.people import People, new_entry, refs

SIDE, LARGE_SIDE, FIELDS, MANY_FIELDS = 512, 1536, 40, 4_000
TILED = {"memory_limit_mb": 1, "tile_pixels": 512}
Story = Callable[[People, str], Coroutine[Any, Any, None]]


def lay_out(zones: Zones, folder: Path) -> None:
    """The files that all submissions name, in each partner's own folder."""
    sample.write(folder / "small.tif", seed=1, size=SIDE)
    sample.write(folder / "large.tif", seed=2, size=LARGE_SIDE)
    content = (folder / "small.tif").read_bytes()
    (folder / "broken.tif").write_bytes(content[: len(content) // 2])
    vectors.write(folder / "fields.gpkg", vectors.squares(FIELDS, side=0.001))
    vectors.write(folder / "many.fgb", vectors.squares(MANY_FIELDS, side=0.00001))
    for file in folder.iterdir():
        for platform in ("ddh", "arcgis"):
            zones.bronze.put_file(f"uploads/{platform}/{file.name}", file)


def body(platform: str, name: str, file: str, **more: Any) -> dict[str, Any]:
    kind = "raster" if file.endswith(".tif") else "vector"
    told = {"data_type": kind, "operation": "ingest", "source": f"uploads/{platform}/{file}"}
    return refs(platform, name, more.pop("version", "1")) | told | more


async def raster(people: People, name: str) -> None:
    """Published, and so copied to the external zone."""
    entry = await people.submit(new_entry("raster", "ddh"), body("ddh", name, "small.tif"))
    if await people.follow(entry):
        await people.approve(entry, "public")


async def two_reviewers(people: People, name: str) -> None:
    entry = await people.submit(new_entry("two reviewers", "arcgis"), body("arcgis", name, "small.tif"))
    if await people.follow(entry):
        await people.approve(entry, "ouo")


async def fan_out(people: People, name: str) -> None:
    """Nine tiles on the gdal pool, joined."""
    told = body("ddh", name, "large.tif", parameters=TILED)
    entry = await people.submit(new_entry("fan-out", "ddh"), told)
    if await people.follow(entry):
        await people.approve(entry, "public")


async def fields(people: People, name: str) -> None:
    entry = await people.submit(new_entry("vector", "ddh"), body("ddh", name, "fields.gpkg"))
    if await people.follow(entry):
        await people.approve(entry, "public")


async def many_fields(people: People, name: str) -> None:
    entry = await people.submit(new_entry("vector of many", "arcgis"), body("arcgis", name, "many.fgb"))
    if await people.follow(entry):
        await people.approve(entry, "public")


async def steps(people: People, name: str) -> None:
    told = body("ddh", name, "small.tif", operation="ingest_staged")
    entry = await people.submit(new_entry("three runs", "ddh"), told)
    if await people.follow(entry):
        await people.approve(entry, "ouo")


async def broken(people: People, name: str) -> None:
    """It must fail, and for its own fault."""
    told = body("ddh", name, "broken.tif")
    entry = await people.submit(new_entry("broken", "ddh", wanted=("failed",)), told)
    await people.follow(entry)
    if entry.ended == "failed" and not entry.problem.startswith("invalid-input"):
        people.journal.faults.append(f"{entry.request_id} failed for another reason than its own: {entry.problem}")


async def changed_mind(people: People, name: str) -> None:
    """Cancelled, at once or under way; it may have been done before."""
    entry = new_entry("cancelled", "ddh", wanted=("cancelled", "completed"))
    await people.submit(entry, body("ddh", name, "small.tif"))
    await asyncio.sleep(people.dice.uniform(0, 5))
    await people.cancel(entry)
    await people.follow(entry)


async def rejected(people: People, name: str) -> None:
    entry = await people.submit(new_entry("rejected", "ddh"), body("ddh", name, "small.tif"))
    if await people.follow(entry):
        await people.reject(entry)


async def withdrawn(people: People, name: str) -> None:
    """Published and taken back, while its copy is being made or after."""
    entry = await people.submit(new_entry("withdrawn", "ddh"), body("ddh", name, "small.tif"))
    if await people.follow(entry):
        await people.approve(entry, "public")
        await asyncio.sleep(people.dice.uniform(0, 8))
        await people.unpublish(entry)


async def vote_taken_back(people: People, name: str) -> None:
    entry = await people.submit(new_entry("vote taken back", "arcgis"), body("arcgis", name, "fields.gpkg"))
    if await people.follow(entry):
        await people.vote(entry, back=False)
        await people.vote(entry, back=True)


async def deleted(people: People, name: str) -> None:
    entry = await people.submit(new_entry("deleted", "ddh"), body("ddh", name, "fields.gpkg"))
    if await people.follow(entry):
        await people.reject(entry)
        await people.delete(entry)


async def next_version(people: People, name: str) -> None:
    """Two versions, one after the other, both served."""
    for label in ("1", "2"):
        told = body("ddh", name, "small.tif", version=label)
        entry = await people.submit(new_entry(f"version {label}", "ddh"), told)
        if not await people.follow(entry):
            return
        await people.approve(entry, "public")


STORIES: tuple[Story, ...] = (
    raster, fan_out, fields, two_reviewers, changed_mind, withdrawn, many_fields, broken, steps, next_version,
    rejected, vote_taken_back, deleted,
)  # fmt: skip


SHORT: tuple[Story, ...] = (raster, fan_out, fields, two_reviewers, withdrawn, broken)


async def load(people: People, over: asyncio.Event, lanes: int, told: Sequence[Story] = STORIES) -> None:
    """Tell stories until it is over and each was told; what was begun is brought to its end."""
    numbers = itertools.count()

    async def lane() -> None:
        while (number := next(numbers)) < len(told) or not over.is_set():
            await _told(people, told[number % len(told)])

    await asyncio.gather(*(lane() for _ in range(lanes)))


async def _told(people: People, story: Story) -> None:
    try:
        await story(people, uuid4().hex[:12])
    except NoAnswer as error:
        people.journal.faults.append(str(error))
