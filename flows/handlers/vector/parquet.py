"""GeoParquet: reads what a file says of its geometries, writes the copy that is kept. Knows Arrow and no GDAL."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, Field, JsonValue, ValidationError
from pyproj import CRS
from pyproj.exceptions import CRSError

from domain.contracts.artifacts import Bounds
from flows.handlers.errors import InvalidInput

VERSION: Final = "1.1.0"
MEDIA_TYPE: Final = "application/vnd.apache.parquet"
GEOMETRY: Final = "geometry"


class _GeometryColumn(BaseModel):
    encoding: str
    geometry_types: list[str] = Field(default_factory=list)
    crs: dict[str, JsonValue] | None = None


class _Metadata(BaseModel):
    primary_column: str
    columns: dict[str, _GeometryColumn]


@dataclass(frozen=True)
class Described:
    """What the file says of its geometries."""

    column: str
    crs: str | None
    geometry_type: str
    has_heights: bool


def described(file: pq.ParquetFile, name: str) -> Described:
    """What the metadata says of the primary column, if it can be read here."""
    raw, schema = (file.metadata.metadata or {}).get(b"geo"), file.schema_arrow
    if raw is None:
        raise InvalidInput(f"{name!r} is Parquet without geometries: GeoParquet says in `geo` which column holds them.")
    try:
        content = json.loads(raw)
        metadata = _Metadata.model_validate(content)
        column = metadata.columns[metadata.primary_column]
        field = schema.field(metadata.primary_column)
    except (ValidationError, ValueError, KeyError):
        raise InvalidInput(f"The GeoParquet metadata of {name!r} is not valid. Write the file anew.") from None
    binary = pa.types.is_binary(field.type) or pa.types.is_large_binary(field.type)
    if column.encoding != "WKB" or not binary:
        raise InvalidInput(f"The geometries of {name!r} are encoded as {column.encoding!r}; WKB is read here.")
    types = sorted(column.geometry_types)
    is_silent = "crs" not in content["columns"][metadata.primary_column]
    return Described(
        column=metadata.primary_column,
        crs=_code(column.crs, is_silent),
        geometry_type=types[0] if len(types) == 1 else "Unknown",
        has_heights=any(each.endswith((" Z", " ZM")) for each in types),
    )


def _code(crs: dict[str, JsonValue] | None, is_silent: bool) -> str | None:
    """A CRS that is left out is longitude and latitude; one that is null is not known."""
    if is_silent:
        return "OGC:CRS84"
    if crs is None:
        return None
    match crs.get("id"):
        case {"authority": str() as authority, "code": int() | str() as code}:
            return f"{authority}:{code}"
        case _:
            pass
    try:
        return CRS.from_json_dict(crs).to_wkt()
    except CRSError:
        return None


class Writer:
    """Writes features batch by batch; what concerns all of them is told at the end."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        repeating = [name for name in schema.names if name != GEOMETRY]  # no two shapes are the same
        self._writer = pq.ParquetWriter(
            path, schema, compression="zstd", write_statistics=True, use_dictionary=repeating
        )

    def write(self, columns: Sequence[pa.Array]) -> None:
        self._writer.write_batch(pa.record_batch(list(columns), schema=self._writer.schema))

    def close(self, crs: str, geometry_types: Sequence[str], bounds: Bounds | None) -> None:
        column: dict[str, Any] = {
            "encoding": "WKB",
            "geometry_types": sorted(geometry_types),
            "crs": CRS.from_user_input(crs).to_json_dict(),
        }
        if bounds is not None:
            column["bbox"] = list(bounds)
        content = {"version": VERSION, "primary_column": GEOMETRY, "columns": {GEOMETRY: column}}
        self._writer.add_key_value_metadata({"geo": json.dumps(content)})
        self._writer.close()
