"""Pixels of screenshots."""

import warnings
from typing import Any

import numpy as np
from rasterio.errors import NotGeoreferencedWarning
from rasterio.io import MemoryFile


def pixels(png: bytes) -> Any:
    """Rows of pixels, each red, green, blue."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotGeoreferencedWarning)
        with MemoryFile(png) as file, file.open() as picture:
            return np.moveaxis(picture.read([1, 2, 3]), 0, 2).astype(int)


def greys(png: bytes) -> list[int]:
    """The levels of grey in it. Elevations are drawn in grey, and nothing else of a map is."""
    shown = pixels(png)
    is_grey = (shown[..., 0] == shown[..., 1]) & (shown[..., 1] == shown[..., 2])
    return [int(level) for level in shown[is_grey][:, 0]]
