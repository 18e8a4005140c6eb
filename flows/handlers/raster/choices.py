"""Chooses a product's options where its sender leaves them to us. Pure: knows no file and no library."""

from dataclasses import dataclass
from typing import Final

from flows.handlers.raster import grid

FAT_BLOCK_BYTES: Final = 8 * 1024**2
SMALLEST_BLOCK: Final = 64
# Pixels a side: what the strict check of rio-cogeo lets pass without overviews, and in blocks as wide as the picture.
LARGEST_PLAIN: Final = 512
CELL_BYTES: Final = 16 * 1024**2
LARGEST_CELL: Final = 2048
# Beside its pixels a try holds libraries, GDAL's cache and what is being compressed.
BASE_BYTES: Final = 512 * 1024**2
_COLOURS: Final = {"red", "green", "blue", "cyan", "magenta", "yellow"}


@dataclass(frozen=True)
class Bands:
    """What the header tells of a raster's bands."""

    count: int
    dtype: str
    meanings: tuple[str, ...]

    @property
    def has_palette(self) -> bool:
        return "palette" in self.meanings

    @property
    def alpha(self) -> int | None:
        """The index of the band that says which pixels count."""
        return self.meanings.index("alpha") if "alpha" in self.meanings else None

    @property
    def is_picture(self) -> bool:
        """True for a picture in colours: amounts of light."""
        return self.dtype in {"uint8", "uint16"} and len(_COLOURS.intersection(self.meanings)) >= 3

    @property
    def is_measured(self) -> bool:
        """True where values between two values mean something: pictures and fractions. Whole numbers may be names."""
        return not self.has_palette and (self.is_picture or self.dtype.startswith("float"))


def resampling(given: str | None, bands: Bands) -> str:
    """How pixels get their value: the colours of a palette are names, and nothing lies between two names."""
    if bands.has_palette:
        return given if given == "mode" else "nearest"
    return given or ("bilinear" if bands.is_measured else "nearest")


def overview_resampling(given: str | None, bands: Bands) -> str:
    """Return how overviews get their pixels."""
    if bands.has_palette:
        return given if given == "mode" else "nearest"
    return given or ("average" if bands.is_measured else "nearest")


def predictor(bands: Bands) -> int:
    """Neighbouring amounts differ by little, so their differences pack well; bytes and names gain nothing."""
    if bands.has_palette or bands.dtype in {"uint8", "int8"}:
        return 1
    return 3 if bands.dtype.startswith("float") else 2


def block_side(given: int | None, bands: Bands) -> int:
    """The side of a block in pixels: the usual one, smaller where many bands would make blocks fat."""
    side = given or grid.BLOCK_PIXELS
    while side > SMALLEST_BLOCK and grid.decoded_bytes(side, side, bands.count, bands.dtype) > FAT_BLOCK_BYTES:
        side //= 2
    return side


def cell_side(block: int, bands: Bands) -> int:
    """The side of the square that is made in one go, the same on every route: blocks, doubled while it stays small."""
    side = block
    while side * 2 <= LARGEST_CELL and grid.decoded_bytes(side * 2, side * 2, bands.count, bands.dtype) <= CELL_BYTES:
        side *= 2
    return side


def block_sides(width: int, height: int, block: int) -> list[int]:
    """The side of the blocks of each picture, the largest first."""
    sizes = [halved(width, height, number) for number in range(len(factors(width, height, block)) + 1)]
    return [_block_side_in(*size, block) for size in sizes]


def _block_side_in(width: int, height: int, block: int) -> int:
    """The usual side, half of it where one block would be exactly as wide as the picture.

    Readers that do not look at the tags take such blocks for strips; rio-cogeo's check is one of them.
    """
    return block // 2 if width == block and max(width, height) > LARGEST_PLAIN else block


def factors(width: int, height: int, block: int) -> list[int]:
    """How many times smaller each overview is: halves, until one block holds it all, and no side is long.

    None of what is one pixel wide: readers tell by the width how many times smaller an overview is.
    """
    found, factor = list[int](), 2
    while width > 1 and max(width, height) > min(block, LARGEST_PLAIN) * (factor // 2):
        found.append(factor)
        factor *= 2
    return found


def halved(width: int, height: int, times: int = 1) -> tuple[int, int]:
    """The size of the next overview, or of one further on."""
    return -(-width // 2**times), -(-height // 2**times)


def overviews_of_cells(cell: int, block: int) -> int:
    """How many overviews have whole blocks of every cell, so that they can be made with it."""
    return (cell // block).bit_length() - 1


def memory_bytes(cell: int, bands: Bands, threads: int) -> int:
    """What making a product takes at most: cells being read, waiting and written, whatever the raster's size."""
    return BASE_BYTES + (2 * threads + 3) * grid.decoded_bytes(cell, cell, bands.count + 1, bands.dtype)
