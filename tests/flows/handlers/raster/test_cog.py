"""The product: strictly cloud-optimised, the same pixels, nothing lost. Real files, real GDAL."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from affine import Affine
from rasterio.enums import ColorInterp
from rasterio.warp import transform
from rio_cogeo.cogeo import cog_validate

from deployments import sample
from flows.handlers.context import Context
from flows.handlers.errors import InvalidInput, Stopped
from flows.handlers.raster.declarations import CogResult, CreateCogParams, ValidateParams, create_cog, validate
from tests.support.rasters import PLACE, bronze, context_in, write, write_header

NAME = "up/dem.tif"
PIXELS = sample.pixels(3, 600)


def created(context: Context, **params: Any) -> CogResult:
    return create_cog(CreateCogParams(source=NAME, **params), context)


def product(root: Path) -> Path:
    return root / "silver" / "scratch" / "cog.tif"


def test_block_centres_keep_their_value_exactly(context: Context, tmp_path: Path) -> None:
    size = 1600
    sample.write(bronze(tmp_path, NAME), seed=11, size=size)
    created(context)
    with rasterio.open(product(tmp_path)) as raster:
        for row in range(16, size, 32):
            for col in range(16, size, 32):
                (value,) = next(raster.sample([sample.lonlat_of(row, col)]))
                assert value == sample.value_at(11, row, col), (row, col)


def test_the_product_is_strictly_cloud_optimised_and_described(context: Context, tmp_path: Path) -> None:
    sample.write(bronze(tmp_path, NAME), seed=3, size=1600)
    made = created(context)
    path = product(tmp_path)
    assert cog_validate(path, strict=True, quiet=True) == (True, [], [])
    with rasterio.open(path) as raster:
        assert (raster.crs, raster.count, raster.nodata) == ("EPSG:4326", 1, sample.NODATA)
        assert (raster.width, raster.height) == (made.width, made.height)
        assert raster.block_shapes == [(512, 512)]
        assert raster.overviews(1) == [2, 4]
        assert tuple(raster.bounds) == made.bounds_native == made.bounds_wgs84
        assert list(raster.transform[:6]) == made.transform
        assert (raster.descriptions, raster.units) == (("elevation",), ("metre",))
    cog, shown = made.artifacts
    assert (cog.role, cog.zone, cog.name, cog.bbox) == ("cog", "silver", made.cog, made.bounds_wgs84)
    assert cog.size_bytes == path.stat().st_size
    assert (shown.role, shown.media_type) == ("thumbnail", "image/png")
    assert sorted(entry.name for entry in context.workdir.iterdir()) == ["cog.tif"]


def test_a_product_validates_as_green_and_as_a_cog(context: Context, tmp_path: Path) -> None:
    sample.write(bronze(tmp_path, NAME), seed=3, size=1600)
    created(context)
    product(tmp_path).rename(bronze(tmp_path, "up/again.tif"))
    found = validate(ValidateParams(source="up/again.tif"), context)
    assert (found.outcome, found.is_cog) == ("green", True)


def test_output_goes_below_the_prefix_of_this_try(tmp_path: Path) -> None:
    sample.write(bronze(tmp_path, NAME), seed=3, size=600)
    made = created(context_in(tmp_path, output_prefix="rasters/alps/0-r1/a1"))
    assert made.cog == "rasters/alps/0-r1/a1/cog.tif"
    assert (tmp_path / "silver" / made.cog).is_file()


def test_statistics_leave_nodata_out(context: Context, tmp_path: Path) -> None:
    write(bronze(tmp_path, NAME), PIXELS, nodata=0)
    (band,) = created(context, target_crs=sample.CRS).bands
    data = PIXELS[PIXELS != 0].astype("float64")
    assert (band.dtype, band.nodata) == ("uint16", 0)
    assert (band.minimum, band.maximum) == (data.min(), data.max())
    assert band.mean == pytest.approx(data.mean())
    assert band.stddev == pytest.approx(data.std())
    assert band.valid_percent == pytest.approx(100 * data.size / PIXELS.size)


def test_statistics_of_a_large_raster_come_close(context: Context, tmp_path: Path) -> None:
    pixels = sample.pixels(3, 3000)
    write(bronze(tmp_path, NAME), pixels, nodata=0)
    (band,) = created(context, target_crs=sample.CRS).bands
    data = pixels[pixels != 0]
    assert band.mean == pytest.approx(data.mean(), rel=0.01)
    assert band.stddev == pytest.approx(data.std(), rel=0.01)


def test_an_empty_band_has_zeros(context: Context, tmp_path: Path) -> None:
    write(bronze(tmp_path, NAME), np.full((64, 64), -9999, "float32"), nodata=-9999)
    (band,) = created(context).bands
    assert (band.minimum, band.maximum, band.valid_percent) == (0, 0, 0)


def test_in_its_own_crs_every_pixel_stays_where_it_is(context: Context, tmp_path: Path) -> None:
    write(bronze(tmp_path, NAME), PIXELS, nodata=0)
    created(context, target_crs=sample.CRS)
    with rasterio.open(product(tmp_path)) as raster:
        assert (raster.read(1) == PIXELS).all()
        assert raster.transform == PLACE


@pytest.mark.parametrize("compression", ["deflate", "zstd", "lzw"])
@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "uint32", "int32", "float32", "float64"])
def test_every_pixel_type_and_compression_keeps_its_pixels(
    dtype: str, compression: str, context: Context, tmp_path: Path
) -> None:
    pixels = (PIXELS % 120).astype(dtype)
    write(bronze(tmp_path, NAME), pixels, nodata=0)
    made = created(context, target_crs=sample.CRS, compression=compression)
    assert made.bands[0].dtype == dtype
    with rasterio.open(product(tmp_path)) as raster:
        assert raster.profile["compress"] == compression
        assert (raster.read(1) == pixels).all()


@pytest.mark.parametrize("resampling", ["nearest", "bilinear", "cubic", "average", "mode"])
def test_nodata_never_bleeds_into_data(resampling: str, context: Context, tmp_path: Path) -> None:
    """A surface at 3000 beside nodata 0: anything between would be a mixture of the two."""
    pixels = np.where(PIXELS == 0, 0, 3000).astype("uint16")
    write(bronze(tmp_path, NAME), pixels, nodata=0)
    created(context, resampling=resampling)
    for level in (None, 0):
        with rasterio.open(product(tmp_path), **({} if level is None else {"overview_level": level})) as raster:
            assert set(np.unique(raster.read(1))) == {0, 3000}


@pytest.mark.parametrize("shape", [(3, 600, 600), (600, 600)], ids=["rgb", "one band"])
def test_without_nodata_a_mask_marks_the_gaps(shape: tuple[int, ...], context: Context, tmp_path: Path) -> None:
    write(bronze(tmp_path, NAME), np.full(shape, 7, "uint8"))
    made = created(context)
    with rasterio.open(product(tmp_path)) as raster:
        assert (raster.nodata, raster.count) == (None, 3 if len(shape) == 3 else 1)
        mask, pixels = raster.dataset_mask(), raster.read()
    assert 0.9 < (mask == 255).mean() < 1
    assert (pixels[:, mask == 255] == 7).all()
    assert made.bands[0].minimum == 7


@pytest.mark.parametrize("impossible", [b"-9\0", b".5\0"])
def test_an_impossible_nodata_value_is_ignored(impossible: bytes, context: Context, tmp_path: Path) -> None:
    """The library refuses to write one, so it is planted in the header's text."""
    path = write(bronze(tmp_path, NAME), PIXELS, nodata=99)
    path.write_bytes(path.read_bytes().replace(b"99\0", impossible))
    found = validate(ValidateParams(source=NAME), context)
    assert "no nodata value that its pixels can hold" in found.warnings[0]
    assert created(context).bands[0].nodata is None


def test_alpha_stays_one_band_and_no_other_is_added(context: Context, tmp_path: Path) -> None:
    path = write(bronze(tmp_path, NAME), np.full((4, 300, 300), 255, "uint8"), photometric="RGB", alpha="YES")
    with rasterio.open(path) as raster:
        assert raster.colorinterp[3] is ColorInterp.alpha
    created(context)
    with rasterio.open(product(tmp_path)) as raster:
        assert raster.colorinterp == (ColorInterp.red, ColorInterp.green, ColorInterp.blue, ColorInterp.alpha)
        assert set(np.unique(raster.read(4))) == {0, 255}


def test_a_palette_keeps_its_colours_and_is_never_mixed(context: Context, tmp_path: Path) -> None:
    colours = {0: (0, 0, 0, 255), 1: (200, 10, 10, 255), 9: (10, 10, 200, 255)}
    pixels = np.where(PIXELS % 2, 1, 9).astype("uint8")
    path = write(bronze(tmp_path, NAME), pixels, nodata=0)
    with rasterio.open(path, "r+") as raster:
        raster.write_colormap(1, colours)
    created(context, resampling="bilinear")
    with rasterio.open(product(tmp_path)) as raster:
        assert raster.colorinterp == (ColorInterp.palette,)
        assert raster.colormap(1)[9][:3] == (10, 10, 200)
        assert set(np.unique(raster.read(1))) <= {0, 1, 9}
    with rasterio.open(product(tmp_path), overview_level=0) as raster:
        assert set(np.unique(raster.read(1))) <= {0, 1, 9}


def test_scale_and_offset_are_kept(context: Context, tmp_path: Path) -> None:
    path = write(bronze(tmp_path, NAME), PIXELS, nodata=0)
    with rasterio.open(path, "r+") as raster:
        raster.scales, raster.offsets = (0.1,), (-100.0,)
    created(context)
    with rasterio.open(product(tmp_path)) as raster:
        assert (raster.scales, raster.offsets) == ((0.1,), (-100.0,))


@pytest.mark.parametrize(
    "placed",
    [PLACE @ Affine.rotation(30), Affine(10, 0, sample.WEST_METRES, 0, 10, sample.NORTH_METRES - 6000)],
    ids=["rotated", "south-up"],
)
def test_rows_run_from_north_to_south(placed: Affine, context: Context, tmp_path: Path) -> None:
    write(bronze(tmp_path, NAME), PIXELS, nodata=0, transform=placed)
    created(context, target_crs=sample.CRS)
    with rasterio.open(product(tmp_path)) as raster:
        assert raster.transform.is_rectilinear
        assert raster.transform.e < 0
        for row in range(80, 520, 32):
            (value,) = next(raster.sample([placed @ (304.5, row + 0.5)]))
            assert value == PIXELS[row, 304]


def test_a_stated_crs_places_a_file_that_names_none(context: Context, tmp_path: Path) -> None:
    write(bronze(tmp_path, NAME), PIXELS, nodata=0, crs=None)
    made = created(context, source_crs=sample.CRS, target_crs="EPSG:3857")
    ((x,), (y,)) = transform(sample.CRS, "EPSG:3857", [sample.WEST_METRES + 3045], [sample.NORTH_METRES - 3045])
    with rasterio.open(product(tmp_path)) as raster:
        assert next(raster.sample([(x, y)]))[0] == PIXELS[304, 304]
    assert made.bounds_wgs84 == pytest.approx((12.418, 47.202, 12.499, 47.257), abs=0.002)


def test_undecodable_pixels_are_refused_as_invalid_input(context: Context, tmp_path: Path) -> None:
    path = bronze(tmp_path, NAME)
    sample.write(path, seed=3, size=1024)
    with rasterio.open(path) as raster:
        start = int(raster.get_tag_item("BLOCK_OFFSET_2_2", "TIFF", bidx=1))
    content = bytearray(path.read_bytes())
    content[start : start + 40] = bytes(40)
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match=r"pixels of 'up/dem.tif' cannot be unpacked") as refusal:
        created(context)
    assert str(tmp_path) not in str(refusal.value)
    assert not product(tmp_path).exists()
    assert list(context.workdir.iterdir()) == []


def test_create_cog_refuses_an_unvalidated_bad_raster(context: Context, tmp_path: Path) -> None:
    write_header(bronze(tmp_path, NAME), 65_535, 65_535)
    with pytest.raises(InvalidInput, match="times its size"):
        created(context)


def test_raster_outside_of_the_target_crs_is_refused(context: Context, tmp_path: Path) -> None:
    """Web maps end before the poles."""
    write(bronze(tmp_path, NAME), PIXELS[:50, :50], crs="EPSG:4326", transform=Affine(1e-5, 0, 0, 0, -1e-5, -89.9999))
    with pytest.raises(InvalidInput, match="EPSG:3857: it lies outside of it"):
        created(context, target_crs="EPSG:3857")


@pytest.mark.parametrize("target", ["EPSG:99999", "EPSG:4978"], ids=["unknown", "not a map"])
def test_target_crs_that_is_no_map_is_refused(target: str, context: Context, tmp_path: Path) -> None:
    write(bronze(tmp_path, NAME), PIXELS, nodata=0)
    with pytest.raises(InvalidInput, match=target):
        created(context, target_crs=target)


def test_create_cog_reports_progress_up_to_the_end(tmp_path: Path) -> None:
    sample.write(bronze(tmp_path, NAME), seed=3, size=600)
    seen: list[float] = []
    created(context_in(tmp_path, progress=lambda fraction, message: seen.append(fraction)))
    assert seen == sorted(seen)
    assert seen[-1] == 1


def test_create_cog_stops_between_windows(tmp_path: Path) -> None:
    sample.write(bronze(tmp_path, NAME), seed=3, size=600)
    context = context_in(tmp_path)
    stopping = context_in(tmp_path, progress=lambda *_: context.stop_event.set(), stop_event=context.stop_event)
    with pytest.raises(Stopped):
        created(stopping)
    assert list(context.workdir.iterdir()) == []
    assert not product(tmp_path).exists()


def test_a_second_try_leaves_the_same_product(context: Context, tmp_path: Path) -> None:
    sample.write(bronze(tmp_path, NAME), seed=3, size=600)
    assert created(context) == created(context)
