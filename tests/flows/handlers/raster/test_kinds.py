"""Every kind of raster keeps what it says: types, bands, masks, places, odd sizes, and the options of a workflow."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from affine import Affine
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rasterio.control import GroundControlPoint
from rasterio.enums import ColorInterp
from rasterio.errors import NotGeoreferencedWarning
from rasterio.transform import from_origin
from rasterio.warp import transform
from rio_cogeo.cogeo import cog_validate
from shapely.geometry import Point, Polygon

from deployments import sample
from flows.handlers.context import Context
from flows.handlers.errors import InvalidInput
from flows.handlers.raster import grid
from flows.handlers.raster.declarations import CogResult, CreateCogParams, create_cog
from tests.support.rasters import bronze, context_in, write

NAME = "up/kind.tif"
PIXELS = sample.pixels(3, 700)
SETTINGS = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def created(context: Context, **params: Any) -> CogResult:
    """The product, which is strictly cloud-optimised whatever it is made of."""
    made = create_cog(CreateCogParams(source=NAME, **params), context)
    assert cog_validate(context.storage.silver.readable_path(made.cog), strict=True, quiet=True) == (True, [], [])
    return made


def product(root: Path) -> Path:
    return root / "silver" / "scratch" / "cog.tif"


@pytest.mark.parametrize("dtype", sorted(grid.PIXEL_TYPES))
def test_every_pixel_type_survives_both_routes(dtype: str, context: Context, tmp_path: Path) -> None:
    pixels = (PIXELS % 120).astype(dtype)
    write(bronze(tmp_path, NAME), pixels, nodata=0)
    assert created(context, target_crs=sample.CRS).bands[0].dtype == dtype
    with rasterio.open(product(tmp_path)) as raster:
        np.testing.assert_array_equal(raster.read(1), pixels)
    created(context, resampling="nearest")
    with rasterio.open(product(tmp_path)) as raster:
        assert set(np.unique(raster.read(1))) == set(np.unique(pixels))


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_long_numbers_are_kept_or_refused_and_never_rounded(dtype: str, context: Context, tmp_path: Path) -> None:
    pixels = np.full((64, 64), 2**53 + 1, dtype)
    write(bronze(tmp_path, NAME), pixels, nodata=0)
    created(context, target_crs=sample.CRS)
    with rasterio.open(product(tmp_path)) as raster:
        np.testing.assert_array_equal(raster.read(1), pixels)
    with pytest.raises(InvalidInput, match="which reprojection would change"):
        created(context)


def test_complex_numbers_are_refused(context: Context, tmp_path: Path) -> None:
    write(bronze(tmp_path, NAME), np.ones((8, 8), "complex64"))
    with pytest.raises(InvalidInput, match="complex64"):
        created(context)


@pytest.mark.parametrize("count", [2, 4, 5, 16, 40])
def test_all_bands_keep_their_names(count: int, context: Context, tmp_path: Path) -> None:
    cube = np.stack([PIXELS[:300, :300] + band for band in range(count)]).astype("uint16")
    path = write(bronze(tmp_path, NAME), cube)
    with rasterio.open(path, "r+") as raster:
        raster.descriptions = [f"band {band}" for band in range(count)]
    made = created(context, target_crs=sample.CRS)
    with rasterio.open(product(tmp_path)) as raster:
        np.testing.assert_array_equal(raster.read(), cube)
        assert raster.descriptions == tuple(f"band {band}" for band in range(count))
    assert [band.description for band in made.bands] == [f"band {band}" for band in range(count)]


@pytest.mark.parametrize("largest_cell", [128, 512], ids=["from the picture before", "with the cells"])
@pytest.mark.parametrize("nodata", [0, None], ids=["nodata", "mask"])
def test_an_overview_by_nearest_neighbour_is_every_second_pixel(
    nodata: float | None, largest_cell: int, context: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flows.handlers.raster.choices.LARGEST_CELL", largest_cell)
    write(bronze(tmp_path, NAME), np.stack([PIXELS, PIXELS + 1]), nodata=nodata)
    created(context, block_size=128, overview_resampling="nearest")
    with rasterio.open(product(tmp_path)) as raster:
        pixels, mask, levels = raster.read(), raster.dataset_mask(), len(raster.overviews(1))
    assert levels == 3
    for level in range(levels):
        pixels, mask = pixels[:, ::2, ::2], mask[::2, ::2]
        with rasterio.open(product(tmp_path), overview_level=level) as raster:
            np.testing.assert_array_equal(raster.read(), pixels)
            np.testing.assert_array_equal(raster.dataset_mask(), mask)


def test_control_points_place_a_raster(context: Context, tmp_path: Path) -> None:
    west, north, step = sample.WEST_METRES, sample.NORTH_METRES, sample.PIXEL_METRES
    corners = [(0, 0), (0, 700), (700, 0), (700, 700)]
    points = [GroundControlPoint(row, column, west + column * step, north - row * step) for row, column in corners]
    write(bronze(tmp_path, NAME), PIXELS, nodata=0, transform=None, gcps=points)
    created(context, target_crs=sample.CRS)
    with rasterio.open(product(tmp_path)) as raster:
        for at in range(80, 640, 32):
            (value,) = next(raster.sample([(west + (at + 0.5) * step, north - (at + 0.5) * step)]))
            assert value == PIXELS[at, at]


def test_raster_across_the_antimeridian_stays_one_piece(context: Context, tmp_path: Path) -> None:
    pixels = np.full((400, 400), 5, "uint8")
    ((x,), (y,)) = transform("EPSG:4326", "EPSG:32660", [179.9], [-17.0])
    write(bronze(tmp_path, NAME), pixels, nodata=0, crs="EPSG:32760", transform=from_origin(x, y + 1e7, 100, 100))
    made = created(context)
    west, _, east, _ = made.bounds_wgs84
    assert (west, east) == pytest.approx((179.9, -179.72), abs=0.05)
    assert made.width < 500
    assert made.bands[0].valid_percent > 90
    assert made.footprint_wgs84
    assert len(made.footprint_wgs84) == 2
    longitudes = [corner[0] for polygon in made.footprint_wgs84 for ring in polygon for corner in ring]
    assert -180 <= min(longitudes) < -179.7 < 179.8 < max(longitudes) <= 180


def test_a_polar_raster_is_placed(context: Context, tmp_path: Path) -> None:
    place = from_origin(-1_000_000, 1_000_000, 10_000, 10_000)
    write(bronze(tmp_path, NAME), np.full((200, 200), 5, "uint8"), nodata=0, crs="EPSG:3031", transform=place)
    kept = created(context, target_crs="EPSG:3031")
    assert kept.bounds_wgs84[1] == -90
    assert kept.footprint_wgs84 is None
    made = created(context)
    assert made.bounds_wgs84 == pytest.approx((-180, -90, 180, -77), abs=1)
    with rasterio.open(product(tmp_path)) as raster:
        assert next(raster.sample([(45.0, -85.0)]))[0] == 5


@pytest.mark.parametrize("size", [(1, 1), (1, 3000), (513, 2), (300, 1)])
def test_raster_of_an_odd_size_keeps_its_pixels(size: tuple[int, int], context: Context, tmp_path: Path) -> None:
    pixels = np.arange(1, 1 + size[0] * size[1]).reshape(size).astype("uint16")
    write(bronze(tmp_path, NAME), pixels, nodata=0)
    made = created(context, target_crs=sample.CRS)
    assert (made.height, made.width) == size
    with rasterio.open(product(tmp_path)) as raster:
        np.testing.assert_array_equal(raster.read(1), pixels)
    created(context)


def test_a_strip_that_can_have_no_overviews_is_refused(context: Context, tmp_path: Path) -> None:
    write(bronze(tmp_path, NAME), np.ones((513, 1), "uint8"))
    with pytest.raises(InvalidInput, match="one pixel wide and 513 high"):
        created(context, target_crs=sample.CRS)


def test_a_huge_raster_that_is_mostly_empty_stays_small(context: Context, tmp_path: Path) -> None:
    size = 20_000
    profile = {"nodata": 0, "sparse_ok": True, "compress": "deflate", "crs": sample.CRS, "dtype": "uint8"}
    place = from_origin(sample.WEST_METRES, sample.NORTH_METRES, 1, 1)
    noise = np.random.default_rng(1).integers(1, 255, (512, 1024), "uint8")
    with rasterio.open(
        bronze(tmp_path, NAME), "w", driver="GTiff", width=size, height=size, count=1, transform=place, tiled=True,
        blockxsize=512, blockysize=512, **profile,
    ) as raster:  # fmt: skip
        raster.write(noise, 1, window=rasterio.windows.Window(10_240, 10_240, 1024, 512))
    made = created(context, target_crs=sample.CRS)
    assert made.artifacts[0].size_bytes < 1_000_000
    with rasterio.open(product(tmp_path)) as raster:
        window = rasterio.windows.Window(10_240, 10_240, 1024, 512)
        np.testing.assert_array_equal(raster.read(1, window=window), noise)
        assert raster.overviews(1) == [2, 4, 8, 16, 32, 64]


def test_a_web_map_s_blocks_are_its_tiles(context: Context, tmp_path: Path) -> None:
    sample.write(bronze(tmp_path, NAME), seed=3, size=700)
    made = created(context, target_crs="EPSG:3857", web_optimised=True, block_size=256)
    pixel, _, west, _, _, north = made.transform
    zoom = math.log2(2 * grid.WEB_EDGE_METRES / 256 / pixel)
    assert zoom == pytest.approx(round(zoom))
    for offset in (west + grid.WEB_EDGE_METRES, grid.WEB_EDGE_METRES - north):
        assert offset / pixel / 256 == pytest.approx(round(offset / pixel / 256), abs=1e-6)
    assert (made.width % 256, made.height % 256) == (0, 0)
    with pytest.raises(InvalidInput, match="`web_optimised` needs"):
        created(context, web_optimised=True)


@pytest.mark.parametrize("reading", ["ranges", "whole"])
def test_a_copy_is_read_like_the_original(reading: str, context: Context, tmp_path: Path) -> None:
    write(bronze(tmp_path, NAME), PIXELS, nodata=0)
    created(context, target_crs=sample.CRS, reading=reading)
    with rasterio.open(product(tmp_path)) as raster:
        np.testing.assert_array_equal(raster.read(1), PIXELS)
    assert (context.workdir / "source" / NAME).is_file() == (reading == "whole")


def test_the_footprint_holds_the_data_and_little_else(context: Context, tmp_path: Path) -> None:
    rows, columns = np.indices((700, 700))
    disc = (rows - 350) ** 2 + (columns - 350) ** 2 < 250**2
    write(bronze(tmp_path, NAME), np.where(disc, 9, 0).astype("uint8"), nodata=0)
    made = created(context)
    assert made.footprint_wgs84
    [[outer]] = made.footprint_wgs84
    outline, box = Polygon(outer), Polygon.from_bounds(*made.bounds_wgs84)
    assert outline.is_valid
    assert outline.area / box.area == pytest.approx(math.pi * 250**2 / 700**2, abs=0.05)
    ((lon,), (lat,)) = transform(sample.CRS, "EPSG:4326", [sample.WEST_METRES + 3500], [sample.NORTH_METRES - 3500])
    assert outline.contains(Point(lon, lat))


@pytest.mark.parametrize(("dtype", "count"), [("uint8", 3), ("uint16", 1), ("float32", 1), ("int16", 5)], ids=str)
def test_the_thumbnail_is_a_small_picture(dtype: str, count: int, context: Context, tmp_path: Path) -> None:
    write(bronze(tmp_path, NAME), np.stack([PIXELS % 250] * count).astype(dtype), nodata=0)
    made = created(context)
    shown = made.artifacts[1]
    path = tmp_path / "silver" / shown.name
    assert (shown.role, shown.size_bytes) == ("thumbnail", path.stat().st_size)
    with pytest.warns(NotGeoreferencedWarning):
        picture = rasterio.open(path)
    with picture:
        assert picture.driver == "PNG"
        assert max(picture.width, picture.height) <= 512
        assert picture.count == (4 if count == 3 else 2)
        assert picture.colorinterp[-1] is ColorInterp.alpha
        assert set(np.unique(picture.read(picture.count))) == {0, 255}
        assert len(np.unique(picture.read(1))) > 50
    assert not list(tmp_path.rglob("*.aux.xml"))


def test_nodata_of_one_band_leaves_other_bands_unchanged(tmp_path: Path) -> None:
    cube = np.array([[[85, 63, 51, 26, 30, 4]], [[50, 0, 97, 72, 0, 54]]], dtype=np.int32)
    turned = from_origin(sample.WEST_METRES, sample.NORTH_METRES, 10, 10) @ Affine.rotation(20)
    write(bronze(tmp_path, NAME), cube, nodata=0, transform=turned)
    created(context_in(tmp_path), target_crs=sample.CRS, resampling="nearest")
    with rasterio.open(product(tmp_path)) as made:
        first, second = made.read(masked=True)
    assert set(first.compressed()) <= set(cube[0].ravel())
    assert set(second.compressed()) <= set(cube[1].ravel()) - {0}
    assert second.count() < first.count()


@st.composite
def rasters(draw: st.DrawFn) -> tuple[Any, dict[str, Any]]:
    """Small rasters of any type, shape, layout and place."""
    dtype = draw(st.sampled_from(["uint8", "int8", "uint16", "int16", "uint32", "int32", "float32", "float64"]))
    count, height, width = draw(st.integers(1, 5)), draw(st.integers(1, 300)), draw(st.integers(1, 300))
    dice = np.random.default_rng(draw(st.integers(0, 99)))
    profile: dict[str, Any] = {
        "nodata": draw(st.sampled_from([None, 0, 7])),
        "interleave": draw(st.sampled_from(["pixel", "band"])),
        "tiled": draw(st.booleans()),
        "compress": draw(st.sampled_from([None, "lzw", "deflate"])),
    }
    if not profile["tiled"]:
        profile |= {"blockxsize": None, "blockysize": draw(st.sampled_from([1, 16]))}
    return dice.integers(0, 100, (count, height, width)).astype(dtype), profile


@SETTINGS
@given(
    raster=rasters(),
    compression=st.sampled_from(["deflate", "zstd", "lzw"]),
    block_size=st.sampled_from([128, 256, 512]),
    resampling=st.sampled_from([None, "nearest", "bilinear", "cubic", "average", "mode"]),
    overview_resampling=st.sampled_from([None, "nearest", "average", "mode"]),
    turned=st.booleans(),
)
def test_random_raster_keeps_its_values_under_random_options(
    raster: tuple[Any, dict[str, Any]], turned: bool, tmp_path_factory: pytest.TempPathFactory, **options: Any
) -> None:
    """In its own CRS all pixels stay; elsewhere no value appears that was not between those there were."""
    cube, profile = raster
    root = tmp_path_factory.mktemp("any")
    place = from_origin(sample.WEST_METRES, sample.NORTH_METRES, 10, 10)
    write(bronze(root, NAME), cube, **profile, transform=place @ Affine.rotation(20) if turned else place)
    created(context_in(root), target_crs=sample.CRS, **options)
    with rasterio.open(product(root)) as made:
        # Four bands of bytes are colours and an alpha band, whose values say what counts and are none themselves.
        alpha = made.colorinterp.index(ColorInterp.alpha) if ColorInterp.alpha in made.colorinterp else len(cube)
        pixels, transparency, cube = made.read(masked=True)[:alpha], made.read()[alpha:], cube[: alpha + 1]
        opaque, cube = cube[alpha:], cube[:alpha]
        if not turned:
            np.testing.assert_array_equal(pixels.data, cube)
            np.testing.assert_array_equal(transparency, np.where((cube == profile["nodata"]).all(axis=0), 0, opaque))
        elif pixels.count() and options["resampling"] in (None, "nearest", "mode", "bilinear", "average"):
            valid = cube[cube != profile["nodata"]] if profile["nodata"] is not None else cube
            assert valid.min() <= pixels.min() <= pixels.max() <= valid.max()
