"""The pass over a layer: what comes out of honest files, and what is said of files that lie."""

import http.server
import json
import sqlite3
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

from flows.handlers.errors import HandlerError, InvalidInput, Stopped
from flows.handlers.vector.convert import BATCH_BYTES, batch_features
from flows.handlers.vector.declarations import (
    VectorConvertParams,
    VectorConvertResult,
    VectorValidateParams,
    VectorValidateResult,
    convert,
    validate,
)
from tests.flows.handlers.vector.conftest import NewContext
from tests.support import vectors

FORMATS = ("gpkg", "geojson", "fgb", "zip", "parquet", "csv")


class Files:
    """Puts files into bronze and has them judged."""

    def __init__(self, root: Path, new_context: NewContext) -> None:
        self.root, self.new_context = root, new_context

    def path(self, name: str) -> Path:
        path = self.root / "bronze" / "up" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def validated(self, name: str, **more: Any) -> VectorValidateResult:
        return validate(VectorValidateParams(source=f"up/{name}", **more), self.new_context())

    def converted(self, name: str, **more: Any) -> VectorConvertResult:
        return convert(VectorConvertParams(source=f"up/{name}", **more), self.new_context())

    def product(self, result: VectorConvertResult) -> pa.Table:
        return pq.read_table(self.root / "silver" / result.product)


@pytest.fixture
def files(tmp_path: Path, new_context: NewContext) -> Files:
    return Files(tmp_path, new_context)


@pytest.mark.parametrize("ending", FORMATS)
def test_validation_reports_count_crs_bounds_and_fields(files: Files, ending: str) -> None:
    vectors.write(files.path(f"fields.{ending}"), vectors.squares(20))
    found = files.validated(f"fields.{ending}", source_crs="EPSG:4326")
    assert (found.feature_count, found.crs) == (20, "EPSG:4326")
    assert found.bounds_wgs84 == pytest.approx((14.73, 47.49, 15.12, 47.5))
    assert found.fields["Name"] == "text"
    assert any("Columns are renamed" in warning for warning in found.warnings)


def test_conversion_gives_geoparquet_with_the_sent_features(files: Files) -> None:
    moved = shapely.from_wkt(["POINT Z (500000 5260000 12)", "POINT Z (510000 5270000 13)"])
    vectors.write(files.path("a.gpkg"), moved, {"seen": pa.array(["x", None])}, crs="EPSG:32633")
    result = files.converted("a.gpkg")
    table = files.product(result)
    [first, _] = shapely.from_wkb(table["geometry"].to_numpy())
    assert (first.x, first.y, first.z) == (pytest.approx(15.0), pytest.approx(47.4934, abs=1e-3), 12)
    assert table["seen"].to_pylist() == ["x", None]
    told = json.loads(pq.read_metadata(files.root / "silver" / result.product).metadata[b"geo"])["columns"]["geometry"]
    assert (told["encoding"], told["crs"]["id"]["code"], result.has_heights) == ("WKB", 4326, True)
    assert told["bbox"] == pytest.approx(result.bounds_wgs84)
    assert result.artifacts[0].size_bytes == (files.root / "silver" / result.product).stat().st_size


def test_a_product_may_be_sent_again(files: Files) -> None:
    """What this platform writes it reads."""
    vectors.write(files.path("a.gpkg"), vectors.squares(30))
    first = files.converted("a.gpkg")
    files.path("b.parquet").write_bytes((files.root / "silver" / first.product).read_bytes())
    again = files.converted("b.parquet")
    assert (again.feature_count, again.bounds_wgs84) == (30, first.bounds_wgs84)


def test_csv_in_degrees_needs_no_crs_and_other_csv_does(files: Files) -> None:
    files.path("a.csv").write_text("Name,Lon,LAT\nx,14.7,47.5\ny,,\n")
    result = files.converted("a.csv")
    assert (result.feature_count, result.repairs.without_geometry) == (2, 1)
    files.path("b.csv").write_text("Name,x,y\nx,500000,5260000\n")
    with pytest.raises(InvalidInput, match="names no CRS"):
        files.converted("b.csv")
    assert files.converted("b.csv", source_crs="EPSG:32633").bounds_wgs84[0] == pytest.approx(15.0)


def test_repaired_and_rejected_geometries_are_counted(files: Files) -> None:
    shapes = ["POLYGON ((0 0, 2 2, 2 0, 0 2, 0 0))", "POLYGON ((0 0, 1 1, 2 2, 0 0))", "POLYGON ((0 0, 1 0, 1 1, 0 0))"]
    vectors.write(files.path("a.gpkg"), [*shapely.from_wkt(shapes), None])
    result = files.converted("a.gpkg")
    assert result.repairs.model_dump() == {"repaired": 1, "rejected": 1, "without_geometry": 1, "flattened": 0}
    assert (result.feature_count, result.geometry_type) == (3, "MultiPolygon")
    assert files.product(result)["name"].to_pylist() == ["field 0", "field 2", "field 3"]


@pytest.mark.parametrize("ending", ["gpkg", "geojson", "csv", "parquet"])
def test_heights_are_kept_or_counted_wherever_they_begin(files: Files, ending: str) -> None:
    """The first batch is flat, the second is not: what its layer says of itself decides, else it is reported."""
    shapes = [shapely.Point(14 + n / 1000, 47) for n in range(100)] + [
        shapely.Point(15, 47, 300 + n) for n in range(20)
    ]
    vectors.write(files.path(f"a.{ending}"), shapes)
    params = {"source_crs": "EPSG:4326", "chunk_features": 100}
    result = files.converted(f"a.{ending}", **params)
    heights = shapely.get_z(shapely.from_wkb(files.product(result)["geometry"].to_numpy())).tolist()
    if result.has_heights:
        assert result.repairs.flattened == 0
        assert heights == [0.0] * 100 + [300.0 + n for n in range(20)]
    else:
        assert result.repairs.flattened == 20
        assert np.isnan(heights).all()


def test_layer_that_declares_heights_keeps_them(files: Files) -> None:
    shapes = [None] * 100 + [shapely.Point(15, 47, 300)]
    vectors.write(files.path("a.gpkg"), shapes)
    with sqlite3.connect(files.path("a.gpkg")) as database:
        database.execute("update gpkg_geometry_columns set z = 1")
    database.close()
    result = files.converted("a.gpkg", chunk_features=100)
    assert (result.has_heights, result.repairs.flattened) == (True, 0)
    assert shapely.from_wkb(files.product(result)["geometry"].to_pylist()[-1]).z == 300


@pytest.mark.parametrize("kind", [pa.uint64(), pa.dictionary(pa.int8(), pa.uint64())], ids=str)
def test_large_unsigned_numbers_never_become_negative(files: Files, kind: pa.DataType) -> None:
    for largest, is_kept in ((2**63 - 1, True), (2**63, False), (2**64 - 1, False)):
        numbers = pa.array([0, None, largest], pa.uint64())
        column = numbers.dictionary_encode().cast(kind) if pa.types.is_dictionary(kind) else numbers
        vectors.write(files.path("a.parquet"), vectors.squares(3), {"cell": column})
        if is_kept:
            result = files.converted("a.parquet")
            assert result.columns[0].type == "bigint"
            assert files.product(result)["cell"].to_pylist() == [0, None, largest]
        else:
            with pytest.raises(InvalidInput, match=r"Column 'cell' of 'up/a\.parquet' holds whole numbers of 2⁶³"):
                files.converted("a.parquet")


@pytest.mark.parametrize(("wanted", "size", "total", "made"), [
    (50_000, 1_000_000, 1000, 50_000), (50_000, 10 * BATCH_BYTES, 100, 10), (100, 2**40, 1, 1), (100, 0, 5, 100),
])  # fmt: skip
def test_large_features_make_small_batches(wanted: int, size: int, total: int, made: int) -> None:
    assert batch_features(wanted, size, total) == made


def test_conversion_stops_between_batches(files: Files) -> None:
    vectors.write(files.path("a.gpkg"), vectors.squares(500, side=0.0001))
    stop = Event()
    context = files.new_context(stop_event=stop, progress=lambda fraction, message: stop.set())
    with pytest.raises(Stopped):
        convert(VectorConvertParams(source="up/a.gpkg", chunk_features=100), context)


# --- files that lie ---


def refused(files: Files, name: str, told: str, **more: Any) -> None:
    """By validation, so that nothing is converted."""
    with pytest.raises(InvalidInput, match=told) as caught:
        files.validated(name, **more)
    assert str(files.root) not in str(caught.value)


def test_file_without_features_or_with_too_many_columns_is_refused(files: Files) -> None:
    vectors.geojson(files.path("none.geojson"), [])
    refused(files, "none.geojson", "has no features")
    vectors.geojson(files.path("bare.geojson"), [{"type": "Feature", "properties": {}, "geometry": None}])
    refused(files, "bare.geojson", "no feature with a geometry|without geometries")
    wide = {f"column {n}": pa.array([n]) for n in range(2000)}
    vectors.write(files.path("wide.parquet"), vectors.squares(1), wide)
    refused(files, "wide.parquet", "has 2,000 columns; the limit is 400")
    files.path("plain.csv").write_text("a,b\n1,2\n")
    refused(files, "plain.csv", "without geometries. CSV needs")


def test_file_without_a_usable_crs_is_refused(files: Files) -> None:
    vectors.write(files.path("nowhere.gpkg"), vectors.squares(1), crs=None)
    refused(files, "nowhere.gpkg", "names no CRS")
    vectors.write(files.path("mars.gpkg"), [shapely.Point(5e6, 9e6)])
    refused(files, "mars.gpkg", "outside of the Earth")
    refused(files, "nowhere.gpkg", "EPSG:4979 is not a CRS|EPSG:5773 is not a CRS", source_crs="EPSG:5773")


@pytest.mark.parametrize("ending", FORMATS)
def test_truncated_file_gives_the_same_orderly_verdict_twice(files: Files, ending: str) -> None:
    """Never a crash, never a fault of ours; the same verdict twice."""
    whole = vectors.write(files.path(f"whole.{ending}"), vectors.squares(200, side=0.001)).read_bytes()
    for part in (2, 7, 40):
        files.path(f"cut.{ending}").write_bytes(whole[: len(whole) * part // 41])
        assert verdict(files, f"cut.{ending}") == verdict(files, f"cut.{ending}")


def verdict(files: Files, name: str) -> str:
    try:
        return str(files.converted(name, source_crs="EPSG:4326").feature_count)
    except InvalidInput as error:
        return str(error)


def test_geopackage_with_views_or_triggers_is_refused(files: Files) -> None:
    path = vectors.write(files.path("a.gpkg"), vectors.squares(3))
    with sqlite3.connect(path) as database:
        database.execute("alter table fields rename to hidden")
        database.execute("create view fields as select * from hidden")
    database.close()
    refused(files, "a.gpkg", "not a table but a query")
    path = vectors.write(files.path("b.gpkg"), vectors.squares(3))
    with sqlite3.connect(path) as database:
        database.execute("create view gpkg_extra as select 1")
    database.close()
    refused(files, "b.gpkg", "describes itself by queries")


def test_geopackage_with_undecodable_sql_is_refused(files: Files) -> None:
    path = vectors.write(files.path("a.gpkg"), vectors.squares(3))
    path.write_bytes(path.read_bytes().replace(b"CREATE TABLE", b"CREATE\xffTABLE"))
    refused(files, "a.gpkg", "damaged or incomplete")


def test_file_without_a_layer_is_refused(files: Files) -> None:
    """Its first bytes promise one, and the library then finds none."""
    files.path("a.geojson").write_text('{"type": "Feature')
    files.path("a.fgb").write_bytes(b"fgb\3fgb" + bytes(200))
    for name in ("a.geojson", "a.fgb"):
        refused(files, name, "damaged or incomplete")


def test_file_with_several_layers_is_refused_until_one_is_named(files: Files) -> None:
    for layer, count in (("fields", 3), ("meadows", 4)):
        vectors.write(files.path("a.gpkg"), vectors.squares(count), layer=layer)
    refused(files, "a.gpkg", "several layers: name one as `layer`: 'fields', 'meadows'")
    refused(files, "a.gpkg", "holds no layer 'moors'", layer="moors")
    assert files.converted("a.gpkg", layer="meadows").feature_count == 4


def test_no_file_makes_gdal_use_the_network(files: Files) -> None:
    """A CRS that is a link, and files of formats that are links. The listener hears us when we do ask."""
    asked: list[str] = []

    class Listener(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

        def log_message(self, *arguments: Any) -> None:
            """Say nothing."""

    with http.server.HTTPServer(("127.0.0.1", 0), Listener) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        import urllib.error
        import urllib.request

        with pytest.raises(urllib.error.HTTPError):
            urllib.request.urlopen(f"{url}/control")  # noqa: S310 - ours
        link = {"type": "link", "properties": {"href": f"{url}/crs", "type": "proj4"}}
        feature = {"type": "Feature", "properties": {}, "geometry": {"type": "Point", "coordinates": [1, 2]}}
        vectors.geojson(files.path("a.geojson"), [feature], crs=link)
        verdict(files, "a.geojson")
        files.path("b.geojson").write_text(f'<OGRVRTDataSource><OGRVRTLayer name="a"><SrcDataSource>/vsicurl/{url}/b')
        files.path("c.geojson").write_text(json.dumps({"type": "FeatureServer", "url": f"{url}/c"}))
        for name in ("b.geojson", "c.geojson"):
            refused(files, name, "none of the vector formats|damaged or incomplete|no features|without geometries")
        server.shutdown()
    assert asked == ["/control"]


def test_sidecar_files_of_a_vector_file_are_not_read(files: Files) -> None:
    """A CRS, types or an index that lie beside the file are not the file's."""
    files.path("a.csv").write_text("Name,x,y\nx,500000,5260000\n")
    files.path("a.csvt").write_text('"Integer","Real","Real"\n')
    files.path("a.prj").write_text(pyproj_wkt())
    refused(files, "a.csv", "names no CRS")


def pyproj_wkt() -> str:
    from pyproj import CRS

    return str(CRS.from_epsg(32633).to_wkt("WKT1_ESRI"))


def test_internal_fault_is_not_reported_as_invalid_input(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk is worth another try."""
    vectors.write(files.path("a.gpkg"), vectors.squares(3))
    context = files.new_context()
    (files.root / "silver").write_text("a file where a folder must be")
    with pytest.raises(OSError, match="silver") as caught:
        convert(VectorConvertParams(source="up/a.gpkg"), context)
    assert not isinstance(caught.value, HandlerError)
