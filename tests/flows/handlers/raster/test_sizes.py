"""Products of awkward sizes, around whole blocks and their multiples, are strictly valid on every route."""

from collections.abc import Iterator
from itertools import product as pairs
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from rio_cogeo.cogeo import cog_validate

from deployments import sample
from flows.handlers.context import Context
from flows.handlers.errors import HandlerError
from flows.handlers.raster import cog
from flows.handlers.raster.declarations import CogResult, CreateCogParams, create_cog
from flows.handlers.raster.tile_declarations import (
    MosaicParams,
    ProcessTileParams,
    TilingSchemeParams,
    generate_tiling_scheme,
    mosaic,
    process_tile,
)
from tests.support.rasters import bronze, context_in, write

NAME = "up/awkward.tif"
PIXELS = sample.pixels(7, 4200)
# Reprojects, and leaves as many columns and rows as there were: the other name of nearly the same grid.
REPROJECTED = "EPSG:25833"
TARGETS = [sample.CRS, REPROJECTED]
REPORTED = [(512, 1000), (1023, 2000), (1024, 2000), (2048, 2100), (4096, 4200)]


def sides(block: int, multiples: tuple[int, ...]) -> list[int]:
    return [block * multiple + more for multiple in multiples for more in (-1, 0, 1)]


def direct(context: Context, **params: Any) -> CogResult:
    return create_cog(CreateCogParams(source=NAME, **params), context)


def tiled(context: Context, **params: Any) -> CogResult:
    planned = generate_tiling_scheme(TilingSchemeParams(source=NAME, tile_pixels=512, **params), context)
    parts = [
        process_tile(ProcessTileParams(source=NAME, tile=tile, is_part=True, **params), context)
        for tile in planned.tiles
    ]
    return mosaic(MosaicParams(source=NAME, tiles=[part.model_dump() for part in parts], **params), context)


def faults(root: Path, made: CogResult, width: int, height: int) -> Iterator[str]:
    """What is wrong with the product, its size told with it."""
    path = root / "silver" / made.cog
    valid, errors, found = cog_validate(path, strict=True, quiet=True)
    if not valid:
        yield f"{width} x {height}: {[*errors, *found]}"
    if (made.width, made.height) != (width, height):
        yield f"{width} x {height} became {made.width} x {made.height}"
    if made.crs == sample.CRS:
        yield from wrong_pixels(path, PIXELS[:height, :width])


def wrong_pixels(path: Path, pixels: Any) -> Iterator[str]:
    """The pictures whose pixels are not those of the source, or every second of them."""
    with rasterio.open(path) as raster:
        levels = [None, *range(len(raster.overviews(1)))]
    for times, level in enumerate(levels):
        more = {} if level is None else {"overview_level": level}
        with rasterio.open(path, **more) as picture:
            if not np.array_equal(picture.read(1), pixels[:: 2**times, :: 2**times]):
                yield f"{pixels.shape}: picture {times} has other pixels"


def found_by(make: Any, sizes: Any, root: Path, **params: Any) -> list[str]:
    found = list[str]()
    for width, height in sizes:
        write(bronze(root, NAME), PIXELS[:height, :width], nodata=0)
        found += faults(root, make(context_in(root), **params), width, height)
    return found


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("block", "multiples"), [(128, (1,)), (256, (1, 2)), (512, (1, 2)), (1024, (1,))])
def test_a_product_around_whole_blocks_is_strictly_valid(
    block: int, multiples: tuple[int, ...], target: str, tmp_path: Path
) -> None:
    """Both orientations: each side is paired with each, and with a long and a short one."""
    around = sides(block, multiples)
    sizes = {*pairs(around, around), *pairs(around, (300, 2000)), *pairs((300, 2000), around)}
    assert found_by(direct, sorted(sizes), tmp_path, block_size=block, target_crs=target) == []


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("block", "cell"), [(128, 256), (256, 512), (512, 512)])
def test_a_mosaic_around_whole_blocks_is_strictly_valid(
    block: int, cell: int, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flows.handlers.raster.choices.LARGEST_CELL", cell)
    around, long = sides(block, (1, 2)), block * 2 + 513
    sizes = [*pairs(around, (long,)), *pairs((long,), around)]
    assert found_by(tiled, sizes, tmp_path, block_size=block, target_crs=target) == []


@pytest.mark.parametrize("size", [*REPORTED, *[(height, width) for width, height in REPORTED]])
def test_a_size_that_was_refused_is_made_with_the_usual_options(size: tuple[int, int], tmp_path: Path) -> None:
    assert found_by(direct, [size], tmp_path, target_crs=sample.CRS) == []


def test_a_narrow_web_map_is_strictly_valid(tmp_path: Path) -> None:
    """Its sides are whole blocks by design, so that it is often exactly one wide."""
    write(bronze(tmp_path, NAME), PIXELS[:2000, :100], nodata=0)
    made = direct(context_in(tmp_path), target_crs="EPSG:3857", web_optimised=True)
    assert made.width == 512 < made.height
    assert cog_validate(tmp_path / "silver" / made.cog, strict=True, quiet=True) == (True, [], [])


def test_blocks_are_halved_only_in_the_picture_that_one_of_them_would_span(tmp_path: Path) -> None:
    write(bronze(tmp_path, NAME), PIXELS[:2000, :1023], nodata=0)
    path = tmp_path / "silver" / direct(context_in(tmp_path), target_crs=sample.CRS).cog
    with rasterio.open(path) as whole, rasterio.open(path, overview_level=0) as half:
        assert whole.block_shapes == [(512, 512)]
        assert ((half.width, half.height), half.block_shapes) == ((512, 1000), [(256, 256)])


def test_a_small_picture_in_strips_is_no_product_whatever_its_shape(tmp_path: Path) -> None:
    """rio-cogeo lets it pass: it judges by widths, and only where they are large."""
    path = write(tmp_path / "strips.tif", PIXELS[:300, :300], tiled=False, blockxsize=None, blockysize=16)
    assert cog_validate(path, strict=True, quiet=True)[0]
    with pytest.raises(HandlerError, match="picture 0 is not tiled"):
        cog._check(path)
