"""The shipped raster workflows, decided by the scheduler and done by the real handlers on real files."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from rio_cogeo.cogeo import cog_validate

from deployments import sample
from flows.compiler.simulate import Simulation
from tests.support import worked
from tests.support.rasters import bronze, write

NAME = "up/dem.tif"


@pytest.fixture(autouse=True)
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flows.handlers.raster.choices.LARGEST_CELL", 512)
    sample.write(bronze(tmp_path, NAME), seed=5, size=1600)


def done(workflow: str, root: Path, monkeypatch: pytest.MonkeyPatch, prefix: str, **inputs: Any) -> Simulation:
    return worked.done(workflow, root, monkeypatch, prefix, source=NAME, **inputs)


def test_both_routes_of_the_ingest_end_in_the_same_product(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    direct = done("raster_ingest", tmp_path, monkeypatch, "direct")
    tiled = done("raster_ingest", tmp_path, monkeypatch, "tiled", memory_limit_mb=1, tile_pixels=512)
    assert direct.outputs
    assert tiled.outputs
    assert (direct.outputs["route"], tiled.outputs["route"]) == ("direct", "tiled")
    assert direct.outputs["bounds"] == tiled.outputs["bounds"]
    paths = [tmp_path / "silver" / str(ended.outputs["cog"]) for ended in (direct, tiled) if ended.outputs]
    for path in paths:
        assert cog_validate(path, strict=True, quiet=True) == (True, [], [])
    with rasterio.open(paths[0]) as one, rasterio.open(paths[1]) as other:
        assert one.profile == other.profile
        np.testing.assert_array_equal(one.read(), other.read())
    assert not list((tmp_path / "runs").rglob("*.tif"))


def test_the_tiled_ingest_leaves_one_product_for_each_tile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = done("raster_tiled", tmp_path, monkeypatch, "tiles", tile_pixels=512)
    assert ended.outputs
    products = list((tmp_path / "silver" / "tiles" / "tiles").glob("*.tif"))
    assert len(products) == ended.outputs["tile_count"] > 4
    [lines] = [path.read_text().splitlines() for path in (tmp_path / "silver").rglob("items.ndjson")]
    for item in map(json.loads, lines):
        thumbnail = item["assets"]["thumbnail"]
        assert (thumbnail["type"], thumbnail["roles"]) == ("image/png", ["thumbnail"])
        assert (tmp_path / "silver" / thumbnail["href"].removeprefix("cairn://silver/")).is_file()


def test_whole_and_tiled_ingest_report_the_same_bands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = done("raster_ingest", tmp_path, monkeypatch, "whole").outputs
    tiles = done("raster_tiled", tmp_path, monkeypatch, "tiles", tile_pixels=512).outputs
    assert whole
    assert tiles
    [one], [other] = whole["bands"], tiles["bands"]
    assert {name: other[name] for name in ("dtype", "nodata", "minimum", "maximum")} == {
        name: one[name] for name in ("dtype", "nodata", "minimum", "maximum")
    }
    for name in ("mean", "stddev", "valid_percent"):
        assert other[name] == pytest.approx(one[name], rel=1e-6)


@pytest.mark.parametrize(
    "inputs",
    [
        {"resampling": "cubic", "overview_resampling": "average", "compression": "zstd", "block_size": 256},
        {"target_crs": "EPSG:3857", "web_optimised": True},
    ],
    ids=str,
)
def test_options_reach_the_product(inputs: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = done("raster_ingest", tmp_path, monkeypatch, "chosen", **inputs)
    assert ended.outputs
    with rasterio.open(tmp_path / "silver" / str(ended.outputs["cog"])) as raster:
        assert raster.profile["compress"] == inputs.get("compression", "deflate")
        assert raster.block_shapes[0][0] == inputs.get("block_size", 512)
        assert raster.crs == inputs.get("target_crs", "EPSG:4326")


def test_the_staged_ingest_takes_the_same_options_and_ends_in_the_same_product(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for inputs in ({}, {"resampling": "cubic", "overview_resampling": "average", "compression": "zstd"}):
        direct = done("raster_ingest", tmp_path, monkeypatch, "direct", **inputs).outputs
        staged = worked.staged("raster_ingest_staged", tmp_path, monkeypatch, source=NAME, block_size=512, **inputs)
        assert direct
        assert {name: staged[name] for name in ("bounds", "bands")} == {
            name: direct[name] for name in ("bounds", "bands")
        }
        contents = [(tmp_path / "silver" / str(one["cog"])).read_bytes() for one in (direct, staged)]
        assert contents[0] == contents[1]


def test_a_crs_that_the_file_lacks_may_be_given_to_the_staged_ingest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(bronze(tmp_path, NAME), sample.pixels(5, 64), crs=None)
    given = {"source": NAME, "source_crs": sample.CRS, "target_crs": "EPSG:3857", "web_optimised": True}
    made = worked.staged("raster_ingest_staged", tmp_path, monkeypatch, **given)
    assert made["validation"]["crs"] == sample.CRS
    with rasterio.open(tmp_path / "silver" / str(made["cog"])) as raster:
        assert raster.crs == "EPSG:3857"
