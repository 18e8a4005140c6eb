"""The tiled route: the scheme, its tiles, their mosaic. Its pixels are those of the direct route, every one."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from rasterio.warp import transform_bounds
from rio_cogeo.cogeo import cog_validate

from deployments import sample
from flows.handlers.context import Context
from flows.handlers.errors import ForeignProduct, HandlerError, InvalidInput, Stopped
from flows.handlers.raster.declarations import CogResult, CreateCogParams, create_cog
from flows.handlers.raster.tile_declarations import (
    DiscardPartsParams,
    MosaicParams,
    ProcessTileBatchParams,
    ProcessTileParams,
    TileResult,
    TilingSchemeParams,
    discard_parts,
    generate_tiling_scheme,
    mosaic,
    process_tile,
    process_tile_batch,
)
from flows.settings import TryLimits
from tests.support.rasters import bronze, context_in, write

NAME = "up/large.tif"
TILE_PIXELS = 512
# Small blocks keep cells small, so that rasters of a test's size have many tiles.
SMALL = {"source": NAME, "block_size": 128}


@pytest.fixture(autouse=True)
def small_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flows.handlers.raster.choices.LARGEST_CELL", 256)


def tiled(context: Context, *, is_part: bool = True, **params: Any) -> list[TileResult]:
    planned = generate_tiling_scheme(TilingSchemeParams(tile_pixels=TILE_PIXELS, **SMALL, **params), context)
    return [
        process_tile(ProcessTileParams(tile=tile, is_part=is_part, **SMALL, **params), context)
        for tile in planned.tiles
    ]


def joined(context: Context, tiles: list[TileResult], **params: Any) -> CogResult:
    return mosaic(MosaicParams(tiles=[tile.model_dump() for tile in tiles], **SMALL, **params), context)


def assert_same_product(one: Path, other: Path) -> None:
    """The same pixels, masks and overviews, and the same header."""
    for level in (None, 0, 1):
        more = {} if level is None else {"overview_level": level}
        with rasterio.open(one, **more) as first, rasterio.open(other, **more) as second:
            assert first.profile == second.profile
            assert first.colorinterp == second.colorinterp
            assert (first.descriptions, first.units) == (second.descriptions, second.units)
            np.testing.assert_array_equal(first.read(), second.read())
            np.testing.assert_array_equal(first.dataset_mask(), second.dataset_mask())


SCENES: dict[str, tuple[Any, dict[str, Any], dict[str, Any]]] = {
    "elevation": (sample.pixels(5, 1400), {"nodata": 0}, {}),
    "interpolated": (sample.pixels(5, 1400).astype("float32"), {"nodata": 0}, {"resampling": "cubic"}),
    "colours": (np.stack([sample.pixels(seed, 1400) % 250 for seed in (1, 2, 3)]).astype("uint8"), {}, {}),
    "colours by nearest neighbour": (
        np.stack([sample.pixels(seed, 1403) % 250 for seed in (1, 2, 3)]).astype("uint8"),
        {},
        {"overview_resampling": "nearest"},
    ),
    "in its own CRS": (sample.pixels(5, 1400), {"nodata": 0}, {"target_crs": sample.CRS}),
    "a column more than its tiles": (sample.pixels(5, 1537)[:1100], {"nodata": 0}, {"target_crs": sample.CRS}),
    "web map": (
        sample.pixels(5, 1400),
        {"nodata": 0},
        {"target_crs": "EPSG:3857", "web_optimised": True, "compression": "zstd"},
    ),
}


def with_mask_beside_nodata(root: Path, pixels: Any) -> None:
    """A diagonal stripe is masked out; what it hides are values that occur nowhere else."""
    hidden = np.add.outer(np.arange(pixels.shape[0]), np.arange(pixels.shape[1])) % 500 < 120
    path = write(bronze(root, NAME), np.where(hidden, 65_000, pixels).astype("uint16"), nodata=0)
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK="YES"), rasterio.open(path, "r+") as raster:
        raster.write_mask(np.where(hidden, 0, 255).astype("uint8"))


@pytest.mark.parametrize("resampling", ["nearest", "cubic"])
@pytest.mark.parametrize("target", [sample.CRS, "EPSG:4326", "EPSG:3035"])
def test_mask_beside_nodata_is_honoured_on_both_routes(target: str, resampling: str, tmp_path: Path) -> None:
    params: dict[str, Any] = {"target_crs": target, "resampling": resampling}
    with_mask_beside_nodata(tmp_path, sample.pixels(5, 1400) % 4000 + 1)
    direct = create_cog(CreateCogParams(**SMALL, **params), context_in(tmp_path, output_prefix="direct"))
    context = context_in(tmp_path, output_prefix="tiled")
    made = joined(context, tiled(context, **params), **params)
    assert_same_product(tmp_path / "silver" / direct.cog, tmp_path / "silver" / made.cog)
    for one in (direct, made):
        assert one.bands[0].maximum < 10_000
        assert one.bands[0].valid_percent < 80


def test_a_tile_copies_only_what_it_needs_of_a_masked_source(tmp_path: Path) -> None:
    with_mask_beside_nodata(tmp_path, sample.pixels(5, 1400) % 4000 + 1)
    context = context_in(tmp_path)
    tiled(context)
    with rasterio.open(context.workdir / "folded" / NAME) as last:
        there = last.read_masks(1)
    assert there[-100:, -100:].any()
    assert not there[:100, :100].any()


@pytest.mark.parametrize("scene", SCENES)
def test_a_mosaic_is_the_product_of_the_direct_route(scene: str, tmp_path: Path) -> None:
    pixels, profile, params = SCENES[scene]
    write(bronze(tmp_path, NAME), pixels, **profile)
    direct = create_cog(CreateCogParams(**SMALL, **params), context_in(tmp_path, output_prefix="direct"))
    context = context_in(tmp_path, output_prefix="tiled")
    tiles = tiled(context, **params)
    assert len(tiles) > 4
    made = joined(context, tiles, **params)
    assert_same_product(tmp_path / "silver" / direct.cog, tmp_path / "silver" / made.cog)
    assert cog_validate(tmp_path / "silver" / made.cog, strict=True, quiet=True) == (True, [], [])
    assert made.model_dump(exclude={"cog", "artifacts", "bands"}) == direct.model_dump(
        exclude={"cog", "artifacts", "bands"}
    )
    sums = {"mean", "stddev", "valid_percent"}  # added up in another order
    ends = {"percentile_2", "percentile_98"}  # of the whole by its pixels, of parts by what each of them told
    for own, theirs in zip(made.bands, direct.bands, strict=True):
        assert own.model_dump(exclude=sums | ends) == theirs.model_dump(exclude=sums | ends)
        for name in ends:
            spread = theirs.maximum - theirs.minimum
            assert getattr(own, name) == pytest.approx(getattr(theirs, name), abs=0.1 * spread)
        assert [getattr(own, name) for name in sums] == pytest.approx(
            [getattr(theirs, name) for name in sums], rel=1e-9
        )


@pytest.mark.parametrize("params", [{}, {"target_crs": sample.CRS}])
def test_tiles_of_a_collection_are_products_of_their_own(
    params: dict[str, str], context: Context, tmp_path: Path
) -> None:
    write(bronze(tmp_path, NAME), sample.pixels(5, 1537)[:1100], nodata=0)  # a column more than three tiles have
    tiles = tiled(context, is_part=False, **params)
    assert len({tile.id for tile in tiles}) == len({tile.cog for tile in tiles}) == len(tiles)
    for tile in tiles:
        path = tmp_path / "silver" / tile.cog
        assert cog_validate(path, strict=True, quiet=True) == (True, [], [])
        artifact, *shown = tile.artifacts
        assert [one.role for one in shown] == ([] if tile.is_empty else ["thumbnail"])
        for one in shown:
            assert one.name == tile.cog.replace(".tif", ".png")
            assert (tmp_path / "silver" / one.name).stat().st_size == one.size_bytes
        assert (artifact.role, artifact.name, artifact.size_bytes) == ("tile", tile.cog, path.stat().st_size)
        with rasterio.open(path) as raster:
            bounds = transform_bounds(raster.crs, "EPSG:4326", *raster.bounds)
            assert bounds == pytest.approx(tile.bounds_wgs84, abs=1e-6)
            assert list(raster.transform[:6]) == tile.transform
            assert raster.read(1).any() != tile.is_empty


def test_tile_without_data_is_marked_empty(context: Context, tmp_path: Path) -> None:
    pixels = np.zeros((1024, 1024), "uint16")
    pixels[:512, :512] = 7
    write(bronze(tmp_path, NAME), pixels, nodata=0)
    empty = {tile.id: tile.is_empty for tile in tiled(context, target_crs=sample.CRS)}
    assert empty == {"0_0": False, "0_1": True, "1_0": True, "1_1": True}


def test_tiling_scheme_states_route_and_memory_estimate(context: Context, tmp_path: Path) -> None:
    write(bronze(tmp_path, NAME), sample.pixels(5, 1400), nodata=0)
    params = {"tile_pixels": TILE_PIXELS, **SMALL, "target_crs": sample.CRS}
    small = generate_tiling_scheme(TilingSchemeParams(**params), context)
    assert (small.route, small.tile_count, small.width, small.height) == ("direct", 9, 1400, 1400)
    assert 512 < small.estimated_memory_mb < 1024
    large = generate_tiling_scheme(TilingSchemeParams(memory_limit_mb=1, **params), context)
    assert large.route == "tiled"
    assert large.reason == "4 MB of pixels exceed the limit of 1 MB: 9 tiles share them."


def test_memory_limit_parameter_cannot_exceed_a_trys_memory(
    context: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(bronze(tmp_path, NAME), sample.pixels(5, 1400), nodata=0)
    monkeypatch.setattr(TryLimits, "memory_here", 3 * 2**20)
    params = TilingSchemeParams(memory_limit_mb=100_000, tile_pixels=TILE_PIXELS, **SMALL, target_crs=sample.CRS)
    planned = generate_tiling_scheme(params, context)
    assert (planned.route, planned.reason) == (
        "tiled", "4 MB of pixels exceed the limit of 3 MB: 9 tiles share them."
    )  # fmt: skip


def test_memory_of_a_try_follows_its_resource_limit() -> None:
    """In a process of its own: a limit once lowered stays low."""
    code = (
        "import resource; from flows.settings import TryLimits; print(TryLimits().memory_here)\n"
        "resource.setrlimit(resource.RLIMIT_AS, (3 * 2**30, 3 * 2**30)); print(TryLimits().memory_here)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"CAIRN_TRY_MEMORY_MB": "4096"}
    )
    assert done.stdout.split() == [str(4 * 2**30), str(3 * 2**30)]


def test_too_many_tiles_are_refused(context: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flows.handlers.raster.tiling.MOST_TILES", 8)
    write(bronze(tmp_path, NAME), sample.pixels(5, 1400), nodata=0)
    with pytest.raises(InvalidInput, match="Choose larger `tile_pixels`"):
        tiled(context, target_crs=sample.CRS)


def test_a_mosaic_with_a_gap_is_refused(context: Context, tmp_path: Path) -> None:
    write(bronze(tmp_path, NAME), sample.pixels(5, 1024), nodata=0)
    tiles = tiled(context, target_crs=sample.CRS)
    for wrong in (tiles[1:], [*tiles[1:], tiles[1]]):
        with pytest.raises(HandlerError, match="exactly once"):
            joined(context, wrong, target_crs=sample.CRS)


def test_a_mosaic_by_other_overviews_is_refused(context: Context, tmp_path: Path) -> None:
    """Nearest neighbours come with the tiles, modes do not."""
    write(bronze(tmp_path, NAME), sample.pixels(5, 1024), nodata=0)
    tiles = tiled(context, target_crs=sample.CRS)
    with pytest.raises(
        HandlerError, match=r"Tile 0_0 has pictures in blocks of \[128, 128\] pixels and its mosaic takes \[128\]"
    ):
        joined(context, tiles, target_crs=sample.CRS, overview_resampling="mode")


def test_a_batch_resumes_after_the_last_finished_tile(tmp_path: Path) -> None:
    write(bronze(tmp_path, NAME), sample.pixels(5, 1024), nodata=0)
    stop = context_in(tmp_path).stop_event
    checkpoint = Kept()
    first = context_in(
        tmp_path,
        output_prefix="a1",
        checkpoint=checkpoint,
        stop_event=stop,
        progress=lambda _fraction, told: stop.set() if told == "tile 2 of 4" else None,
    )
    options = {**SMALL, "target_crs": sample.CRS}
    tiles = generate_tiling_scheme(TilingSchemeParams(tile_pixels=TILE_PIXELS, **options), first).tiles
    params = ProcessTileBatchParams(tiles=tiles, **options)
    with pytest.raises(Stopped):
        process_tile_batch(params, first)
    second = context_in(tmp_path, output_prefix="a2", checkpoint=checkpoint)
    made = process_tile_batch(params, second)
    assert [tile.id for tile in made.tiles] == [tile.id for tile in tiles]
    assert [tile.cog.partition("/")[0] for tile in made.tiles] == ["a1", "a1", "a2", "a2"]
    assert [one.role for one in made.artifacts] == ["tile", "thumbnail"] * 4


class Kept:
    """A checkpoint that outlives its try."""

    def __init__(self) -> None:
        self.state: dict[str, object] | None = None

    def load(self) -> dict[str, object] | None:
        return self.state

    def save(self, state: dict[str, object]) -> None:
        self.state = state


def test_discarding_parts_again_changes_nothing(context: Context, tmp_path: Path) -> None:
    write(bronze(tmp_path, NAME), sample.pixels(5, 600), nodata=0)
    tiles = tiled(context, target_crs=sample.CRS)
    params = DiscardPartsParams(tiles=[tile.model_dump() for tile in tiles])
    for _ in "12":
        with pytest.raises(ForeignProduct):
            discard_parts(params, replace(context, output_prefix="assets/other/0-r1/a1"))
        assert discard_parts(params, context).discarded == len(tiles)
        assert not any((tmp_path / "runs").rglob("*.tif"))
