"""The door to rasters: what it keeps in memory. What it refuses is in the tests of validation and of hostile files."""

import os
from pathlib import Path

import numpy as np
import pytest
import rasterio

from deployments import sample
from flows.handlers.context import Context
from flows.handlers.raster.opening import opened
from tests.support.rasters import bronze, write

NAME = "up/dem.tif"


def test_a_block_is_unpacked_once(context: Context, tmp_path: Path) -> None:
    path = write(bronze(tmp_path, NAME), sample.pixels(3, 600), nodata=0, compress="deflate")
    with opened(NAME, context) as raster:
        seen = raster.read()
        os.truncate(path, 4096)
        np.testing.assert_array_equal(raster.read(), seen)
        with rasterio.open(path) as control, pytest.raises(rasterio.RasterioIOError):
            control.read()
