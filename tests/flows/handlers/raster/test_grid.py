"""Raster arithmetic."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.handlers.raster import grid


@pytest.mark.parametrize("dtype", sorted(grid.PIXEL_TYPES))
def test_pixel_sizes_agree_with_numpy(dtype: str) -> None:
    assert grid.decoded_bytes(5, 7, 3, dtype) == np.zeros((3, 7, 5), dtype).nbytes


@pytest.mark.parametrize(
    ("nodata", "dtype", "usable"),
    [
        (None, "uint8", None),
        (0, "uint8", 0),
        (0.5, "int16", None),
        (-9999, "int16", -9999),
        (-3.4e38, "float32", -3.4e38),
    ],
)
def test_nodata_counts_only_where_a_pixel_can_hold_it(nodata: float | None, dtype: str, usable: float | None) -> None:
    assert grid.usable_nodata(nodata, dtype) == usable


@given(st.integers(1, 5000), st.integers(1, 5000), st.integers(1, 4))
def test_windows_cover_every_pixel_once(width: int, height: int, blocks: int) -> None:
    side = blocks * grid.BLOCK_PIXELS
    places = list(grid.windows(width, height, side))
    assert sum(w * h for _, _, w, h in places) == width * height
    assert len({(col, row) for col, row, _, _ in places}) == len(places)
    assert all(col % side == 0 and row % side == 0 and 0 < w <= side and 0 < h <= side for col, row, w, h in places)


def test_bounds_of_a_rotated_raster_enclose_its_corners() -> None:
    assert grid.bounds((0, 1, 100, 1, 0, 200), width=3, height=5) == (100, 200, 105, 203)
    assert grid.bounds((10, 0, 100, 0, -10, 200), width=3, height=5) == (100, 150, 130, 200)


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_a_shrunk_picture_is_never_longer_nor_empty(width: int, height: int) -> None:
    shape = grid.shrunk(width, height, 1024)
    assert min(shape) >= 1
    assert max(shape) <= 1024
