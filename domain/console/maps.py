"""What a page's map shows: addresses of tiles, bounds, outlines. Pure: stored facts in, plain data out."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from domain.contracts.assets import AssetView, VersionView
from domain.rules.publication import item_id
from domain.rules.rendering import trouble
from domain.rules.secrets import without_secrets

WHOLE_EARTH = (-180.0, -85.0, 180.0, 85.0)
GEOMETRIES = {"Polygon", "MultiPolygon"}
TOLD = {
    "datetime": "Data from",
    "start_datetime": "Data from",
    "end_datetime": "Data until",
    "created": "Catalogued",
    "updated": "Updated",
}


@dataclass(frozen=True)
class Map:
    """The tiles of this version, and beside them those of what is served as latest, where that is another one."""

    kind: str
    bounds: tuple[float, float, float, float]
    staged: str | None
    latest: str | None
    footprint: str
    trouble: str | None = None
    """Why the map of this version shows nothing, where that is known."""


def map_of(asset: AssetView, version: VersionView) -> Map:
    newest, waits = version.newest, _awaits_review(version)
    place = f"/tiles/{asset.asset_id}/WebMercatorQuad/{{z}}/{{x}}/{{y}}"
    is_latest = asset.latest_ordinal == version.ordinal and not waits
    return Map(
        kind=asset.data_type,
        bounds=bounds_of(newest.outputs or {}),
        staged=f"{place}?version={version.ordinal}" if waits or version.served_revision is not None else None,
        latest=f"{place}?version=latest" if asset.latest_ordinal is not None and not is_latest else None,
        footprint=f"/console/versions/{asset.asset_id}/{version.ordinal}/footprint/{newest.revision}",
        trouble=trouble_of(asset.data_type, newest.outputs or {}),
    )


def trouble_of(kind: str, outputs: Mapping[str, Any]) -> str | None:
    """Return what a reviewer should know of the map before they decide."""
    told = outputs.get("bands")
    bands = [band for band in told if isinstance(band, dict)] if isinstance(told, list) else []
    return trouble(bands) if kind == "raster" else None


def links_of(version: VersionView, item: Mapping[str, Any] | None) -> dict[str, str]:
    """Where to look at the revision as readers would: the one that waits, else the one that is served."""
    shown = version.newest.revision if _awaits_review(version) else version.served_revision
    if shown is None:
        return {}
    tiles = {"TileJSON": f"/tiles/{version.asset_id}/WebMercatorQuad/tilejson.json?version={version.ordinal}"}
    name = item_id(version.asset_id, version.ordinal, shown)
    return ({"catalogue item": f"/stac/collections/{version.asset_id}/items/{name}"} if item else {}) | tiles


def _awaits_review(version: VersionView) -> bool:
    return version.newest.approval == "pending_review" and version.newest.processing == "completed"


def bounds_of(outputs: Mapping[str, Any]) -> tuple[float, float, float, float]:
    """West, south, east, north, as the run told; the whole Earth where it told nothing of the kind.

    East is never less than west: what lies across the antimeridian ends beyond 180 degrees.
    """
    return _told_bounds(outputs) or WHOLE_EARTH


def _told_bounds(outputs: Mapping[str, Any]) -> tuple[float, float, float, float] | None:
    checked = outputs.get("validation")
    given = outputs.get("bounds") or (checked.get("bounds_wgs84") if isinstance(checked, dict) else None)
    if not isinstance(given, list) or len(given) != 4:
        return None
    if not all(isinstance(value, int | float) and math.isfinite(value) for value in given):
        return None
    west, south, east, north = (float(value) for value in given)
    return west, south, east if west <= east else east + 360, north


def footprint(item: Mapping[str, Any] | None, outputs: Mapping[str, Any]) -> dict[str, Any]:
    """GeoJSON: the item's geometry, else a box, else nothing."""
    geometry = (item or {}).get("geometry")
    if not isinstance(geometry, dict) or geometry.get("type") not in GEOMETRIES:
        geometry = _box(_told_bounds(outputs))
    features = [{"type": "Feature", "properties": {}, "geometry": geometry}] if geometry else []
    return {"type": "FeatureCollection", "features": features}


def _box(bounds: tuple[float, float, float, float] | None) -> dict[str, Any] | None:
    if bounds is None:
        return None
    west, south, east, north = bounds
    ring = [[west, south], [east, south], [east, north], [west, north], [west, south]]
    return {"type": "Polygon", "coordinates": [ring]}


def outline(item: Mapping[str, Any] | None) -> dict[str, str]:
    """Return what the catalogue item says of its origin, as text."""
    if item is None:
        return {}
    properties = item.get("properties")
    told = properties if isinstance(properties, dict) else {}
    links = item.get("links")
    sources = [
        without_secrets(str(link.get("href")))
        for link in (links if isinstance(links, list) else [])
        if isinstance(link, dict) and link.get("rel") == "derived_from"
    ]
    facts = {title: str(told[name]) for name, title in TOLD.items() if told.get(name) is not None}
    return (
        {"Catalogue item": str(item.get("id", ""))} | facts | ({"Derived from": ", ".join(sources)} if sources else {})
    )
