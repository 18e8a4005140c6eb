"""Items as pgSTAC stores them. Knows pypgstac's words for that and no SQL; the repository only copies what this makes.

pgSTAC would make its rows from items by itself, in plpgsql, at a twentieth of the speed, and with its partitions locked
meanwhile. So they are made here, as pypgstac makes them for its own loading: before anything is locked.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import orjson
from pypgstac.hydration import dehydrate

Json = dict[str, Any]
COLUMNS: Final = ("id", "collection", "datetime", "end_datetime", "geometry", "content")
_KEPT_IN_COLUMNS: Final = ("id", "collection", "geometry")
_BASE_ITEM: Final = "pgstac:base_item"
# GeoJSON's coordinates are always these. PostGIS before 3.4 gives a geometry no SRID unless the text names its CRS, and
# no search by place can be compared with such a geometry.
_WGS84: Final = {"type": "name", "properties": {"name": "EPSG:4326"}}


@dataclass(frozen=True)
class BaseItem:
    """The fields that pgSTAC adds to every item of a collection when it reads them, and its number for them."""

    content: Json
    number: int | None


@dataclass(frozen=True)
class Rows:
    """Items of one collection in the text form of COPY, and the time that they span."""

    copied: bytes
    since: datetime
    until: datetime


def rows(items: Iterable[Json], base: BaseItem) -> Rows:
    """The items as rows. There is one at least."""
    lines, moments = [], set()
    for item in items:
        moment = item["properties"]["datetime"]
        moments.add(moment)
        words = "\t".join(map(_escaped, (item["id"], item["collection"], moment, moment))).encode()
        # PostGIS reads GeoJSON, too: to make its own text of it here would take longer.
        place = orjson.dumps({**item["geometry"], "crs": _WGS84})
        lines.append(b"\t".join((words, place, _content(item, base))))
    parsed = [datetime.fromisoformat(moment) for moment in moments]
    return Rows(b"\n".join([*lines, b""]), min(parsed), max(parsed))


def _content(item: Json, base: BaseItem) -> bytes:
    """Return what is left of the item without its columns and without what the base item adds."""
    content = dehydrate(base.content, item)
    for name in _KEPT_IN_COLUMNS:
        content.pop(name, None)
    if base.number is not None:
        content[_BASE_ITEM] = base.number
    # JSON writes its own control characters; of what COPY reads as more than itself, the backslash is left.
    return orjson.dumps(content).replace(b"\\", b"\\\\")


def _escaped(text: str) -> str:
    """Escape a text of ours or a time, which holds no control character."""
    return text.replace("\\", "\\\\")
