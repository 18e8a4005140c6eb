"""Tiles per second beside bare TiTiler, and how soon a decision is seen by readers.

Both servers are one uvicorn worker and show the same COG with the same stretch; ours finds the file by asset and
version and asks the clearance rule first. No tile is asked for twice and neither side keeps tiles; rounds take turns.
A decision is seen once the STAC API and the tiles say so to somebody without a credential. CAIRN_BENCH_SHORT=1 asks
for fewer.
"""

import asyncio
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from statistics import median, quantiles
from typing import Any, Final
from urllib.parse import urlencode

import morecantile

from benchmarks import _products
from benchmarks._flow_runs import figure
from benchmarks._load import this_machine
from benchmarks._servers import DOMAIN_KEYS, Connection, Postgres, Server, connections, postgres, serving
from domain.rules.rendering import rendering_of
from flows.handlers.raster.declarations import CogResult

CONCURRENCY: Final = 4
SIZE, SHORT_SIZE = 4096, 1024
ROUNDS, SHORT_ROUNDS = 7, 2
TILES, SHORT_TILES = 160, 24
DECISIONS, SHORT_DECISIONS = 40, 3
ZOOMS: Final = (12, 13, 14, 15)
POLL_SECONDS: Final = 0.005
GIVE_UP_SECONDS: Final = 20.0
ASSET: Final = "bench-tiles"


@dataclass(frozen=True)
class Side:
    """One of the two servers, with its requests and their times."""

    server: Server
    path: str  # with {place} where the tile's place goes
    per_second: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)

    async def read(self, places: Sequence[str]) -> None:
        """All of these tiles, four at a time."""
        waiting = list(places)
        cpu, began = self.server.cpu_seconds(), time.perf_counter()
        async with connections(self.server.port, CONCURRENCY) as opened:
            await asyncio.gather(*(self._read(connection, waiting) for connection in opened))
        self.per_second.append(len(places) / (time.perf_counter() - began))
        self.cpu_seconds.append((self.server.cpu_seconds() - cpu) / len(places))

    async def _read(self, connection: Connection, waiting: list[str]) -> None:
        while waiting:
            path = self.path.format(place=waiting.pop())
            if (status := (await connection.get(path)).status) != 200:
                raise RuntimeError(f"A tile was answered with {status}: {path}")


def run(rounds: int | None = None, tiles: int | None = None, decisions: int | None = None) -> dict[str, Any]:
    """Measure, and report in the shape of all benchmarks."""
    short = bool(os.environ.get("CAIRN_BENCH_SHORT"))
    rounds, tiles = rounds or (SHORT_ROUNDS if short else ROUNDS), tiles or (SHORT_TILES if short else TILES)
    decisions = decisions or (SHORT_DECISIONS if short else DECISIONS)
    with tempfile.TemporaryDirectory(prefix="cairn-bench-serving-") as folder, postgres() as cluster:
        root = Path(folder)
        product = _products.made_raster(root, SHORT_SIZE if short else SIZE)
        _products.add_staff(cluster)
        with (
            serving("domain.app:create_app", _domain(cluster, root)) as domain,
            serving("gateway.serving.app:create_app", _serving(cluster, root)) as ours,
        ):
            results = asyncio.run(_speed(cluster, root, product, (domain, ours), rounds, tiles))
            results += asyncio.run(_decisions(cluster, root, product, (domain, ours), decisions))
    return {"bench": "serving", "machine": this_machine(), "versions": _versions(), "results": results}


async def _speed(
    cluster: Postgres, root: Path, product: CogResult, servers: tuple[Server, Server], rounds: int, tiles: int
) -> list[dict[str, Any]]:
    """Tiles of one product, by turns from both sides."""
    domain, server = servers
    await asyncio.to_thread(_products.add_processed, cluster, root, product, ASSET)
    await _decide(domain, ASSET, "approve")
    drawn = rendering_of([band.model_dump() for band in product.bands])
    told = [("url", str(root / "silver" / product.cog)), *(("bidx", number) for number in drawn.bands)]
    asked = urlencode([*told, ("rescale", "{},{}".format(*drawn.range))] if drawn.range else told)
    with serving("benchmarks._bare_titiler:create_app", {}) as bare:
        ours = Side(server, f"/tiles/{ASSET}/WebMercatorQuad/{{place}}.png")
        theirs = Side(bare, f"/tiles/WebMercatorQuad/{{place}}.png?{asked}")
        places = _places(product, (rounds + 1) * tiles + 1)
        await _require_the_same(ours, theirs, places.pop())
        for number in range(rounds + 1):  # the first round warms both sides up
            part = places[number * tiles : (number + 1) * tiles]
            for side in (ours, theirs) if number % 2 else (theirs, ours):
                await side.read(part)
            if number == 0:
                for side in (ours, theirs):
                    side.per_second.clear()
                    side.cpu_seconds.clear()
    return _compared(ours, theirs, rounds, tiles)


async def _require_the_same(ours: Side, theirs: Side, place: str) -> None:
    """Two servers that show different pictures cannot be compared."""
    shown = []
    for side in (ours, theirs):
        async with connections(side.server.port, 1) as [connection]:
            shown.append((await connection.get(side.path.format(place=place))).body)
    if shown[0] != shown[1]:
        raise RuntimeError(f"The tile {place} is not the same on both sides.")


def _places(product: CogResult, count: int) -> list[str]:
    """Choose this many tiles of several zooms in random order."""
    tms, dice = morecantile.tms.get("WebMercatorQuad"), random.Random(7)  # noqa: S311 - dice, not secrets
    found = [f"{tile.z}/{tile.x}/{tile.y}" for tile in tms.tiles(*product.bounds_wgs84, zooms=list(ZOOMS))]
    zoom = max(ZOOMS)
    while len(found) < count:  # a small raster has few tiles at its own zooms
        zoom += 1
        found += [f"{tile.z}/{tile.x}/{tile.y}" for tile in tms.tiles(*product.bounds_wgs84, zooms=[zoom])]
    dice.shuffle(found)
    return found[:count]


def _compared(ours: Side, theirs: Side, rounds: int, tiles: int) -> list[dict[str, Any]]:
    note = f"{tiles} distinct tiles a round, concurrency {CONCURRENCY}, policy included; baseline: bare TiTiler"
    own, peer = median(ours.per_second), median(theirs.per_second)
    ratio = median(one / other for one, other in zip(ours.per_second, theirs.per_second, strict=True))
    speed = figure("tiles", own, "1/s", baseline=peer, ratio=ratio, n=rounds, note=note, at_least=1.0)
    own, peer = median(ours.cpu_seconds), median(theirs.cpu_seconds)
    note = "processor time of the server's process for each tile; baseline: bare TiTiler"
    cost = figure(
        "tile_cpu", own * 1000, "ms", baseline=peer * 1000, ratio=own / peer, n=rounds, note=note, at_most=1.0
    )
    return [speed, cost]


async def _decisions(
    cluster: Postgres, root: Path, product: CogResult, servers: tuple[Server, Server], count: int
) -> list[dict[str, Any]]:
    """From the decision's first byte to the first answers that know of it."""
    seen: dict[str, list[float]] = {"approve": [], "unpublish": []}
    [place] = _places(product, 1)
    for number in range(count + 1):
        asset_id = f"bench{number}"
        await asyncio.to_thread(_products.add_processed, cluster, root, product, asset_id)
        for verb, status in (("approve", 200), ("unpublish", 404)):
            took = await _seen(servers, asset_id, place, verb, status)
            if number:  # the first one warms the processes up
                seen[verb].append(took)
    facts: dict[str, Any] = {"baseline": None, "ratio": None, "n": count}
    notes = {
        "approve": ("approve_to_visible_p95", 1.0, "item in the STAC API and tile are there for anybody"),
        "unpublish": ("unpublish_to_hidden_p95", 5.0, "neither is; caches of readers may keep answers for 3 s more"),
    }
    return [
        figure(name, _p95(seen[verb]), "s", **facts, note=f"{note}; median {median(seen[verb]):.3f} s", at_most=target)
        for verb, (name, target, note) in notes.items()
    ]


async def _seen(servers: tuple[Server, Server], asset_id: str, place: str, verb: str, status: int) -> float:
    """Decide, and ask for the item and a tile until both say so."""
    domain, server = servers
    paths = (
        f"/stac/collections/{asset_id}/items/{asset_id}-0-r1",
        f"/tiles/{asset_id}/WebMercatorQuad/{place}.png",
    )
    async with connections(server.port, len(paths)) as opened:
        began = time.perf_counter()
        asking = [_until(status, one, path) for one, path in zip(opened, paths, strict=True)]
        await asyncio.gather(_decide(domain, asset_id, verb), *asking)
        return time.perf_counter() - began


async def _until(status: int, connection: Connection, path: str) -> None:
    deadline = time.perf_counter() + GIVE_UP_SECONDS
    while (await connection.get(path)).status != status:
        if time.perf_counter() > deadline:
            raise RuntimeError(f"A decision was not seen in {GIVE_UP_SECONDS} seconds: {path}")
        await asyncio.sleep(POLL_SECONDS)


async def approve(domain: Server, asset_id: str) -> None:
    """Have the asset's version served to anybody."""
    await _decide(domain, asset_id, "approve")


async def _decide(domain: Server, asset_id: str, verb: str) -> None:
    body = {"approve": {"clearance_level": "public"}, "unpublish": {"reason": "to be measured"}}[verb]
    path = f"/api/v1/assets/{asset_id}/versions/0/{verb}"
    async with connections(domain.port, 1) as [connection]:
        status = await connection.post(path, _products.REVIEWER, json.dumps({"revision": 1, **body}).encode())
    if status != 200:
        raise RuntimeError(f"A decision was answered with {status}.")


def _p95(seconds: Sequence[float]) -> float:
    return quantiles(seconds, n=20, method="inclusive")[18]


def _domain(cluster: Postgres, root: Path) -> dict[str, str]:
    """Without a relay: exports are queued, as ever, and nobody carries them out beside what is measured."""
    return {
        "CAIRN_DATABASE_URL": cluster.url("cairn_app"),
        "CAIRN_PUBLIC_URL": "https://bench.test",
        **DOMAIN_KEYS,
        "CAIRN_STORAGE_ROOT": str(root),
        "CAIRN_RELAY_ENABLED": "false",
        "CAIRN_CALLBACKS_ENABLED": "false",
    }


def _serving(cluster: Postgres, root: Path) -> dict[str, str]:
    return {"CAIRN_DATABASE_SERVING_URL": cluster.url("cairn_serving"), "CAIRN_STORAGE_ROOT": str(root)}


def _versions() -> dict[str, str]:
    names = ("titiler.core", "rio-tiler", "rasterio", "stac-fastapi.pgstac", "uvicorn")
    return {"python": python_version(), **{name: version(name) for name in names}}


if __name__ == "__main__":
    json.dump(run(), sys.stdout, indent=2)
    sys.stdout.write("\n")
