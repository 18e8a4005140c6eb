"""A small picture of a product for people who choose. Imports rasterio."""

import warnings
from pathlib import Path
from typing import Any, Final

import numpy as np
import rasterio
from rasterio.enums import ColorInterp
from rasterio.errors import NotGeoreferencedWarning
from rasterio.io import DatasetReader

from domain.rules.rendering import Range, Rendering

MEDIA_TYPE: Final = "image/png"
LONGEST_SIDE: Final = 512

Pixels = np.ndarray[Any, Any]


def write(raster: DatasetReader, rendering: Rendering, pixels: Pixels, mask: Pixels, path: Path) -> None:
    """Write a PNG of what was read of the bands that are shown; what the mask leaves out is transparent."""
    colours = _colours(raster, rendering, pixels)
    bands = np.concatenate([colours, mask[np.newaxis]]).astype("uint8")
    count, height, width = bands.shape
    with rasterio.Env(GDAL_PAM_ENABLED="NO"), warnings.catch_warnings():
        warnings.simplefilter("ignore", NotGeoreferencedWarning)
        with rasterio.open(path, "w", driver="PNG", count=count, height=height, width=width, dtype="uint8") as picture:
            picture.write(bands)


def _colours(raster: DatasetReader, rendering: Rendering, pixels: Pixels) -> Pixels:
    """Red, green and blue, or one grey."""
    if raster.colorinterp[rendering.bands[0] - 1] is ColorInterp.palette:
        table = np.zeros((65_536, 3), "uint8")
        for value, colour in raster.colormap(rendering.bands[0]).items():
            table[value] = colour[:3]
        painted: Pixels = table[pixels[0]].transpose(2, 0, 1)
        return painted
    return np.stack([_stretched(band, rendering.range) for band in pixels])


def _stretched(band: Pixels, values: Range | None) -> Pixels:
    """The range of values over the whole range of a byte; bytes that are colours stay as they are."""
    if values is None:
        return band.astype("uint8")  # what has no range and is no byte has no valid pixel
    low, high = values
    share = (np.clip(np.nan_to_num(band.astype("float64"), nan=low), low, high) - low) / (high - low)
    stretched: Pixels = (share * 255).astype("uint8")
    return stretched
