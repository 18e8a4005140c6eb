"""Tells the six vector formats apart by what a file begins with; its name is believed for CSV only. Pure."""

import re
from enum import StrEnum
from typing import Final

from flows.handlers.errors import InvalidInput

HEAD_BYTES: Final = 4096


class Format(StrEnum):
    GEOPACKAGE = "GeoPackage"
    GEOJSON = "GeoJSON"
    SHAPEFILE = "zipped Shapefile"
    FLATGEOBUF = "FlatGeobuf"
    GEOPARQUET = "GeoParquet"
    CSV = "CSV"


# The ending that a file of the format has in quarantine, and those that people give it.
ENDINGS: Final = {
    Format.GEOPACKAGE: (".gpkg",),
    Format.GEOJSON: (".geojson", ".json"),
    Format.SHAPEFILE: (".zip", ".shz"),
    Format.FLATGEOBUF: (".fgb",),
    Format.GEOPARQUET: (".parquet", ".geoparquet", ".pq"),
    Format.CSV: (".csv", ".txt"),
}
_SQLITE: Final = b"SQLite format 3\0"
_GEOPACKAGE_IDS: Final = (b"GPKG", b"GP10", b"GP11")
_JSON: Final = re.compile(rb"\A(?:\xef\xbb\xbf)?\s*\{")


def detected(head: bytes, name: str) -> Format:
    """The format of a file that begins like this, or a refusal that says what would be accepted."""
    if not head:
        raise InvalidInput(f"{name!r} is empty. Check that its upload has finished.")
    if head.startswith(_SQLITE) and head[68:72] in _GEOPACKAGE_IDS:
        return Format.GEOPACKAGE
    if head.startswith(b"PK\x03\x04"):
        return Format.SHAPEFILE
    if head.startswith(b"fgb\x03fgb"):
        return Format.FLATGEOBUF
    if head.startswith(b"PAR1"):
        return Format.GEOPARQUET
    if _JSON.match(head):
        return Format.GEOJSON
    if name.lower().endswith(ENDINGS[Format.CSV]) and b"\0" not in head:
        return Format.CSV
    raise InvalidInput(
        f"{name!r} is none of the vector formats that are accepted, whatever its name says: "
        f"{', '.join(Format)}. Convert it to GeoPackage and send it again."
    )


def misnamed(found: Format, name: str) -> str | None:
    """What to tell the sender of a file whose name promises another format."""
    if name.lower().endswith(ENDINGS[found]):
        return None
    return f"Its name does not end in {ENDINGS[found][0]}, but it holds {found}: it is read as that."
