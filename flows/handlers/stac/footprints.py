"""Where a product lies: bounding boxes and footprints in degrees, by the rules of RFC 7946. Arithmetic only."""

from collections.abc import Sequence

from pydantic import TypeAdapter, ValidationError

from domain.contracts.artifacts import Bounds
from domain.rules.extents import crosses
from flows.handlers.stac.models import Bbox, Geometry, MultiPolygon, Polygon, Position, Rings

_POLYGONS = TypeAdapter(list[Rings])


def checked_bbox(bounds: Bounds) -> Bbox:
    """The box within the world: projections overshoot the poles and the antimeridian by rounding."""
    west, south, east, north = bounds
    return _degrees(west, 180), _degrees(south, 90), _degrees(east, 180), _degrees(north, 90)


def _degrees(value: float, limit: float) -> float:
    return max(-limit, min(limit, value))


def footprint(bounds: Bounds, outline: Sequence[object] | None = None) -> Geometry:
    """What the product covers: its outline where it has a sound one, else its box.

    An outline is the coordinates of a polygon or of several, already cut at the antimeridian.
    """
    polygons = _sound(outline) or _boxes(checked_bbox(bounds))
    if len(polygons) == 1:
        return Polygon(coordinates=polygons[0])
    return MultiPolygon(coordinates=polygons)


def _sound(outline: Sequence[object] | None) -> list[Rings]:
    """The outline as polygons, wound as the RFC asks; empty where it is none, or leaves the world."""
    several = [outline] if _depth(outline) == 3 else outline
    try:
        polygons = _POLYGONS.validate_python(several)
    except ValidationError:
        return []
    closed = all(ring[0] == ring[-1] for rings in polygons for ring in rings)
    return [_wound(rings) for rings in polygons] if closed else []


def _depth(value: object) -> int:
    depth = 0
    while isinstance(value, (list, tuple)) and value:
        value, depth = value[0], depth + 1
    return depth


def _wound(rings: Rings) -> Rings:
    """The outer ring counterclockwise, holes clockwise."""
    return [ring if (_area(ring) > 0) is (place == 0) else ring[::-1] for place, ring in enumerate(rings)]


def _area(ring: Sequence[Position]) -> float:
    """Twice the signed area: positive where the ring runs counterclockwise."""
    following = [*ring[1:], ring[0]]
    return sum(x * next_y - next_x * y for (x, y), (next_x, next_y) in zip(ring, following, strict=True))


def _boxes(bounds: Bbox) -> list[Rings]:
    west, south, east, north = bounds
    if not crosses(bounds):
        return [[_box(west, south, east, north)]]
    return [[_box(*part)] for part in ((west, south, 180.0, north), (-180.0, south, east, north)) if part[0] < part[2]]


def _box(west: float, south: float, east: float, north: float) -> list[Position]:
    return [(west, south), (east, south), (east, north), (west, north), (west, south)]
