"""Raster arithmetic: sizes, windows, transforms. Pure: knows no file and no library."""

import math
from collections.abc import Iterator
from itertools import product

BLOCK_PIXELS = 512

# Affine: x = a * column + b * row + c and y = d * column + e * row + f.
Coefficients = tuple[float, float, float, float, float, float]
# A window: column, row, width, height.
Place = tuple[int, int, int, int]

# Web maps: a square of this half side, cut into tiles of so many pixels, four times as many at each zoom.
WEB_EDGE_METRES = math.pi * 6378137.0
WEB_TILE_PIXELS = 256

_BYTES = {"uint8": 1, "int8": 1, "uint16": 2, "int16": 2, "uint32": 4, "int32": 4, "float32": 4, "float64": 8}
_BYTES |= {"uint64": 8, "int64": 8}
PIXEL_TYPES = frozenset(_BYTES)


def decoded_bytes(width: int, height: int, bands: int, dtype: str) -> int:
    """What the pixels take once they are unpacked."""
    return width * height * bands * _BYTES[dtype]


def usable_nodata(nodata: float | None, dtype: str) -> float | None:
    """The nodata value if a pixel of that type can hold it: 0.5 marks nothing among whole numbers."""
    whole = not dtype.startswith("float")
    return None if nodata is not None and whole and not float(nodata).is_integer() else nodata


def is_north_up(coefficients: Coefficients) -> bool:
    """True without rotation or mirroring: columns run east, rows run south."""
    a, b, _, d, e, _ = coefficients
    return b == 0 and d == 0 and a > 0 and e < 0


def bounds(coefficients: Coefficients, width: int, height: int) -> tuple[float, float, float, float]:
    """The box around the four corners, which a rotated raster does not fill."""
    a, b, c, d, e, f = coefficients
    corners = [(column, row) for column in (0, width) for row in (0, height)]
    xs = [a * column + b * row + c for column, row in corners]
    ys = [d * column + e * row + f for column, row in corners]
    return min(xs), min(ys), max(xs), max(ys)


def windows(width: int, height: int, side: int) -> Iterator[Place]:
    """Column, row, width and height of the windows that cover a raster, row by row."""
    for row, col in product(range(0, height, side), range(0, width, side)):
        yield col, row, min(side, width - col), min(side, height - row)


def shrunk(width: int, height: int, longest: int) -> tuple[int, int]:
    """Height and width of a smaller picture of the same shape whose longer side is at most that long."""
    factor = max(1.0, max(width, height) / longest)
    return max(1, round(height / factor)), max(1, round(width / factor))


def on_web_grid(coefficients: Coefficients, width: int, height: int, block: int) -> tuple[int, int, int, int, float]:
    """The window of a web map's pixels that holds a raster in web Mercator, in whole blocks, and their size in metres.

    The zoom is the one whose pixels are nearest in size to the raster's.
    """
    pixel, _, west, _, _, north = coefficients
    zoom = max(0, round(math.log2(2 * WEB_EDGE_METRES / WEB_TILE_PIXELS / pixel)))
    metres = 2 * WEB_EDGE_METRES / WEB_TILE_PIXELS / 2**zoom
    first_column, first_row = (
        math.floor(offset / metres / block) for offset in (west + WEB_EDGE_METRES, WEB_EDGE_METRES - north)
    )
    last_column = math.ceil((west + width * pixel + WEB_EDGE_METRES) / metres / block)
    last_row = math.ceil((WEB_EDGE_METRES - north + height * pixel) / metres / block)
    columns, rows = max(1, last_column - first_column), max(1, last_row - first_row)
    return first_column * block, first_row * block, columns * block, rows * block, metres
