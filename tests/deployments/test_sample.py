"""The sample raster is its formula."""

import json
import subprocess
import sys
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import rasterio
import shapely
from click.testing import CliRunner

from deployments import sample
from deployments.cli import cairn


def test_sample_file_holds_the_values_of_its_formula(tmp_path: Path) -> None:
    sample.write(tmp_path / "dem.tif", seed=5, size=700)
    with rasterio.open(tmp_path / "dem.tif") as raster:
        pixels = raster.read(1)
        assert (raster.crs, raster.nodata, raster.res) == (sample.CRS, sample.NODATA, (10, 10))
    dice = np.random.default_rng(1)
    for row, col in dice.integers(0, 700, (300, 2)):
        assert pixels[row, col] == sample.value_at(5, int(row), int(col))


@pytest.mark.parametrize("seed", [0, 1, 7, 2**31])
def test_sample_values_are_elevations_and_the_corner_is_nodata(seed: int) -> None:
    pixels = sample.pixels(seed)
    data = pixels[pixels != sample.NODATA]
    assert data.min() >= 1
    assert data.max() <= sample.HIGHEST
    assert data.max() - data.min() > 2_000
    assert not pixels[:32, : 32 * sample.WEDGE_BLOCKS].any()
    assert (pixels == sample.NODATA).mean() == pytest.approx(0.0022, abs=0.0001)


def test_samples_of_two_seeds_differ() -> None:
    assert (sample.pixels(1, 1024) != sample.pixels(2, 1024)).mean() > 0.9


@pytest.mark.parametrize("size", [512, sample.SIZE_PIXELS])
def test_picked_pixels_are_block_centres_with_data(size: int) -> None:
    for seed in range(200):
        row, col = sample.pick_pixel(seed, size)
        assert (row % 32, col % 32) == (16, 16)
        assert max(row, col) < size - 32
        assert sample.value_at(seed, row, col) != sample.NODATA


def test_sample_lies_at_the_grossglockner() -> None:
    """Its summit, 12.6939 E 47.0742 N, lies inside the default raster."""
    west, north = sample.lonlat_of(0, 0)
    east, south = sample.lonlat_of(sample.SIZE_PIXELS - 1, sample.SIZE_PIXELS - 1)
    assert west < 12.6939 < east
    assert south < 47.0742 < north


def test_importing_the_formula_loads_no_raster_library() -> None:
    code = "import sys; from deployments import sample; sample.value_at(1, 2, 3); print('rasterio' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "False"


def test_sample_command_writes_the_formula_and_leaves_existing_files(tmp_path: Path) -> None:
    raster, fields = tmp_path / "dem.tif", tmp_path / "fields.geojson"
    for file in (raster, fields):
        for written in (True, False):
            done = CliRunner().invoke(cairn, ["sample", str(file), "--seed", "3", "--json"])
            assert (done.exit_code, json.loads(done.stdout)["written"]) == (0, written)
    with rasterio.open(raster) as opened:
        row, col = sample.pick_pixel(3)
        assert opened.read(1)[row, col] == sample.value_at(3, row, col)
    collection = json.loads(fields.read_text())
    assert len({feature["properties"]["name"] for feature in collection["features"]}) == 100
    squares = [shapely.from_geojson(json.dumps(feature["geometry"])) for feature in collection["features"]]
    assert all(square.is_valid for square in squares)
    assert not any(one.intersects(other) for one, other in combinations(squares, 2))


@pytest.mark.parametrize("name", ["dem.gpkg", "dem", "nowhere/dem.tif"])
def test_sample_command_refuses_a_file_type_that_it_cannot_write(tmp_path: Path, name: str) -> None:
    done = CliRunner().invoke(cairn, ["sample", str(tmp_path / name)])
    assert done.exit_code == 2
    assert not list(tmp_path.iterdir())
