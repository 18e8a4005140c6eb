"""Makes the overviews that do not come with the cells, each from the picture before it. Imports rasterio."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import rasterio
from rasterio.enums import Resampling
from rasterio.errors import NotGeoreferencedWarning
from rasterio.io import DatasetReader
from rasterio.windows import Window

from flows.handlers.context import Context
from flows.handlers.raster import choices, grid
from flows.handlers.raster.pictures import Cell, Reader, Told, created_overview, fill, path_of
from flows.handlers.raster.views import ProductHeader


def complete(paths: Sequence[Path], product: ProductHeader, threads: int, told: Told, context: Context) -> list[Path]:
    """Write the overviews that are missing, and return the files of all pictures, the largest first."""
    pictures = list(paths)
    sizes = [choices.halved(product.width, product.height, number) for number in range(product.overviews + 1)]
    whole, done = sum(width * height for width, height in sizes[len(paths) :]), 0.0
    for number in range(len(paths), len(sizes)):
        width, height = sizes[number]
        share = width * height / whole
        pictures.append(path_of(pictures[0], number))
        _halve(pictures[-2], pictures[-1], product, number, threads, _reporting_share(told, done, share), context)
        done += share
    return pictures


def _reporting_share(told: Told, begin: float, share: float) -> Told:
    return lambda fraction: told(begin + share * fraction)


def _halve(
    larger: Path, smaller: Path, product: ProductHeader, number: int, threads: int, told: Told, context: Context
) -> None:
    resampling, side = Resampling[product.overview_resampling], product.block_sides[number]
    with ExitStack() as held:
        sources = [held.enter_context(_open_picture(larger)) for _ in range(threads)]
        picture = held.enter_context(created_overview(smaller, product, number, side, sources[0], threads))
        readers = [_halving(source, resampling, masked=product.needs_mask) for source in sources]
        fill([picture], product, readers, told, context)


@contextmanager
def _open_picture(path: Path) -> Iterator[DatasetReader]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotGeoreferencedWarning)
        with rasterio.open(path, driver="GTiff", sharing=False) as picture:
            yield picture


def _halving(source: DatasetReader, resampling: Resampling, *, masked: bool) -> Reader:
    """Reads what one cell of the overview is made of, at half its size."""

    def read(place: grid.Place) -> Cell:
        column, row, width, height = place
        columns, rows = min(2 * width, source.width - 2 * column), min(2 * height, source.height - 2 * row)
        twice = Window(2 * column, 2 * row, columns, rows)
        if resampling is Resampling.nearest:
            pixels = source.read(window=twice)[:, ::2, ::2]
            return pixels, source.dataset_mask(window=twice)[::2, ::2] if masked else None
        pixels = source.read(window=twice, out_shape=(source.count, height, width), resampling=resampling)
        if not masked:
            return pixels, None
        share = source.dataset_mask(window=twice, out_shape=(height, width), resampling=Resampling.average)
        return pixels, np.where(share > 0, 255, 0).astype("uint8")

    return read
