"""What a file is, by what it begins with."""

import pytest

from flows.handlers.errors import InvalidInput
from flows.handlers.vector.formats import Format, detected, misnamed

GEOPACKAGE = b"SQLite format 3\0" + bytes(52) + b"GPKG" + bytes(28)


@pytest.mark.parametrize(
    ("head", "name", "found"),
    [
        (GEOPACKAGE, "up/a.gpkg", Format.GEOPACKAGE),
        (b'\xef\xbb\xbf\n {"type":', "up/a.geojson", Format.GEOJSON),
        (b"PK\x03\x04", "up/a.zip", Format.SHAPEFILE),
        (b"fgb\x03fgb\0", "up/a.fgb", Format.FLATGEOBUF),
        (b"PAR1", "up/a.parquet", Format.GEOPARQUET),
        (b"lon,lat\n1,2\n", "up/A.CSV", Format.CSV),
        (b'{"type":', "up/a.gpkg", Format.GEOJSON),
    ],
)
def test_format_is_detected_from_the_content(head: bytes, name: str, found: Format) -> None:
    assert detected(head, name) is found
    assert (misnamed(found, name) is None) == (not (found is Format.GEOJSON and name.endswith("gpkg")))


@pytest.mark.parametrize(
    ("head", "name"),
    [
        (b"lon,lat\n1,2\n", "up/a.gpkg"),
        (b"lon\0,lat", "up/a.csv"),
        (b"SQLite format 3\0" + bytes(84), "up/a.gpkg"),
        (b"<OGRVRTDataSource>", "up/a.geojson"),
        (b"[1, 2]", "up/a.geojson"),
        (b"GPKG:/vsicurl/http://x", "up/a.gpkg"),
    ],
)
def test_unknown_content_is_refused(head: bytes, name: str) -> None:
    with pytest.raises(InvalidInput, match="none of the vector formats"):
        detected(head, name)


def test_empty_file_is_refused_as_empty() -> None:
    with pytest.raises(InvalidInput, match="is empty"):
        detected(b"", "up/a.csv")
