"""What is chosen where nothing is asked for; tiles and cells. Pure."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.handlers.raster import choices, grid, tiling
from flows.handlers.raster.choices import Bands

METHODS = [None, "nearest", "bilinear", "cubic", "average", "mode"]
PALETTE = Bands(1, "uint8", ("palette",))
CLASSES = Bands(1, "int16", ("gray",))
COLOURS = Bands(4, "uint8", ("red", "green", "blue", "alpha"))
HEIGHTS = Bands(1, "float32", ("gray",))


@pytest.mark.parametrize("given_method", METHODS)
def test_a_palette_is_never_mixed(given_method: str | None) -> None:
    assert choices.resampling(given_method, PALETTE) in {"nearest", "mode"}
    assert choices.overview_resampling(given_method, PALETTE) in {"nearest", "mode"}


@pytest.mark.parametrize(
    ("bands", "full", "overview"),
    [(CLASSES, "nearest", "nearest"), (COLOURS, "bilinear", "average"), (HEIGHTS, "bilinear", "average")],
)
def test_the_kind_of_data_decides_where_nothing_is_asked_for(bands: Bands, full: str, overview: str) -> None:
    assert (choices.resampling(None, bands), choices.overview_resampling(None, bands)) == (full, overview)
    assert choices.resampling("cubic", bands) == "cubic"


@pytest.mark.parametrize(("bands", "predictor"), [(PALETTE, 1), (COLOURS, 1), (CLASSES, 2), (HEIGHTS, 3)])
def test_predictor_is_chosen_where_it_helps(bands: Bands, predictor: int) -> None:
    assert choices.predictor(bands) == predictor


BANDS = st.builds(Bands, st.integers(1, 256), st.sampled_from(sorted(grid.PIXEL_TYPES)), st.just(()))


@given(BANDS, st.sampled_from([None, 128, 256, 512, 1024]))
def test_cells_are_whole_blocks_and_small(bands: Bands, asked: int | None) -> None:
    block = choices.block_side(asked, bands)
    cell = choices.cell_side(block, bands)
    assert block % 16 == 0
    assert cell % block == 0
    assert cell <= max(block, choices.LARGEST_CELL)
    assert cell == block or grid.decoded_bytes(cell, cell, bands.count, bands.dtype) <= choices.CELL_BYTES


@given(BANDS, st.sampled_from([None, 128, 256, 512, 1024]))
def test_a_cell_has_whole_blocks_of_the_overviews_made_with_it_and_of_no_other(bands: Bands, asked: int | None) -> None:
    block = choices.block_side(asked, bands)
    cell = choices.cell_side(block, bands)
    overviews = choices.overviews_of_cells(cell, block)
    assert cell % (block * 2**overviews) == 0
    assert cell % (block * 2 ** (overviews + 1)) != 0


@given(st.integers(1, 500_000), st.integers(1, 500_000), st.integers(0, 12))
def test_halves_of_halves_are_quarters(width: int, height: int, times: int) -> None:
    size = (width, height)
    for _ in range(times):
        size = choices.halved(*size)
    assert size == choices.halved(width, height, times)


@given(st.integers(2, 500_000), st.integers(1, 500_000), st.sampled_from([128, 512, 1024]))
def test_the_last_overview_fits_one_block(width: int, height: int, block: int) -> None:
    factors = choices.factors(width, height, block)
    for _ in factors:
        assert max(width, height) > min(block, choices.LARGEST_PLAIN)
        width, height = choices.halved(width, height)
    assert max(width, height) <= min(block, choices.LARGEST_PLAIN)


@given(st.integers(1, 20_000), st.integers(1, 20_000), st.sampled_from([64, 128, 256, 512, 1024]), st.integers(0, 14))
def test_no_block_of_a_large_picture_is_exactly_as_wide_as_it(width: int, height: int, block: int, power: int) -> None:
    width = width if power > 10 else block * 2**power + width % 3 - 1  # most widths are around whole blocks
    sides = choices.block_sides(width, height, block)
    for side in sides:
        assert side % 16 == 0
        assert block % side == 0
        assert width != side or max(width, height) <= choices.LARGEST_PLAIN
        width, height = choices.halved(width, height)


@given(st.integers(1, 20_000), st.integers(1, 20_000), st.integers(512, 9000), st.sampled_from([512, 2048]))
def test_tiles_hold_whole_cells_and_cover_all(width: int, height: int, asked: int, cell: int) -> None:
    side = tiling.side(asked, cell)
    assert side % cell == 0
    assert asked <= side < asked + cell
    places = tiling.places(width, height, side)
    assert len(places) == tiling.count(width, height, side) == len({tiling.name(place, side) for place in places})
    assert sum(w * h for _, _, w, h in places) == width * height
    assert all(w > 1 for _, _, w, _ in places) or width == 1
    assert all(w <= side + 1 and h <= side for _, _, w, h in places)


def test_a_column_of_one_pixel_goes_with_the_tile_beside_it() -> None:
    assert tiling.places(1025, 600, 512) == [
        (0, 0, 512, 512),
        (512, 0, 513, 512),
        (0, 512, 512, 88),
        (512, 512, 513, 88),
    ]
    assert [place[2] for place in tiling.places(1026, 1, 512)] == [512, 512, 2]
    assert tiling.places(1, 1, 512) == [(0, 0, 1, 1)]


@pytest.mark.parametrize(
    ("decoded", "tiles", "is_tiled"), [(100, 9, False), (101, 9, True), (101, 1, False), (0, 1, False)]
)
def test_only_divisible_raster_beyond_the_memory_limit_is_tiled(decoded: int, tiles: int, is_tiled: bool) -> None:
    assert tiling.decide(decoded, 100, tiles).is_tiled is is_tiled


@given(
    st.floats(0.05, 5000),
    st.floats(-1.9e7, 1.9e7),
    st.floats(-1.9e7, 1.9e7),
    st.integers(1, 5000),
    st.integers(1, 5000),
)
def test_a_web_grid_holds_the_raster_in_whole_blocks(
    pixel: float, west: float, north: float, width: int, height: int
) -> None:
    column, row, columns, rows, metres = grid.on_web_grid((pixel, 0, west, 0, -pixel, north), width, height, 256)
    assert column % 256 == row % 256 == columns % 256 == rows % 256 == 0
    assert 0.7 < metres / pixel < 1.42
    edge, slack = grid.WEB_EDGE_METRES, metres * 1e-6
    assert column * metres - edge <= west + slack
    assert (column + columns) * metres - edge >= west + width * pixel - slack
    assert edge - row * metres >= north - slack
    assert edge - (row + rows) * metres <= north - height * pixel + slack
