"""Turns boxes and shapes of a search into what the catalogue's database can compare. Knows no database.

The database would refuse some that the standard allows, misunderstand others, and take what is no shape at all for a
fault of its own.
"""

import math
from collections.abc import Sequence
from typing import Any, Final

from geojson_pydantic import MultiPolygon, Polygon
from pydantic import TypeAdapter, ValidationError
from stac_pydantic.api.search import Intersection

from gateway.serving.problems import CANNOT_SEARCH

_SHAPE: Final = TypeAdapter[Any](Intersection)
_ALSO_SPATIAL: Final = "intersects"  # besides those that begin with s_, as the standard names them
_CORNERS, _CORNERS_WITH_HEIGHTS = 4, 6
_EAST: Final = 180.0


def settle(search: Any) -> None:
    """Rewrite box and filter of the search, or refuse them."""
    if search.bbox is not None:
        west, south, east, north = flat(search.bbox)
        if west <= east:
            search.bbox = (west, south, east, north)
        else:
            search.bbox, search.intersects = None, both_sides(west, south, east, north)
    if search.filter_expr is not None:
        _settle_filter(search.filter_expr)


def flat(box: Sequence[Any]) -> tuple[float, float, float, float]:
    """Return the box without heights, since footprints have none."""
    known = [value for value in box if isinstance(value, int | float) and math.isfinite(value)]
    if len(known) != len(box) or len(box) not in {_CORNERS, _CORNERS_WITH_HEIGHTS}:
        raise CANNOT_SEARCH
    (west, south), (east, north) = known[:2], known[len(known) // 2 :][:2]
    return west, south, east, north


def both_sides(west: float, south: float, east: float, north: float) -> MultiPolygon:
    """Split a box whose west is greater than its east at the antimeridian."""
    parts = (Polygon.from_bounds(west, south, _EAST, north), Polygon.from_bounds(-_EAST, south, east, north))
    return MultiPolygon(type="MultiPolygon", coordinates=[part.coordinates for part in parts])


def _settle_filter(expression: Any) -> None:
    """Check each shape in the filter. It may be nested deeper than Python calls."""
    waiting = [expression]
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting += node
        elif isinstance(node, dict):
            arguments = node.get("args")
            if isinstance(arguments, list) and _is_spatial(node.get("op")):
                arguments[:] = map(_checked, arguments)
            else:
                waiting += node.values()


def _is_spatial(operator: Any) -> bool:
    return isinstance(operator, str) and (operator.lower().startswith("s_") or operator.lower() == _ALSO_SPATIAL)


def _checked(argument: Any) -> Any:
    """Check a shape or a box; the database refuses anything else itself."""
    if isinstance(argument, list):
        return list(flat(argument))
    if not isinstance(argument, dict) or "type" not in argument:
        return argument
    try:
        return _SHAPE.dump_python(_SHAPE.validate_python(argument), mode="json")
    except ValidationError:
        raise CANNOT_SEARCH from None
