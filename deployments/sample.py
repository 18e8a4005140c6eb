"""Files made from a formula: the raster that the demo submits and the tests check, pixel for pixel, and some fields.

The value of a pixel is a pure function of a seed and of the 32 x 32 block it lies in. So anyone can say what a
tile must show without reading the file, and nearest resampling, which moves a pixel by less than a block's half,
keeps the value at a block's centre exactly. Knows no service.
"""

import json
import random
from pathlib import Path
from typing import Any, Final

CRS: Final = "EPSG:32633"
PIXEL_METRES: Final = 10
BLOCK_PIXELS: Final = 32
SIZE_PIXELS: Final = 4096
# Upper left corner, in the Hohe Tauern: Grossglockner lies inside. A multiple of one block's 320 m.
WEST_METRES: Final = 952 * 320
NORTH_METRES: Final = 16_365 * 320
NODATA: Final = 0
WEDGE_BLOCKS: Final = 8
HIGHEST: Final = 3_900
# Fields in the valley below, in degrees: so many in a row and in a column, each of this side.
FIELDS_WEST: Final = 12.7
FIELDS_SOUTH: Final = 47.0
FIELDS_ACROSS: Final = 10
FIELD_DEGREES: Final = 0.002

# Direction (down, right), half period in blocks and height in metres: three mountain ranges that cross each other.
_RANGES: Final = ((3, 1, 61, 1_700), (-2, 1, 37, 1_300), (1, 5, 83, 900))


def value_at(seed: int, row: int, col: int) -> int:
    """The elevation of one pixel: 1…HIGHEST, or NODATA in the corner wedge."""
    block_row, block_col = row // BLOCK_PIXELS, col // BLOCK_PIXELS
    if block_row + block_col < WEDGE_BLOCKS:
        return NODATA
    return int(_elevation(seed, block_row, block_col))


def _elevation(seed: int, block_row: Any, block_col: Any) -> Any:
    """Compute a block's elevation in whole numbers, the same for one block and for an array of blocks."""
    height: Any = 0
    for number, (down, right, half_period, metres) in enumerate(_RANGES):
        phase = (down * block_row + right * block_col + seed * (7 + 4 * number)) % (2 * half_period)
        height = height + metres * (half_period - abs(phase - half_period)) // half_period
    return height % HIGHEST + 1


def lonlat_of(row: int, col: int) -> tuple[float, float]:
    """Longitude and latitude of a pixel's centre."""
    from rasterio.warp import transform

    east = WEST_METRES + (col + 0.5) * PIXEL_METRES
    north = NORTH_METRES - (row + 0.5) * PIXEL_METRES
    (lon,), (lat,) = transform(CRS, "EPSG:4326", [east], [north])
    return lon, lat


def pick_pixel(seed: int, size: int = SIZE_PIXELS) -> tuple[int, int]:
    """Row and column at the centre of a block that holds data, away from the edges."""
    dice = random.Random(seed)  # noqa: S311 - dice, not secrets
    inner = range(WEDGE_BLOCKS, size // BLOCK_PIXELS - 1)
    row, col = (dice.choice(inner) * BLOCK_PIXELS + BLOCK_PIXELS // 2 for _ in "rc")
    return row, col


def pixels(seed: int, size: int = SIZE_PIXELS) -> Any:
    """The whole raster as a numpy array of uint16."""
    import numpy as np

    blocks = np.arange(-(-size // BLOCK_PIXELS))
    block_rows, block_cols = blocks[:, None], blocks[None, :]
    coarse = _elevation(seed, block_rows, block_cols).astype("uint16")
    coarse[block_rows + block_cols < WEDGE_BLOCKS] = NODATA
    return np.kron(coarse, np.ones((BLOCK_PIXELS, BLOCK_PIXELS), "uint16"))[:size, :size]


def write(path: Path, seed: int, size: int = SIZE_PIXELS) -> None:
    """Write the raster as an ordinary tiled GeoTIFF: good input, not yet cloud-optimised."""
    import rasterio
    from rasterio.transform import from_origin

    transform = from_origin(WEST_METRES, NORTH_METRES, PIXEL_METRES, PIXEL_METRES)
    with rasterio.open(
        path, "w", driver="GTiff", width=size, height=size, count=1, dtype="uint16", crs=CRS, transform=transform,
        nodata=NODATA, tiled=True, blockxsize=256, blockysize=256, compress="deflate",
    ) as raster:  # fmt: skip
        raster.write(pixels(seed, size), 1)
        raster.set_band_description(1, "elevation")
        raster.set_band_unit(1, "metre")


def write_fields(path: Path, seed: int) -> None:
    """Write a hundred square fields as GeoJSON, each with a name and the elevation of a block."""
    places = [(row, col) for row in range(FIELDS_ACROSS) for col in range(FIELDS_ACROSS)]
    features = [_field(seed, number, row, col) for number, (row, col) in enumerate(places, start=1)]
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}, indent=1))


def _field(seed: int, number: int, row: int, col: int) -> dict[str, Any]:
    """A field leaves a path beside it free."""
    west, south = FIELDS_WEST + col * FIELD_DEGREES * 1.2, FIELDS_SOUTH + row * FIELD_DEGREES * 1.2
    east, north = west + FIELD_DEGREES, south + FIELD_DEGREES
    ring = [(west, south), (east, south), (east, north), (west, north), (west, south)]
    corners = [[round(x, 6), round(y, 6)] for x, y in ring]
    elevation = int(_elevation(seed, row + WEDGE_BLOCKS, col))
    return {
        "type": "Feature",
        "properties": {"name": f"Field {number}", "elevation": elevation},
        "geometry": {"type": "Polygon", "coordinates": [corners]},
    }
