"""Masks, alpha bands and nodata: what counts in a source counts in its product, and nothing else."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from rasterio.control import GroundControlPoint
from rasterio.enums import ColorInterp
from shapely.geometry import Polygon

from deployments import sample
from flows.handlers.context import Context
from tests.flows.handlers.raster.test_kinds import NAME, created, product
from tests.support.rasters import bronze, write


@pytest.mark.parametrize("target", [sample.CRS, "EPSG:4326"])
def test_a_mask_of_the_source_becomes_the_product_s(target: str, context: Context, tmp_path: Path) -> None:
    mask = np.where(np.add.outer(np.arange(700), np.arange(700)) % 200 < 100, 255, 0).astype("uint8")
    path = write(bronze(tmp_path, NAME), np.full((3, 700, 700), 9, "uint8"))
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK="YES"), rasterio.open(path, "r+") as raster:
        raster.write_mask(mask)
    made = created(context, target_crs=target)
    with rasterio.open(product(tmp_path)) as raster:
        assert raster.count == 3
        seen = raster.dataset_mask()
        if target == sample.CRS:
            np.testing.assert_array_equal(seen, mask)
        assert (seen > 0).mean() == pytest.approx((mask > 0).mean(), abs=0.03)
        assert (raster.read()[:, seen > 0] == 9).all()
    with rasterio.open(product(tmp_path), overview_level=0) as raster:
        assert 0.4 < (raster.dataset_mask() > 0).mean() < 0.8
    assert made.bands[0].valid_percent == pytest.approx(100 * (mask > 0).mean(), abs=3)


def masked(root: Path, pixels: Any, mask: Any, **profile: Any) -> None:
    """A source with a mask of its own beside its nodata value."""
    path = write(bronze(root, NAME), pixels, **profile)
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK="YES"), rasterio.open(path, "r+") as raster:
        raster.write_mask(mask)


@pytest.mark.parametrize("resampling", ["nearest", "bilinear"])
@pytest.mark.parametrize("target", [sample.CRS, "EPSG:4326"], ids=["in its own CRS", "reprojected"])
def test_a_pixel_counts_where_both_mask_and_nodata_let_it_through(
    target: str, resampling: str, context: Context, tmp_path: Path
) -> None:
    """What the mask leaves out has a value that would be seen at once; so has what is nodata within the mask."""
    rows, columns = np.indices((700, 700))
    hidden, nothing = columns < 210, (rows < 350) & (columns >= 490)
    pixels = np.where(hidden, 250, np.where(nothing, 7, 100)).astype("uint8")
    masked(tmp_path, np.stack([pixels, pixels]), np.where(hidden, 0, 255).astype("uint8"), nodata=7)
    made = created(context, target_crs=target, resampling=resampling)
    with rasterio.open(product(tmp_path)) as raster:
        shown = raster.read(masked=True)
        assert raster.nodata == 7
        assert set(np.unique(shown.compressed())) == {100}
        share = (raster.dataset_mask() > 0).mean()
        if target == sample.CRS:
            np.testing.assert_array_equal(raster.read(), np.where(hidden, 7, pixels)[np.newaxis].repeat(2, 0))
    assert share == pytest.approx(0.55, abs=0.04)
    for band in made.bands:
        assert (band.minimum, band.maximum) == (100, 100)
        assert band.valid_percent == pytest.approx(100 * share, abs=0.5)
    assert made.footprint_wgs84
    [outline] = [Polygon(rings[0]) for rings in made.footprint_wgs84]
    assert outline.area / Polygon.from_bounds(*made.bounds_wgs84).area == pytest.approx(share, abs=0.05)


@pytest.mark.parametrize("dtype", ["uint8", "int16", "uint32", "int64", "float64"])
def test_nodata_beside_a_mask_is_kept_for_every_kind_of_pixel(dtype: str, context: Context, tmp_path: Path) -> None:
    nodata = math.nan if dtype == "float64" else 0
    mask = np.where(np.indices((300, 300))[0] < 150, 0, 255).astype("uint8")
    masked(tmp_path, np.full((300, 300), 9, dtype), mask, nodata=nodata)
    for target in (sample.CRS, "EPSG:4326"):
        made = created(context, target_crs=target)
        assert (made.bands[0].minimum, made.bands[0].maximum) == pytest.approx((9, 9))
        assert made.bands[0].valid_percent == pytest.approx(50, abs=4)


@pytest.mark.parametrize("target", [sample.CRS, "EPSG:4326"], ids=["in its own CRS", "reprojected"])
@pytest.mark.parametrize("nodata", [0, 7])
def test_nodata_beside_an_alpha_band_is_transparent(nodata: int, target: str, context: Context, tmp_path: Path) -> None:
    """What is transparent has a colour that would be seen at once; what is nodata is opaque."""
    rows, columns = np.indices((300, 300))
    clear, nothing = columns < 150, (rows < 100) & (columns >= 200)
    colour = np.where(clear, 200, np.where(nothing, nodata, 100))
    cube = np.stack([colour, colour, colour, np.where(clear, 0, 255)]).astype("uint8")
    write(bronze(tmp_path, NAME), cube, nodata=nodata, photometric="rgb", ALPHA="YES")
    made = created(context, target_crs=target, resampling="nearest")
    with rasterio.open(product(tmp_path)) as raster:
        assert (raster.nodata, raster.colorinterp[3]) == (None, ColorInterp.alpha)
        seen = raster.dataset_mask() > 0
        assert set(np.unique(raster.read(1)[seen])) == {100}
        if target == sample.CRS:
            np.testing.assert_array_equal(seen, ~clear & ~nothing)
    assert seen.mean() == pytest.approx(0.39, abs=0.03)
    assert (made.bands[0].minimum, made.bands[0].maximum) == (100, 100)
    assert made.bands[0].valid_percent == pytest.approx(100 * seen.mean(), abs=0.5)


def test_a_placed_picture_keeps_its_meaning_beside_mask_and_nodata(context: Context, tmp_path: Path) -> None:
    """What is folded is a copy of the source: colours, names and control points go with it."""
    west, north, step = sample.WEST_METRES, sample.NORTH_METRES, sample.PIXEL_METRES
    points = [
        GroundControlPoint(row, column, west + column * step, north - row * step)
        for row, column in [(0, 0), (0, 300), (300, 0), (300, 300)]
    ]
    mask = np.where(np.indices((300, 300))[1] < 150, 0, 255).astype("uint8")
    masked(tmp_path, np.full((3, 300, 300), 9, "uint8"), mask, nodata=0, transform=None, gcps=points, photometric="rgb")
    made = created(context, target_crs=sample.CRS)
    assert [band.meaning for band in made.bands] == ["red", "green", "blue"]
    assert made.bands[0].valid_percent == pytest.approx(50, abs=2)
    with rasterio.open(product(tmp_path)) as raster:
        assert [value[0] for value in raster.sample([(west + at * step, north - 100 * step) for at in (50, 250)])] == [
            0,
            9,
        ]
