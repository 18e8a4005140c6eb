"""A small picture of a product for people who choose. Imports rasterio."""

import warnings
from pathlib import Path
from typing import Any, Final

import numpy as np
import rasterio
from rasterio.enums import ColorInterp
from rasterio.errors import NotGeoreferencedWarning
from rasterio.io import DatasetReader

MEDIA_TYPE: Final = "image/png"
LONGEST_SIDE: Final = 512
# Rare bright and dark pixels do not decide how the others look.
PERCENTILES: Final = (2, 98)
_COLOURS: Final = (ColorInterp.red, ColorInterp.green, ColorInterp.blue)

Pixels = np.ndarray[Any, Any]


def write(raster: DatasetReader, pixels: Pixels, mask: Pixels, path: Path) -> None:
    """Write a PNG of what was read of the bands that are shown; what the mask leaves out is transparent."""
    colours = _colours(raster, pixels, mask)
    bands = np.concatenate([colours, mask[np.newaxis]]).astype("uint8")
    count, height, width = bands.shape
    with rasterio.Env(GDAL_PAM_ENABLED="NO"), warnings.catch_warnings():
        warnings.simplefilter("ignore", NotGeoreferencedWarning)
        with rasterio.open(path, "w", driver="PNG", count=count, height=height, width=width, dtype="uint8") as picture:
            picture.write(bands)


def bands_of(raster: DatasetReader) -> list[int]:
    """The numbers of the bands that are shown: red, green and blue, or the first."""
    if all(colour in raster.colorinterp for colour in _COLOURS):
        return [raster.colorinterp.index(colour) + 1 for colour in _COLOURS]
    return [1]


def _colours(raster: DatasetReader, pixels: Pixels, mask: Pixels) -> Pixels:
    """Red, green and blue, or one grey."""
    if raster.colorinterp[0] is ColorInterp.palette:
        table = np.zeros((65_536, 3), "uint8")
        for value, colour in raster.colormap(1).items():
            table[value] = colour[:3]
        painted: Pixels = table[pixels[0]].transpose(2, 0, 1)
        return painted
    return np.stack([_stretched(band, mask) for band in pixels])


def _stretched(band: Pixels, mask: Pixels) -> Pixels:
    """The band's values over the whole range of a byte; bytes stay as they are."""
    if band.dtype == "uint8":
        return band
    values = band.astype("float64")
    shown = values[(mask > 0) & np.isfinite(values)]
    low, high = np.percentile(shown, PERCENTILES) if shown.size else (0.0, 1.0)
    share = (np.clip(np.nan_to_num(values, nan=low), low, high) - low) / ((high - low) or 1.0)
    stretched: Pixels = (share * 255).astype("uint8")
    return stretched
