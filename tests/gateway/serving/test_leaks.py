"""Every reader at every door of every kind of asset: nobody gets what is not theirs, everybody gets what is.

What is expected comes from the lists below, written from the platform's promise and not from its code. What is refused
must look, byte for byte, as what was never there.
"""

import itertools
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import httpx
import morecantile
import pytest

from deployments import sample
from tests.support.acts import call, decide
from tests.support.cluster import TestDatabase
from tests.support.library import SIZE, Library, library

NOBODY: frozenset[str] = frozenset()
STAFF = frozenset({"reviewer", "operator"})
ROLES: dict[str, str | None] = {
    "anybody": None,
    "owner": "ddh-dev",
    "stranger": "arcgis-dev",
    "reviewer": "reviewer",
    "operator": "operator",
    "worker": "worker",
}
CLEARANCES = ("uncleared", "ouo", "public")
EXPOSURES = ("latest_only", "all_versions")
# The promise, for what is approved and offered.
MAY_READ = {"uncleared": STAFF, "ouo": STAFF | {"owner"}, "public": frozenset(ROLES)}
# What happened to version 0 of each asset.
STATES = ("waiting", "rejected", "approved", "replaced", "superseded", "unpublished")
APPROVED = frozenset({"approved", "replaced", "superseded"})

LON, LAT = sample.lonlat_of(*sample.pick_pixel(1, SIZE))
_TILE = morecantile.tms.get("WebMercatorQuad").tile(LON, LAT, 13)
_VECTOR_TILE = morecantile.tms.get("WebMercatorQuad").tile(14.15, 47.05, 8)
RASTER_DOORS = {
    "tile": f"/tiles/{{id}}/WebMercatorQuad/{_TILE.z}/{_TILE.x}/{_TILE.y}.png?version=0",
    "tilejson": "/tiles/{id}/WebMercatorQuad/tilejson.json?version=0",
    "info": "/tiles/{id}/info?version=0",
    "statistics": "/tiles/{id}/statistics?version=0",
    "preview": "/tiles/{id}/preview/32x32.png?version=0",
    "point": f"/tiles/{{id}}/point/{LON},{LAT}?version=0",
    "file": "/tiles/{id}/data.tif?version=0",
    "link": "/tiles/{id}/link?version=0",
    "item": "/stac/collections/{id}/items/{id}-0-r1",
}
VECTOR_DOORS = {
    "vector tile": f"/tiles/{{id}}/WebMercatorQuad/{_VECTOR_TILE.z}/{_VECTOR_TILE.x}/{_VECTOR_TILE.y}?version=0",
    "vector tilejson": "/tiles/{id}/WebMercatorQuad/tilejson.json?version=0",
    "layer": "/vector/collections/{id}?version=0",
    "features": "/vector/collections/{id}/items?version=0",
    "feature": "/vector/collections/{id}/items/1?version=0",
    "parquet": "/tiles/{id}/data.parquet?version=0",
}


@dataclass(frozen=True)
class Asset:
    """One cell's three coordinates, and what they were given to."""

    kind: str
    clearance: str
    state: str
    exposure: str
    asset_id: str


def allowed(asset: Asset, door: str) -> frozenset[str]:
    """Who may go through the door: the promise, spelled out."""
    if asset.state == "rejected":
        return NOBODY
    if asset.state in {"waiting", "unpublished"}:
        return STAFF
    readers = MAY_READ[asset.clearance]
    if asset.state == "superseded" and asset.exposure == "latest_only":
        readers &= STAFF | {"owner"}
    return readers


def collections_of(asset: Asset) -> frozenset[str]:
    """Who knows of the asset: whoever may read its latest version."""
    return MAY_READ[asset.clearance] if asset.state in APPROVED else NOBODY


def listed(asset: Asset) -> frozenset[str]:
    """Who finds version 0's first revision by searching: what waits is found by nobody."""
    return allowed(asset, "search") if asset.state in APPROVED else NOBODY


async def prepared(made: Library, kind: str, clearance: str, state: str, exposure: str) -> Asset:
    """An asset in this state, brought there by the acts that lead there."""
    name, make = f"{kind}-{clearance}-{state}-{exposure}", made.raster if kind == "raster" else made.vector
    asset_id = await make(name)
    verbs = {"rejected": ["reject"], "waiting": [], "unpublished": ["approve", "unpublish"]}.get(state, ["approve"])
    for verb in verbs:
        assert (await decide(made.domain, asset_id, 0, verb)).status_code == 200
    if state == "superseded":
        await make(name, "2")
        assert (await decide(made.domain, asset_id, 1, "approve")).status_code == 200
    if state == "replaced":
        await made.raster(name, source="up/better.tif") if kind == "raster" else None
    for what, body in (
        ("clearance", {"clearance_level": clearance, "reason": "for the test"}),
        ("exposure", {"exposure": exposure}),
    ):
        path = f"/assets/{asset_id}/{what}"
        answer = await call(made.domain, "reviewer", "POST", path, body, headers={"If-Match": "*"})
        assert answer.status_code == 200, answer.text
    return Asset(kind, clearance, state, exposure, asset_id)


@pytest.mark.parametrize("kind", ["raster", "vector"])
async def test_nobody_gets_what_is_not_theirs(kind: str, database: TestDatabase, tmp_path: Path) -> None:
    async with library(database, tmp_path) as made:
        states = [state for state in STATES if kind == "raster" or state != "replaced"]
        assets = [
            await prepared(made, kind, *coordinates) for coordinates in itertools.product(CLEARANCES, states, EXPOSURES)
        ]
        told: Counter[int] = Counter()
        leaks: list[str] = []
        for role, client_id in ROLES.items():
            async with made.reader(client_id) as reader:
                told += await _through_doors(reader, role, kind, assets, leaks)
                told += await _by_lists(reader, role, kind, assets, leaks)
        cells = sum(told.values())
        print(f"\n{kind}: {cells} cells, {told[200] / cells:.0%} of them 200, {len(leaks)} wrong")  # noqa: T201
        assert leaks == []
        assert cells >= (500 if kind == "raster" else 300)
        assert told[200] >= 0.3 * cells


async def _through_doors(
    reader: httpx.AsyncClient, role: str, kind: str, assets: list[Asset], leaks: list[str]
) -> Counter[int]:
    """Ask for version 0 of each asset by its address."""
    told: Counter[int] = Counter()
    for door, path in (RASTER_DOORS if kind == "raster" else VECTOR_DOORS).items():
        absent = await reader.get(path.format(id="0" * 32))
        for asset in assets:
            answer = await reader.get(path.format(id=asset.asset_id))
            told[answer.status_code] += 1
            expected = 200 if role in allowed(asset, door) else 404
            as_absent = _alike(answer, absent, asset.asset_id)
            if door == "item" and role in collections_of(asset):  # then what is not there is the item alone
                other = await reader.get(path.format(id=asset.asset_id).replace("-0-r1", "-9-r1"))
                as_absent = _alike(answer, other, "-0-r1", "-9-r1")
            is_public = "public" in answer.headers["cache-control"]
            if answer.status_code != expected or (expected == 404 and not as_absent):
                leaks.append(f"{role} at {door} of {asset}: {answer.status_code}, expected {expected}")
            if is_public and (door == "item" or "anybody" not in allowed(asset, door) or answer.status_code != 200):
                leaks.append(f"{role} at {door} of {asset}: may be kept by caches")
    return told


def _alike(answer: httpx.Response, absent: httpx.Response, name: str, other: str = "0" * 32) -> bool:
    """Whether both say the same, but for the name that was asked for."""
    differs = {"content-length"}
    told = [{name: value for name, value in each.headers.items() if name not in differs} for each in (answer, absent)]
    return answer.text.replace(name, other) == absent.text and told[0] == told[1]


async def _by_lists(
    reader: httpx.AsyncClient, role: str, kind: str, assets: list[Asset], leaks: list[str]
) -> Counter[int]:
    """Ask for everything, and for each by name: what is listed and what is counted is what may be read."""
    told: Counter[int] = Counter()
    if kind == "vector":
        layers = (await reader.get("/vector/collections?limit=1000")).json()
        found = {layer["id"] for layer in layers["collections"]}
        expected = {each.asset_id for each in assets if role in collections_of(each)}
        if found != expected or layers["numberMatched"] != len(expected):
            leaks.append(f"{role} lists layers: {found ^ expected}")
        return told
    everything = (await reader.get("/stac/search?limit=1000")).json()["features"]
    seen, expected = {item["id"] for item in everything}, set()
    collections = (await reader.get("/stac/collections")).json()
    for asset in assets:
        first = f"{asset.asset_id}-0-r1"
        may = role in listed(asset)
        answer = (await reader.post("/stac/search", json={"ids": [first]})).json()
        told[200 if answer["features"] else 404] += 1
        if bool(answer["features"]) != may or answer.get("numberMatched", len(answer["features"])) != may:
            leaks.append(f"{role} searches for {asset}: {answer['features']}")
        expected |= {first} if may else set()
        if asset.state == "superseded" and role in collections_of(asset):
            expected |= {f"{asset.asset_id}-1-r1"}
        told[(await reader.get(f"/stac/collections/{asset.asset_id}")).status_code] += 1
    shown = {each.asset_id for each in assets if role in collections_of(each)}
    if seen != expected:
        leaks.append(f"{role} searches everything: {seen ^ expected}")
    if {each["id"] for each in collections["collections"]} != shown or collections["numberMatched"] != len(shown):
        leaks.append(f"{role} lists collections: {collections['numberMatched']} instead of {len(shown)}")
    return told
