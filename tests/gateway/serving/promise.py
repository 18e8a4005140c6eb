"""Who may read what, as it was promised: readers, doors, kinds of assets, and who is let through. Calls nothing.

What the tests hold serving against, so it is written from the promise and not from the rule.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import morecantile

from deployments import sample
from tests.support.library import SIZE

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
# For what is approved and offered.
MAY_READ = {"uncleared": STAFF, "ouo": STAFF | {"owner"}, "public": frozenset(ROLES)}
# What happened to version 0 of each asset. Of `resubmitted` another revision waits beside the approved one.
STATES = ("waiting", "rejected", "approved", "resubmitted", "superseded", "unpublished")
APPROVED = frozenset({"approved", "resubmitted", "superseded"})

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
    "named file": "/tiles/{id}/files/data-{digest}.tif?version=0",
    "link": "/tiles/{id}/link?version=0",
    "collection": "/stac/collections/{id}",
    "collection's items": "/stac/collections/{id}/items",
    "queryables": "/stac/collections/{id}/queryables",
    "item": "/stac/collections/{id}/items/{id}-0-r1",
    "next item": "/stac/collections/{id}/items/{id}-0-r2",
}
VECTOR_DOORS = {
    "vector tile": f"/tiles/{{id}}/WebMercatorQuad/{_VECTOR_TILE.z}/{_VECTOR_TILE.x}/{_VECTOR_TILE.y}?version=0",
    "vector tilejson": "/tiles/{id}/WebMercatorQuad/tilejson.json?version=0",
    "layer": "/vector/collections/{id}?version=0",
    "properties": "/vector/collections/{id}/queryables?version=0",
    "features": "/vector/collections/{id}/items?version=0",
    "feature": "/vector/collections/{id}/items/1?version=0",
    "parquet": "/tiles/{id}/data.parquet?version=0",
}
DOORS = {"raster": RASTER_DOORS, "vector": VECTOR_DOORS}
COLLECTION_DOORS = frozenset({"collection", "collection's items", "queryables"})
OF_THE_CATALOGUE = COLLECTION_DOORS | {"item", "next item"}


@dataclass(frozen=True)
class Asset:
    """What was done to an asset."""

    kind: str
    clearance: str
    state: str
    exposure: str
    asset_id: str = ""


def assets(kind: str, *, all_of_them: bool) -> Iterator[Asset]:
    """Every combination; or without the other exposure where there is one version, to which it means nothing."""
    for clearance, state, exposure in itertools.product(CLEARANCES, STATES, EXPOSURES):
        has_two = state == "superseded"
        if (all_of_them or has_two or exposure == "latest_only") and (kind == "raster" or state != "resubmitted"):
            yield Asset(kind, clearance, state, exposure)


def allowed(asset: Asset, door: str) -> frozenset[str]:
    """Who may go through the door."""
    if door in COLLECTION_DOORS:
        return collections_of(asset)
    if door == "next item":
        return STAFF if asset.state == "resubmitted" else NOBODY
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


def items(asset: Asset, role: str) -> set[str]:
    """The asset's items that a reader finds by searching: what waits is found by nobody."""
    found = set()
    if asset.state in APPROVED and role in allowed(asset, "item"):
        found.add(f"{asset.asset_id}-0-r1")
    if asset.state == "superseded" and role in MAY_READ[asset.clearance]:
        found.add(f"{asset.asset_id}-1-r1")
    return found
