"""Validation: what is refused and in which words, what is fixed, what is green. Real files, real GDAL."""

import hashlib
import resource
import struct
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import rasterio
from affine import Affine
from rasterio.errors import NotGeoreferencedWarning

from deployments import sample
from flows.handlers.context import Context
from flows.handlers.errors import InvalidInput, Stopped
from flows.handlers.raster import opening
from flows.handlers.raster.declarations import ValidateParams, ValidateResult, validate
from tests.support import hostile
from tests.support.hostile import SIDE, with_control_points
from tests.support.rasters import PLACE, bronze, write, write_header

NAME = "up/dem.tif"
PIXELS = sample.pixels(3, 600)


def validated(context: Context, source_crs: str | None = None) -> ValidateResult:
    return validate(ValidateParams(source=NAME, source_crs=source_crs), context)


def test_good_raster_is_validated_without_findings(context: Context, tmp_path: Path) -> None:
    path = bronze(tmp_path, NAME)
    sample.write(path, seed=3, size=600)
    found = validated(context)
    assert (found.outcome, found.warnings, found.is_cog) == ("green", [], False)
    assert (found.crs, found.dtype, found.nodata, found.band_count) == (sample.CRS, "uint16", 0, 1)
    assert (found.width, found.height) == (600, 600)
    assert found.bounds_native == (304_640, 5_230_800, 310_640, 5_236_800)
    assert found.bounds_wgs84 == pytest.approx((12.418, 47.202, 12.499, 47.257), abs=0.002)
    assert found.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert found.size_mb == path.stat().st_size / 1024**2
    assert found.estimated_memory_mb == PIXELS.nbytes / 1024**2


def text(path: Path) -> None:
    path.write_text("Dear Sir or Madam, please find the raster attached.")


def empty(path: Path) -> None:
    path.touch()


def vrt_of_a_secret(path: Path) -> None:
    path.write_text(
        '<VRTDataset rasterXSize="10" rasterYSize="10"><GeoTransform>0, 1, 0, 0, 0, -1</GeoTransform>'
        '<VRTRasterBand dataType="Byte" band="1" subClass="VRTRawRasterBand">'
        '<SourceFilename relativetoVRT="0">/etc/passwd</SourceFilename></VRTRasterBand></VRTDataset>'
    )


def another_format(path: Path) -> None:
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))


def without_crs(path: Path) -> None:
    write(path, PIXELS, crs=None)


def without_place(path: Path) -> None:
    with pytest.warns(NotGeoreferencedWarning):
        write(path, PIXELS, transform=None)


def with_a_size_but_no_place(path: Path) -> None:
    write(path, PIXELS)
    path.write_bytes(path.read_bytes().replace(struct.pack("<HH", 33922, 12), struct.pack("<HH", 33921, 12)))


def with_a_palette_that_is_gone(path: Path) -> None:
    palette = hostile.by_name(hostile.honest())["palette"].content
    path.write_bytes(palette.replace(struct.pack("<HH", 320, 3), struct.pack("<HH", 40_965, 13)))


def with_a_private_crs(path: Path) -> None:
    write(path, PIXELS, crs="+proj=laea +lat_0=47.1 +lon_0=12.6 +ellps=WGS84")


def off_the_earth(path: Path) -> None:
    write(path, PIXELS, crs="EPSG:4326")


def of_complex_numbers(path: Path) -> None:
    write(path, PIXELS.astype("complex64"))


def cut_in_the_pixels(path: Path) -> None:
    write(path, np.random.default_rng(1).integers(0, 4000, (600, 600), "uint16"))
    path.write_bytes(path.read_bytes()[:-1])


def cut_in_half(path: Path) -> None:
    write(path, np.random.default_rng(1).integers(0, 4000, (600, 600), "uint16"))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def cut_in_the_second_band(path: Path) -> None:
    write(path, np.random.default_rng(1).integers(0, 255, (2, 600, 600), "uint8"), interleave="band")
    path.write_bytes(path.read_bytes()[:-1])


def cut_in_the_header(path: Path) -> None:
    sample.write(path, seed=3, size=600)
    path.write_bytes(path.read_bytes()[:60])


def only_the_magic(path: Path) -> None:
    path.write_bytes(b"II*\0")


def huge_picture(path: Path) -> None:
    write_header(path, 65_535, 65_535)


def huge_side(path: Path) -> None:
    write_header(path, 2**31 - 1, 1)


def huge_block(path: Path) -> None:
    write_header(path, 2**30, 2**30, tile=2**30)


def too_many_blocks(path: Path) -> None:
    write_header(path, 300_000, 300_000, tile=16)


REFUSED: list[tuple[Callable[[Path], None], str]] = [
    (text, "not a GeoTIFF"),
    (empty, "is empty"),
    (vrt_of_a_secret, "not a GeoTIFF"),
    (another_format, "not a GeoTIFF"),
    (without_crs, "names no CRS"),
    (without_place, "not placed on the ground"),
    (with_a_size_but_no_place, "a size and no place"),
    (with_a_palette_that_is_gone, "palette that is not there"),
    (with_a_private_crs, "no EPSG code"),
    (off_the_earth, "outside of the Earth"),
    (of_complex_numbers, "complex64"),
    (cut_in_the_pixels, "cut short"),
    (cut_in_half, "cut short"),
    (cut_in_the_second_band, "cut short"),
    (cut_in_the_header, "header is damaged"),
    (only_the_magic, "header is damaged"),
    (huge_picture, "times its size"),
    (huge_side, "too large|header is damaged"),
    (huge_block, "too large|header is damaged"),
    (too_many_blocks, "too large|header is damaged"),
]


@pytest.mark.parametrize(("make", "sentence"), REFUSED, ids=[make.__name__ for make, _ in REFUSED])
def test_bad_raster_is_refused_with_a_sentence_for_the_sender(
    make: Callable[[Path], None], sentence: str, context: Context, tmp_path: Path
) -> None:
    make(bronze(tmp_path, NAME))
    started, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(InvalidInput, match=sentence) as refusal:
        validated(context)
    assert time.process_time() - started < 5
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 512 * 1024
    assert repr(NAME) in str(refusal.value)
    assert str(tmp_path) not in str(refusal.value)


def test_file_of_another_driver_is_refused_despite_its_first_bytes(
    context: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = bronze(tmp_path, NAME)
    vrt_of_a_secret(path)
    with rasterio.open(path) as control:
        assert control.driver == "VRT"
    monkeypatch.setattr(opening, "_refuse_by_header", lambda source, name: None)
    with pytest.raises(InvalidInput, match="header is damaged"):
        validated(context)


def test_missing_blob_is_refused_as_invalid_input(context: Context) -> None:
    with pytest.raises(InvalidInput, match=r"no blob 'up/dem\.tif'"):
        validated(context)


def test_a_missing_crs_may_be_stated(context: Context, tmp_path: Path) -> None:
    without_crs(bronze(tmp_path, NAME))
    assert validated(context, "EPSG:32633").crs == "EPSG:32633"


def test_the_files_own_crs_wins_over_the_stated_one(context: Context, tmp_path: Path) -> None:
    write(bronze(tmp_path, NAME), PIXELS, nodata=0)
    assert validated(context, "EPSG:3857").crs == "EPSG:32633"


def test_an_unknown_stated_crs_is_refused(context: Context, tmp_path: Path) -> None:
    without_crs(bronze(tmp_path, NAME))
    with pytest.raises(InvalidInput, match="EPSG:99999 is not a CRS of maps"):
        validated(context, "EPSG:99999")


FIXED = [
    ({}, "names no nodata value that"),
    ({"nodata": 0, "tiled": False, "blockxsize": None, "blockysize": 600}, "tiled anew"),
    ({"nodata": 0, "transform": PLACE @ Affine.rotation(30)}, "turned north-up"),
    ({"nodata": 0, "transform": Affine(10, 0, 304_640, 0, 10, 5_230_800)}, "turned north-up"),
]


@pytest.mark.parametrize(("profile", "warning"), FIXED, ids=["nodata", "blocks", "rotated", "south-up"])
def test_fixable_fault_is_reported_as_a_warning(
    profile: dict[str, object], warning: str, context: Context, tmp_path: Path
) -> None:
    pixels = sample.pixels(3, 2100) if "blockysize" in profile else PIXELS
    write(bronze(tmp_path, NAME), pixels, **profile)
    found = validated(context)
    assert found.outcome == "warn_and_fix"
    assert len(found.warnings) == 1
    assert warning in found.warnings[0]


def test_control_points_place_a_raster(context: Context, tmp_path: Path) -> None:
    with_control_points(bronze(tmp_path, NAME))
    found = validated(context)
    assert [finding.code for finding in found.report] == ["control-points"]
    assert (found.outcome, found.crs, found.control_points) == ("warn_and_fix", "EPSG:4326", 4)
    assert found.bounds_wgs84 == pytest.approx((12, 47 - SIDE / 1000, 12 + SIDE / 1000, 47))


def test_validation_returns_the_facts_of_the_header(context: Context, tmp_path: Path) -> None:
    write(bronze(tmp_path, NAME), np.stack([PIXELS % 255] * 4).astype("uint8"), nodata=0, compress="deflate")
    found = validated(context)
    assert (found.block_width, found.block_height, found.overviews) == (256, 256, [])
    assert (found.compression, found.interleave, found.is_north_up) == ("deflate", "pixel", True)
    assert found.color_interp == ["red", "green", "blue", "alpha"]
    assert found.has_own_mask


@pytest.mark.parametrize("layout", [{"BIGTIFF": "YES"}, {"ENDIANNESS": "BIG"}, {"BIGTIFF": "YES", "ENDIANNESS": "BIG"}])
def test_every_kind_of_tiff_is_read(layout: dict[str, str], context: Context, tmp_path: Path) -> None:
    write(bronze(tmp_path, NAME), PIXELS, nodata=0, **layout)
    assert validated(context).outcome == "green"


def test_raster_in_a_compound_crs_is_accepted(context: Context, tmp_path: Path) -> None:
    write(bronze(tmp_path, NAME), PIXELS, nodata=0, crs="EPSG:32633+5773")
    assert validated(context).crs == "EPSG:32633"


def test_a_mask_needs_no_nodata(context: Context, tmp_path: Path) -> None:
    path = write(bronze(tmp_path, NAME), PIXELS)
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True), rasterio.open(path, "r+") as raster:
        raster.write_mask(PIXELS != 0)
    assert validated(context).outcome == "green"


def test_sidecar_files_do_not_change_the_verdict(context: Context, tmp_path: Path) -> None:
    path = write(bronze(tmp_path, NAME), PIXELS, nodata=0)
    plain = validated(context)
    metadata = "<PAMDataset><SRS>EPSG:3857</SRS><GeoTransform>0,1,0,0,0,-1</GeoTransform></PAMDataset>"
    path.with_name("dem.tif.aux.xml").write_text(metadata)
    path.with_name("dem.tfw").write_text("1\n0\n0\n-1\n0\n0\n")
    vrt_of_a_secret(path.with_name("dem.tif.ovr"))
    vrt_of_a_secret(path.with_name("dem.tif.msk"))
    with rasterio.open(path) as control:
        assert control.crs == "EPSG:3857"
    assert validated(context) == plain


def test_validation_stops_when_asked_to(context: Context, tmp_path: Path) -> None:
    write(bronze(tmp_path, NAME), PIXELS)
    context.stop_event.set()
    with pytest.raises(Stopped):
        validated(context)
