"""Vector files for tests, in all six formats: honest ones, and files that lie."""

import json
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import shapely

from flows.handlers.vector.drivers import pyogrio, quietly
from flows.handlers.vector.parquet import Writer

WEST, SOUTH = 14.73, 47.49
DRIVERS: Final = {"gpkg": "GPKG", "geojson": "GeoJSON", "fgb": "FlatGeobuf", "zip": "ESRI Shapefile"}


def squares(count: int, *, side: float = 0.01) -> list[shapely.Polygon]:
    """Squares in a row, from the sample's corner to the east."""
    return [shapely.box(WEST + n * 2 * side, SOUTH, WEST + (n * 2 + 1) * side, SOUTH + side) for n in range(count)]


def attributes(count: int) -> dict[str, pa.Array]:
    """A column of each plain kind."""
    return {
        "Name": pa.array([f"field {n}" for n in range(count)]),
        "lanes": pa.array(range(count), pa.int32()),
        "Größe (m²)": pa.array([n / 4 for n in range(count)], pa.float64()),
    }


def write(
    path: Path,
    geometries: Sequence[shapely.Geometry | None],
    columns: Mapping[str, pa.Array] | None = None,
    crs: str | None = "EPSG:4326",
    layer: str = "fields",
) -> Path:
    """Write the layer in the format of the path's ending."""
    columns = attributes(len(geometries)) if columns is None else columns
    table = pa.table({**columns, "geometry": pa.array(shapely.to_wkb(list(geometries)), pa.binary())})
    path.parent.mkdir(parents=True, exist_ok=True)
    match path.suffix.removeprefix("."):
        case "csv":
            _write_csv(path, geometries, columns)
        case "parquet":
            _write_parquet(path, table, crs)
        case "zip":
            _write_shapefile(path, table, geometries, crs, layer)
        case ending:
            _write_by_gdal(path, table, DRIVERS[ending], geometries, crs, layer)
    return path


def _write_by_gdal(
    path: Path,
    table: pa.Table,
    driver: str,
    geometries: Sequence[shapely.Geometry | None],
    crs: str | None,
    layer: str,
) -> None:
    kinds = {each.geom_type for each in geometries if each is not None}
    kind = kinds.pop() if len(kinds) == 1 else "Unknown"
    if kind != "Unknown" and all(each.has_z for each in geometries if each is not None):
        kind += " Z"
    with quietly():  # a Shapefile shortens names
        pyogrio.raw.write_arrow(
            table, path, layer=layer, driver=driver, geometry_name="geometry", geometry_type=kind, crs=crs
        )


def _write_shapefile(
    path: Path, table: pa.Table, geometries: Sequence[shapely.Geometry | None], crs: str | None, layer: str
) -> None:
    folder = path.parent / f"{path.stem}-parts"
    folder.mkdir()
    _write_by_gdal(folder / f"{layer}.shp", table, "ESRI Shapefile", geometries, crs, layer)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for part in sorted(folder.iterdir()):
            archive.write(part, f"{layer}/{part.name}")


def _write_csv(path: Path, geometries: Sequence[shapely.Geometry | None], columns: Mapping[str, pa.Array]) -> None:
    lines = [",".join([*columns, "wkt"])]
    values = [column.to_pylist() for column in columns.values()]
    for row, geometry in zip(zip(*values, strict=True), geometries, strict=True):
        lines.append(",".join([*map(str, row), f'"{geometry.wkt if geometry is not None else ""}"']))
    path.write_text("\n".join(lines) + "\n")


def _write_parquet(path: Path, table: pa.Table, crs: str | None) -> None:
    writer = Writer(path, table.schema)
    writer.write(table.combine_chunks().to_batches()[0].columns)
    writer.close(crs or "EPSG:4326", [], None)


def geojson(path: Path, features: Sequence[Mapping[str, Any]], **more: Any) -> Path:
    """Write GeoJSON word for word."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"type": "FeatureCollection", **more, "features": list(features)}))
    return path


def bomb(path: Path) -> Path:
    """A small archive that would fill a disk."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("fields.shp", bytes(100_000_000))
    return path
