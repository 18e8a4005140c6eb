"""Opens vector files that nobody trusts. One of the few files that know pyogrio.

The file is first copied into a quarantine of its own under a generated name, so that nothing lies beside it; what its
first bytes say decides the one driver that may read it, and the caller is a child process that may be killed.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import shapely

from flows.handlers.context import Context
from flows.handlers.errors import InvalidInput
from flows.handlers.vector import archive, geopackage, parquet
from flows.handlers.vector.drivers import READ_ERRORS, open_arrow, pyogrio, quietly
from flows.handlers.vector.formats import ENDINGS, HEAD_BYTES, Format, detected
from flows.handlers.vector.geometry import Findings

MAX_BYTES: Final = 32 * 1024**3
DRIVERS: Final = {
    Format.GEOPACKAGE: "GPKG",
    Format.GEOJSON: "GeoJSON",
    Format.SHAPEFILE: "ESRI Shapefile",
    Format.FLATGEOBUF: "FlatGeobuf",
    Format.CSV: "CSV",
}
LONGITUDES: Final = ("lon", "lng", "long", "longitude")
LATITUDES: Final = ("lat", "latitude")
_CSV_OPTIONS: Final = {
    "AUTODETECT_TYPE": "YES",
    "AUTODETECT_SIZE_LIMIT": "0",
    "X_POSSIBLE_NAMES": ",".join((*LONGITUDES, "x", "easting")),
    "Y_POSSIBLE_NAMES": ",".join((*LATITUDES, "y", "northing")),
    "GEOM_POSSIBLE_NAMES": "wkt,geom,geometry,the_geom",
    "KEEP_GEOM_COLUMNS": "NO",
}
_OPTIONS: Final[Mapping[Format, Mapping[str, str]]] = {
    Format.CSV: _CSV_OPTIONS,
    Format.GEOPACKAGE: {"LIST_ALL_TABLES": "NO"},
}

# Columns of values of any length, and what they are where only the lengths matter: not all of them need be text.
_PLAIN: Final = {
    pa.string(): pa.binary(),
    pa.binary(): pa.binary(),
    pa.large_string(): pa.large_binary(),
    pa.large_binary(): pa.large_binary(),
}


@dataclass(frozen=True)
class SourceLayer:
    """One layer of a file in quarantine."""

    name: str
    path: Path
    format: Format
    layer: str
    sha256: str
    size_bytes: int

    @property
    def library_layer(self) -> str | None:
        """What the library must be told; all formats but one hold a single layer."""
        return self.layer if self.format is Format.GEOPACKAGE else None


@dataclass(frozen=True)
class OpenLayer:
    """An open layer: what it says of itself, and its features in batches, geometries as WKB in the last column."""

    crs: str | None
    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    geometry_type: str
    has_heights: bool
    """It says so itself. One that says nothing may hold some all the same."""


def quarantined(name: str, layer: str | None, context: Context) -> SourceLayer:
    """Copy the blob to where nothing lies beside it, and find the layer that is meant."""
    folder = context.workdir / "source"
    folder.mkdir()
    received = folder / "received"
    sha256, size_bytes = _copy_blob(name, received, context)
    with received.open("rb") as file:
        found = detected(file.read(HEAD_BYTES), name)
    if found is Format.SHAPEFILE:
        path, meant = archive.extract(received, folder, layer, name, context.check)
        return SourceLayer(name, path, found, meant, sha256, size_bytes)
    path = received.rename(folder / f"source{ENDINGS[found][0]}")
    if found is Format.GEOPACKAGE:
        return SourceLayer(name, path, found, geopackage.layer_of(path, layer, name), sha256, size_bytes)
    if layer is not None:
        raise InvalidInput(f"{name!r} is a file of one layer: leave `layer` out.")
    return SourceLayer(name, path, found, "", sha256, size_bytes)


def _copy_blob(name: str, path: Path, context: Context) -> tuple[str, int]:
    digest, size = hashlib.sha256(), 0
    with path.open("wb") as out:
        for chunk in context.storage.bronze.chunks(name):
            context.raise_if_stopping()
            size += len(chunk)
            if size > MAX_BYTES:
                raise InvalidInput(f"{name!r} is larger than {MAX_BYTES:,} bytes. Split it and send the parts.")
            digest.update(chunk)
            out.write(chunk)
    return digest.hexdigest(), size


@contextmanager
def opened(source: SourceLayer, batch_features: int) -> Iterator[OpenLayer]:
    """The layer's features, read by the one driver that its content asked for."""
    opening = _opened_parquet if source.format is Format.GEOPARQUET else _opened_by_gdal
    with ExitStack() as stack:
        stack.enter_context(quietly())
        with _refuse_read_errors(source):
            layer = stack.enter_context(opening(source, batch_features))
        yield layer


@contextmanager
def _refuse_read_errors(source: SourceLayer) -> Iterator[None]:
    """Turn whatever the libraries find wrong with the file into a refusal that its sender can act on."""
    try:
        yield
    except MemoryError:
        raise
    except (*READ_ERRORS, pa.ArrowException, OSError, UnicodeDecodeError, IndexError):  # the last: no layer at all
        raise unreadable(source) from None


def unreadable(source: SourceLayer) -> InvalidInput:
    """Return our own refusal, since the library's message names local paths."""
    return InvalidInput(
        f"{source.name!r} begins like {source.format} but cannot be read as one: it is damaged or incomplete. "
        "Write the file anew and send it again."
    )


@contextmanager
def _opened_by_gdal(source: SourceLayer, batch_features: int) -> Iterator[OpenLayer]:
    options: dict[str, Any] = dict(_OPTIONS.get(source.format, {}))
    with open_arrow(
        source.path, layer=source.library_layer, batch_size=batch_features, use_pyarrow=True, **options
    ) as (meta, reader):
        geometry = meta["geometry_name"] or "wkb_geometry"
        if geometry not in reader.schema.names:
            raise no_geometry(source)
        told = meta["crs"] or ("OGC:CRS84" if _is_in_degrees(source) else None)
        schema = _geometry_last(reader.schema, geometry)
        kind = str(meta["geometry_type"])
        has_heights = kind.startswith(("2.5D", "3D")) or kind.endswith((" Z", " ZM"))
        yield OpenLayer(told, schema, _with_geometry_last(source, reader, geometry), kind, has_heights)


def _is_in_degrees(source: SourceLayer) -> bool:
    """Whether a CSV's header names longitude and latitude, which is as good as naming a CRS."""
    if source.format is not Format.CSV:
        return False
    with source.path.open("rb") as file:
        header = file.readline(HEAD_BYTES).decode("utf-8", "replace").lower()
    words = {word.strip(" \"'\ufeff\r\n") for word in re.split("[,;\t|]", header)}
    return bool(words & set(LONGITUDES)) and bool(words & set(LATITUDES))


@contextmanager
def _opened_parquet(source: SourceLayer, batch_features: int) -> Iterator[OpenLayer]:
    with pq.ParquetFile(source.path, memory_map=True, thrift_string_size_limit=16 * 1024**2) as file:
        described = parquet.described(file, source.name)
        batches = file.iter_batches(batch_features, use_threads=False)
        schema = _geometry_last(file.schema_arrow, described.column)
        moved = _with_geometry_last(source, batches, described.column)
        yield OpenLayer(described.crs, schema, moved, described.geometry_type, described.has_heights)


def no_geometry(source: SourceLayer) -> InvalidInput:
    hint = " CSV needs the columns lon and lat, x and y, or wkt." if source.format is Format.CSV else ""
    return InvalidInput(f"{source.name!r} holds a table without geometries.{hint}")


def _geometry_last(schema: pa.Schema, geometry: str) -> pa.Schema:
    index = schema.get_field_index(geometry)
    return schema.remove(index).append(schema.field(index))


def _with_geometry_last(
    source: SourceLayer, batches: Iterable[pa.RecordBatch], geometry: str
) -> Iterator[pa.RecordBatch]:
    """Yield the batches with their geometries in the last column."""
    remaining = iter(batches)
    while True:
        with _refuse_read_errors(source):
            batch = next(remaining, None)
            if batch is None:
                return
            _refuse_broken(batch)
        index = batch.schema.get_field_index(geometry)
        yield batch.select([*(each for each in range(batch.num_columns) if each != index), index])


def _refuse_broken(batch: pa.RecordBatch) -> None:
    """Refuse a batch in which a text or shape ends before it begins, as in damaged files."""
    for column in batch.columns:
        if (plain := _PLAIN.get(column.type)) is not None:
            column.view(plain).validate(full=True)


@dataclass(frozen=True)
class LayerFacts:
    """What is known of the layer before its features are converted."""

    features: int
    bounds: tuple[float, ...]


def facts(source: SourceLayer) -> LayerFacts:
    """Count the features and find where they are, from the file's index where it has one."""
    if source.format is Format.GEOPARQUET:
        return _facts_of_parquet(source)
    options = _OPTIONS.get(source.format, {})
    with quietly(), _refuse_read_errors(source):
        info = pyogrio.read_info(
            source.path, layer=source.library_layer, force_feature_count=True, force_total_bounds=True, **options
        )
    if info["driver"] != DRIVERS[source.format]:
        raise unreadable(source)
    if info["geometry_type"] is None:
        raise no_geometry(source)
    return LayerFacts(int(info["features"]), tuple(info["total_bounds"] or ()))


def _facts_of_parquet(source: SourceLayer) -> LayerFacts:
    counted, found = 0, Findings()
    with opened(source, 10_000) as layer:
        for batch in layer.batches:
            raw = batch.columns[-1].to_numpy(zero_copy_only=False)
            found.add(shapely.from_wkb(raw, on_invalid="ignore"))
            counted += batch.num_rows
    return LayerFacts(counted, found.bounds or ())
