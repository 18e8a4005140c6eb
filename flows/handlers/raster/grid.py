"""Raster arithmetic: sizes, windows, transforms. Pure: knows no file and no library."""

import math
from collections.abc import Iterator
from itertools import product

BLOCK_PIXELS = 512

# Affine: x = a * column + b * row + c and y = d * column + e * row + f.
Coefficients = tuple[float, float, float, float, float, float]

_BYTES = {"uint8": 1, "int8": 1, "uint16": 2, "int16": 2, "uint32": 4, "int32": 4, "float32": 4, "float64": 8}
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


def window_side(bands: int, dtype: str, budget_bytes: int) -> int:
    """The side of a square window, in whole blocks, whose pixels fit the budget; one block at least."""
    side = math.isqrt(budget_bytes // (bands * _BYTES[dtype]))
    return max(1, side // BLOCK_PIXELS) * BLOCK_PIXELS


def windows(width: int, height: int, side: int) -> Iterator[tuple[int, int, int, int]]:
    """Column, row, width and height of the windows that cover a raster, row by row."""
    for row, col in product(range(0, height, side), range(0, width, side)):
        yield col, row, min(side, width - col), min(side, height - row)


def shrunk(width: int, height: int, longest: int) -> tuple[int, int]:
    """Height and width of a smaller picture of the same shape whose longer side is at most that long."""
    factor = max(1.0, max(width, height) / longest)
    return max(1, round(height / factor)), max(1, round(width / factor))
