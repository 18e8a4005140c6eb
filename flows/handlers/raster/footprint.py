"""The outline of a product's data, in degrees. Knows shapes and coordinates; imports rasterio and shapely."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

import numpy as np
from affine import Affine
from rasterio.crs import CRS
from rasterio.features import shapes
from rasterio.warp import transform
from shapely import Polygon, box, make_valid, unary_union
from shapely.affinity import affine_transform, translate
from shapely.geometry import shape
from shapely.geometry.base import BaseGeometry

from flows.handlers.raster.opening import GDAL_ERRORS

LONGEST_SIDE: Final = 256
MOST_CORNERS: Final = 200
# Straight lines of a projection are bent on the globe: each side gets corners about so far apart.
SIDE_PARTS: Final = 16
DECIMALS: Final = 6
_WGS84: Final = CRS.from_epsg(4326)

Coordinates = list[list[list[tuple[float, float]]]]
"""Polygons, each its outer ring and its holes, cut at the antimeridian."""


def outline(mask: np.ndarray[Any, Any], place: Affine, crs: CRS) -> Coordinates | None:
    """Where the mask is not zero; `place` puts its pixels on the ground. None where that has no simple outline."""
    found = [shape(one) for one, value in shapes((mask > 0).astype("uint8"), connectivity=8) if value]
    if not found:
        return None
    on_ground = _simple(unary_union(found), place)
    try:
        in_degrees = [part for polygon in _polygons(on_ground) for part in _in_degrees(polygon, crs)]
    except (*GDAL_ERRORS, ValueError):
        return None
    whole = make_valid(unary_union(in_degrees)) if in_degrees else Polygon()
    parts = [part for polygon in _polygons(whole) for part in _cut(polygon)]
    return [_rings(part) for part in parts if part.area > 0] or None


def _simple(pixels: BaseGeometry, place: Affine) -> BaseGeometry:
    """Return the outline on the ground with few corners."""
    tolerance, simple = 0.75, pixels
    while _corners(simple) > MOST_CORNERS or tolerance < 1:
        simple = pixels.simplify(tolerance)
        tolerance *= 2
        if tolerance > LONGEST_SIDE:
            return _placed(pixels.convex_hull, place)
    return _placed(simple, place)


def _corners(geometry: BaseGeometry) -> int:
    return sum(len(ring.coords) for polygon in _polygons(geometry) for ring in (polygon.exterior, *polygon.interiors))


def _placed(geometry: BaseGeometry, place: Affine) -> BaseGeometry:
    a, b, c, d, e, f = place[:6]
    return affine_transform(geometry, [a, b, d, e, c, f])


def _polygons(geometry: BaseGeometry) -> list[Polygon]:
    if isinstance(geometry, Polygon):
        return [] if geometry.is_empty else [geometry]
    return [part for part in getattr(geometry, "geoms", ()) if isinstance(part, Polygon)]


def _in_degrees(polygon: Polygon, crs: CRS) -> Iterator[Polygon]:
    """The polygon on the globe; eastwards of 180 degrees where it crosses the antimeridian."""
    rings = [_ring_in_degrees(list(ring.coords), crs) for ring in (polygon.exterior, *polygon.interiors)]
    yield from _polygons(make_valid(Polygon(rings[0], rings[1:])))


def _ring_in_degrees(ring: list[tuple[float, ...]], crs: CRS) -> list[tuple[float, float]]:
    places = list(_with_more_corners(ring))
    if crs == _WGS84:
        return places
    xs, ys = transform(crs, _WGS84, [x for x, _ in places], [y for _, y in places])
    if not np.isfinite([*xs, *ys]).all():
        raise ValueError("A corner lies outside of the Earth.")
    if max(xs) - min(xs) > 180:  # the short way crosses the antimeridian
        xs = [x + 360 if x < 0 else x for x in xs]
        if max(xs) - min(xs) > 180:  # so does the other way: it runs around a pole
            raise ValueError("A ring around a pole has no inside in degrees.")
    return list(zip(xs, ys, strict=True))


def _with_more_corners(ring: list[tuple[float, ...]]) -> Iterator[tuple[float, float]]:
    for (x, y, *_), (next_x, next_y, *_) in pairwise(ring):
        for part in range(SIDE_PARTS if len(ring) < SIDE_PARTS else 1):
            share = part / SIDE_PARTS
            yield x + share * (next_x - x), y + share * (next_y - y)
    yield ring[0][0], ring[0][1]


def _cut(polygon: Polygon) -> Iterator[Polygon]:
    """Its parts within -180 and 180 degrees."""
    for turn in (-360.0, 0.0, 360.0):
        yield from _polygons(translate(polygon, turn).intersection(box(-180, -90, 180, 90)))


def _rings(polygon: Polygon) -> list[list[tuple[float, float]]]:
    return [
        [(round(x, DECIMALS), round(y, DECIMALS)) for x, y, *_ in ring.coords]
        for ring in (polygon.exterior, *polygon.interiors)
    ]
