"""Converts a layer in one pass: valid geometries in one CRS, typed columns, as GeoParquet and as rows to load.

The rows are PostgreSQL's binary COPY format, so that whoever holds the database's credential only passes bytes on and
never opens what a sender wrote.
"""

import hashlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import shapely

from domain.contracts.artifacts import Artifact
from flows.handlers.context import Context
from flows.handlers.errors import InvalidInput
from flows.handlers.vector import copyformat, crs, geometry, parquet, storable
from flows.handlers.vector.columns import identifiers
from flows.handlers.vector.declarations import (
    MAX_COLUMNS,
    Chunk,
    Column,
    Repairs,
    VectorConvertParams,
    VectorConvertResult,
)
from flows.handlers.vector.formats import Format
from flows.handlers.vector.reading import OpenLayer, SourceLayer, facts, opened, quarantined

# A batch is held in memory several times over, so that large features make small batches.
BATCH_BYTES: Final = 64 * 1024**2
MAX_FEATURES: Final = 100_000_000


def convert(params: VectorConvertParams, context: Context) -> VectorConvertResult:
    """Write the layer's two forms into the silver zone."""
    source = quarantined(params.source, params.layer, context)
    total = max(facts(source).features, 1)
    with opened(source, batch_features(params.chunk_features, source.size_bytes, total)) as layer:
        columns = columns_of(layer.schema, params.source)
        source_crs = crs.code_of(layer.crs, params.source_crs, params.source)
        conversion = _Conversion(source, source_crs, crs.checked(params.target_crs), columns, context)
        conversion.run(layer, total)
    return conversion.result()


def batch_features(wanted: int, size_bytes: int, total: int) -> int:
    """Return how many features a batch has: as many as wanted, fewer where they are large."""
    return max(1, min(wanted, int(BATCH_BYTES / max(size_bytes / total, 1))))


def columns_of(schema: pa.Schema, name: str) -> list[Column]:
    """The table's columns: all of the layer's but its geometry, which comes last."""
    fields = list(schema)[:-1]
    if len(fields) > MAX_COLUMNS:
        raise InvalidInput(
            f"{name!r} has {len(fields):,} columns; the limit is {MAX_COLUMNS}. Leave out what is not needed."
        )
    names = identifiers([each.name for each in fields])
    return [
        Column(name=made, title=each.name[:200], type=storable.sql_type(storable.target(each.type)))
        for made, each in zip(names, fields, strict=True)
    ]


def _encoded(shapes: geometry.Geometries, came: pa.Array | None) -> pa.Array:
    """Return the geometries as WKB, reusing unchanged input, since encoding takes a tenth of the time."""
    there = shapes[~shapely.is_missing(shapes)]
    flat = not (shapely.has_z(there).any() or shapely.has_m(there).any())
    if came is not None and flat and len(there) == len(came) - came.null_count:
        return came.cast(pa.large_binary())
    return pa.array(shapely.to_wkb(shapes, output_dimension=3), pa.large_binary())


@dataclass
class _Conversion:
    """One pass over a layer, with its findings so far."""

    source: SourceLayer
    source_crs: str
    target_crs: str
    columns: list[Column]
    context: Context
    findings: geometry.Findings = field(default_factory=geometry.Findings)
    chunks: list[Chunk] = field(default_factory=list)
    count: int = 0
    has_heights: bool = False

    def run(self, layer: OpenLayer, total: int) -> None:
        """Write one batch while the next is read and repaired: the libraries let go of the interpreter's lock."""
        writer = parquet.Writer(self.context.workdir / "data.parquet", self._schema(layer.schema))
        try:
            with ThreadPoolExecutor(1) as hand:
                written = hand.submit(lambda: None)
                for features in self._features(layer):
                    written.result()
                    written = hand.submit(self._write, writer, features)
                    self.context.progress(min(0.95 * self.count / total, 0.95), f"{self.count:,} of {total:,} features")
                    self.context.raise_if_stopping()
                written.result()
        finally:
            writer.close(self.target_crs, sorted(self.findings.types), self.findings.bounds)
        if not self.count or self.findings.bounds is None:
            raise InvalidInput(f"{self.source.name!r} has no feature with a geometry that can be used.")

    def _write(self, writer: parquet.Writer, features: Sequence[pa.Array]) -> None:
        writer.write(features)
        self._keep_rows(features)

    def _schema(self, schema: pa.Schema) -> pa.Schema:
        fields = [
            pa.field(column.name, storable.target(told.type), metadata={"title": column.title})
            for column, told in zip(self.columns, list(schema)[:-1], strict=True)
        ]
        fid, shape = pa.field("fid", pa.int64(), nullable=False), pa.field(parquet.GEOMETRY, pa.large_binary())
        return pa.schema([fid, *fields, shape])

    def _features(self, layer: OpenLayer) -> Iterator[list[pa.Array]]:
        """The kept features of each batch, by column: number, attributes, geometry."""
        for batch in layer.batches:
            changed = self.findings.changed
            geometries, kept = geometry.decoded(batch.columns[-1], self.findings)
            if not self.count:
                self.has_heights = layer.has_heights or bool(shapely.has_z(geometries).any())
            shapes = geometry.levelled(geometries[kept], self.findings, has_heights=self.has_heights)
            shapes = crs.reprojected(shapes, self.source_crs, self.target_crs, has_heights=self.has_heights)
            self.findings.add(shapes)
            numbers = pa.array(np.arange(self.count + 1, self.count + 1 + len(shapes)))
            attributes = [self._storable(*each) for each in zip(self.columns, batch.columns[:-1], strict=True)]
            if not kept.all():
                attributes = [each.filter(pa.array(kept)) for each in attributes]
            self.count += len(shapes)
            if self.count > MAX_FEATURES:
                raise InvalidInput(f"{self.source.name!r} has more than {MAX_FEATURES:,} features. Split it.")
            as_it_came = self._keeps_coordinates and kept.all() and changed == self.findings.changed
            if len(shapes):
                yield [numbers, *attributes, _encoded(shapes, batch.columns[-1] if as_it_came else None)]

    def _storable(self, column: Column, values: pa.Array) -> pa.Array:
        try:
            return storable.storable(values)
        except storable.NumberTooLarge:
            raise InvalidInput(
                f"Column {column.title[:60]!r} of {self.source.name!r} holds whole numbers of 2⁶³ or more, which no "
                "table keeps as numbers. Write them as text and send the file again."
            ) from None

    @property
    def _keeps_coordinates(self) -> bool:
        """Whether the input's WKB can be passed on: not reprojected, and by GDAL, which encodes as we do."""
        return self.source_crs == self.target_crs and self.source.format is not Format.GEOPARQUET

    def _keep_rows(self, features: Sequence[pa.Array]) -> None:
        number = len(self.chunks)
        name = self.context.output_name(f"rows/{number:05}.copy")
        rows = copyformat.rows(features)
        self.context.storage.silver.write_bytes(name, copyformat.HEADER + rows + copyformat.TRAILER)
        self.chunks.append(Chunk(number=number, rows=name, count=len(features[0])))

    def result(self) -> VectorConvertResult:
        """Store the GeoParquet and describe both."""
        path, name = self.context.workdir / "data.parquet", self.context.output_name("data.parquet")
        assert self.findings.bounds is not None  # noqa: S101 - a layer without any was refused
        bounds = crs.bounds_wgs84(self.findings.bounds, self.target_crs, self.source.name)
        with path.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        self.context.storage.silver.put_file(name, path, self.context.check)
        self.context.metric("features", self.count)
        self.context.progress(1.0, "stored")
        kept = Artifact(
            role="geoparquet",
            zone="silver",
            name=name,
            media_type=parquet.MEDIA_TYPE,
            sha256=sha256,
            size_bytes=path.stat().st_size,
            bbox=bounds,
        )
        found = self.findings
        return VectorConvertResult(
            product=name,
            chunks=self.chunks,
            columns=self.columns,
            crs=self.target_crs,
            geometry_type=found.geometry_type,
            has_heights=self.has_heights,
            feature_count=self.count,
            bounds_native=found.bounds,
            bounds_wgs84=bounds,
            repairs=Repairs(
                repaired=found.repaired,
                rejected=found.rejected,
                without_geometry=found.without_geometry,
                flattened=found.flattened,
            ),
            source_sha256=self.source.sha256,
            artifacts=[kept],
        )
