"""Decides whether a raster is cut into tiles, and where. Pure arithmetic: knows no file and no library."""

from dataclasses import dataclass
from typing import Final

from flows.handlers.raster import grid

MOST_TILES: Final = 10_000
_MEGABYTE: Final = 1024**2


@dataclass(frozen=True)
class TilingDecision:
    """Which way a raster takes, and the sentence that says why."""

    is_tiled: bool
    reason: str


def decide(decoded_bytes: int, limit_bytes: int, tile_count: int) -> TilingDecision:
    """A raster whose pixels exceed the limit is shared among processes, if there is anything to share."""
    size, limit = f"{decoded_bytes / _MEGABYTE:,.0f} MB of pixels", f"the limit of {limit_bytes / _MEGABYTE:,.0f} MB"
    if decoded_bytes <= limit_bytes:
        return TilingDecision(False, f"{size} are within {limit}.")
    if tile_count == 1:
        return TilingDecision(False, f"{size} exceed {limit}, but all of them fit into one tile.")
    return TilingDecision(True, f"{size} exceed {limit}: {tile_count:,} tiles share them.")


def side(tile_pixels: int, cell: int) -> int:
    """The side of a tile in whole cells, so that each cell is made by one tile, as the direct route makes it."""
    return -(-tile_pixels // cell) * cell


def places(width: int, height: int, tile_side: int) -> list[grid.Place]:
    """Where the tiles lie, row by row."""
    last = (_columns(width, tile_side) - 1) * tile_side
    return [
        (column, row, width - last if column == last else across, down)
        for column, row, across, down in grid.windows(width, height, tile_side)
        if column <= last
    ]


def count(width: int, height: int, tile_side: int) -> int:
    """How many tiles there would be."""
    return _columns(width, tile_side) * -(-height // tile_side)


def _columns(width: int, tile_side: int) -> int:
    """Count the tiles side by side. A last strip of one pixel, which can have no overviews, joins its neighbour."""
    return max(1, -(-(width - 1) // tile_side))


def name(place: grid.Place, tile_side: int) -> str:
    """Row and column of the tile."""
    return f"{place[1] // tile_side}_{place[0] // tile_side}"
