"""Items as pgSTAC stores them. Knows pypgstac's words for that and no SQL; the repository only copies what this makes.

pgSTAC would make its rows from items by itself, in plpgsql, at a twentieth of the speed, and with its partitions locked
meanwhile. So they are made here, as pypgstac makes them for its own loading: before anything is locked.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from plpygis.geometry import Geometry
from pypgstac.hydration import dehydrate

Json = dict[str, Any]
COLUMNS: Final = ("id", "collection", "datetime", "end_datetime", "geometry", "content")
_KEPT_IN_COLUMNS: Final = ("id", "collection", "geometry")
_BASE_ITEM: Final = "pgstac:base_item"


@dataclass(frozen=True)
class BaseItem:
    """What pgSTAC adds to every item of a collection when it is read, and by which number it remembers that."""

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
        fields = (item["id"], item["collection"], moment, moment, _geometry(item), _content(item, base))
        lines.append("\t".join(map(_escaped, fields)))
    parsed = [datetime.fromisoformat(moment) for moment in moments]
    return Rows("\n".join([*lines, ""]).encode(), min(parsed), max(parsed))


def _geometry(item: Mapping[str, Any]) -> str:
    return str(Geometry.from_geojson(item["geometry"]).ewkb)


def _content(item: Json, base: BaseItem) -> str:
    """What is left of the item once the base item's part and the columns are taken away."""
    content = dehydrate(base.content, item)
    for name in _KEPT_IN_COLUMNS:
        content.pop(name, None)
    if base.number is not None:
        content[_BASE_ITEM] = base.number
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))


def _escaped(text: str) -> str:
    """JSON writes its own control characters; of what COPY reads as more than itself, the backslash is left."""
    return text.replace("\\", "\\\\")
