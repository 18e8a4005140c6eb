"""Decides what a request reads of a raster: its bands, its size, its memory. Pure: opens nothing.

Pictures are drawn from one band or three; those that the raster's rendering names, unless the reader names others.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from domain.rules.rendering import Band, shown_bands
from gateway.forwarding.reading_headers import cost_of_pixels
from gateway.serving.mosaics import Header
from gateway.serving.problems import cannot_draw, invalid, too_large

MAX_BANDS: Final = 8
USUAL_PREVIEW: Final = 1024
HEAVY_COST: Final = USUAL_PREVIEW**2 / 512**2  # of the usual preview in colours: what is more is drawn apart
# Beside the values as they are read, a picture holds them again while they are stretched, and their masks.
_COPIES, _STRETCHED_BYTES, _MASK_BYTES = 2, 8, 2
_BASE_BYTES: Final = 16 * 1024**2  # blocks, and what GDAL opens
_MEGABYTE: Final = 1024**2


@dataclass(frozen=True)
class Size:
    """Rows and columns of what is read."""

    height: int
    width: int

    @property
    def pixels(self) -> int:
        return self.height * self.width


def bands_of_picture(bands: Sequence[Band], named: Sequence[int] | None, *, has_colormap: bool) -> list[int]:
    """Return the bands of a picture, or refuse with the reason why there is none."""
    numbers = list(named) if named else list(shown_bands(bands))
    if len(numbers) not in (1, 3):
        raise cannot_draw(
            f"A picture has one band or three, and bidx names {len(numbers)}. "
            "Name one, or three for red, green and blue; .tif and .npy hold any."
        )
    if has_colormap and len(numbers) == 3:
        raise cannot_draw("A colour map gives colours to one band, and three would be drawn. Name one with bidx.")
    return numbers


def refuse_strangers(named: Sequence[int] | None, header: Header) -> None:
    """Refuse numbers of bands that the raster does not have."""
    count = len(header.dtypes)
    if wrong := [number for number in named or () if not 1 <= number <= count]:
        has = "one band, number 1" if count == 1 else f"{count} bands, numbered from 1"
        raise invalid(f"bidx names band {wrong[0]}; this raster has {has}.")


def size_of_preview(given: Mapping[str, int], header: Header, *, is_reprojected: bool) -> Size:
    """Return the size asked for by both sides, one side, or the longer side."""
    width, height, longest = given.get("width"), given.get("height"), given.get("max_size", USUAL_PREVIEW)
    if width and height:
        return Size(height, width)
    if is_reprojected:
        if width or height:
            raise invalid("With dst_crs, give both width and height, or max_size.")
        return Size(longest, longest)
    ratio = header.place.height / header.place.width
    if width or height:
        return Size(height or math.ceil((width or 1) * ratio), width or math.ceil((height or 1) / ratio))
    factor = min(1.0, longest / max(header.place.height, header.place.width))
    return Size(math.ceil(header.place.height * factor), math.ceil(header.place.width * factor))


def is_heavy(count: int, size: Size) -> bool:
    """Whether reading and drawing so many bands takes so long that tiles of others would be late meanwhile."""
    return cost_of_pixels(count * size.pixels) > HEAVY_COST


def memory_of(count: int, dtype: str, size: Size) -> int:
    """The bytes that it takes to read and draw so many bands."""
    return _BASE_BYTES + size.pixels * count * _bytes_of_value(dtype)


def _bytes_of_value(dtype: str) -> int:
    return np.dtype(dtype).itemsize * _COPIES + _STRETCHED_BYTES + _MASK_BYTES


def refuse_too_much(count: int, dtype: str, size: Size, most_bytes: int) -> int:
    """Return the memory that the picture takes, or refuse and say what would be allowed."""
    needed = memory_of(count, dtype, size)
    if needed <= most_bytes:
        return needed
    each, left = _bytes_of_value(dtype), max(most_bytes - _BASE_BYTES, 0)
    fewer = min(left // (size.pixels * each), MAX_BANDS, count - 1)
    side = math.isqrt(left // (count * each))
    ways = [f"name at most {fewer} of them with bidx"] * (fewer > 0) + [f"ask for at most {side:,} x {side:,} pixels"]
    raise too_large(
        f"{count} bands of {size.width:,} x {size.height:,} pixels ({dtype}) take {needed // _MEGABYTE:,} MB of memory "
        f"to read; one request may take {most_bytes // _MEGABYTE:,} MB. {' or '.join(ways).capitalize()}."
    )
