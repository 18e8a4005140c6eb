"""Writes the pictures of a product, cell by cell: the raster itself, and each overview from the one before it.

A cell is made in one go, by one of two threads, and is the same whoever makes it: so tiles of whole cells have the
pixels of the whole. Between two cells progress is told and a stop is noticed. Imports rasterio.
"""

import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np
import rasterio
from rasterio.enums import ColorInterp, Resampling
from rasterio.errors import NotGeoreferencedWarning
from rasterio.io import DatasetReader, DatasetWriter
from rasterio.windows import Window

from flows.context import Context
from flows.handlers.raster import choices, grid
from flows.handlers.raster.opening import CACHE_BYTES
from flows.handlers.raster.statistics import Tallies, Tally, stride
from flows.handlers.raster.views import Product

Pixels = np.ndarray[Any, Any]
Cell = tuple[Pixels, Pixels | None]
Reader = Callable[[grid.Place], Cell]
Told = Callable[[float], None]


@dataclass(frozen=True)
class Written:
    """What was seen of the pixels on their way."""

    tallies: Sequence[Tally]
    is_empty: bool


def write(
    path: Path, product: Product, source: DatasetReader, readers: Sequence[Reader], told: Told, context: Context
) -> Written:
    """Write the raster at its full size, by as many threads as there are readers."""
    tallies = Tallies(product.bands.count, stride(product.width, product.height), product.nodata, product.bands.alpha)
    with created(path, product, source, len(readers)) as picture:
        is_empty = _fill(picture, product, readers, told, context, tallies)
    return Written(tallies.each, is_empty)


def write_empty_mask(picture: DatasetWriter) -> None:
    """Give the picture a mask that leaves everything out."""
    nothing = np.zeros(
        (min(picture.height, picture.block_shapes[0][0]), min(picture.width, picture.block_shapes[0][1]))
    )
    picture.write_mask(nothing.astype("uint8"), window=Window(0, 0, nothing.shape[1], nothing.shape[0]))


@contextmanager
def created(path: Path, product: Product, source: DatasetReader, threads: int) -> Iterator[DatasetWriter]:
    """The raster's file with its whole header and no pixels yet."""
    place = {"crs": product.crs, "transform": product.transform, "width": product.width, "height": product.height}
    with _created(path, _profile(product, threads) | place) as picture:
        _describe(source, picture)
        yield picture


def _profile(product: Product, threads: int) -> dict[str, Any]:
    return {
        "driver": "GTiff",
        "count": product.bands.count,
        "dtype": product.bands.dtype,
        "nodata": product.nodata,
        "tiled": True,
        "blockxsize": product.block,
        "blockysize": product.block,
        "interleave": "pixel",
        "compress": product.compression,
        "predictor": choices.predictor(product.bands),
        "num_threads": threads,
        "sparse_ok": True,
        "bigtiff": "if_safer",
        "endianness": "little",
    }


@contextmanager
def _created(path: Path, profile: dict[str, Any]) -> Iterator[DatasetWriter]:
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK="YES", GDAL_CACHEMAX=CACHE_BYTES), warnings.catch_warnings():
        warnings.simplefilter("ignore", NotGeoreferencedWarning)  # overviews lie where their raster lies
        with rasterio.open(path, "w", **profile) as picture:
            yield picture


def _describe(source: DatasetReader, picture: DatasetWriter) -> None:
    """Keep what the bands mean: colours, names, units, scales."""
    _colour(source, picture)
    picture.descriptions, picture.units = source.descriptions, [unit or "" for unit in source.units]
    picture.scales, picture.offsets = source.scales, source.offsets


def _colour(source: DatasetReader, picture: DatasetWriter) -> None:
    picture.colorinterp = source.colorinterp
    if source.colorinterp[0] is ColorInterp.palette:
        picture.write_colormap(1, source.colormap(1))


def _fill(
    picture: DatasetWriter,
    product: Product,
    readers: Sequence[Reader],
    told: Told,
    context: Context,
    tallies: Tallies | None = None,
) -> bool:
    """Copy cell by cell, written in their order, read ahead by the readers; True where all of it is blank."""
    places = list(grid.windows(picture.width, picture.height, product.cell))
    is_empty = True
    for number, (place, (pixels, mask)) in enumerate(_ahead(readers, places), start=1):
        context.raise_if_stopping()
        is_blank = _is_blank(pixels, product.nodata)
        if not is_blank:
            picture.write(pixels, window=Window(*place))
        if mask is not None and (mask.any() or number == 1):  # one write makes the mask, however empty
            picture.write_mask(mask, window=Window(*place))
        if tallies:
            tallies.add(pixels, mask)
        is_empty = is_empty and (is_blank if mask is None else not mask.any())
        told(number / len(places))
    return is_empty


def _is_blank(pixels: Pixels, nodata: float | None) -> bool:
    """True where a block that is not stored reads the same."""
    nothing = nodata or 0
    return bool(pixels.flat[0] == nothing) and bool((pixels == nothing).all())


def _ahead(readers: Sequence[Reader], places: Sequence[grid.Place]) -> Iterator[tuple[grid.Place, Cell]]:
    """Each place and what is there, in order; as many are read at once as there are readers."""
    idle: SimpleQueue[Reader] = SimpleQueue()
    for reader in readers:
        idle.put(reader)

    def read(place: grid.Place) -> Cell:
        reader = idle.get()
        try:
            return reader(place)
        finally:
            idle.put(reader)

    waiting: deque[tuple[grid.Place, Future[Cell]]] = deque()
    with ThreadPoolExecutor(len(readers), "cell") as pool:
        try:
            for place in places:
                waiting.append((place, pool.submit(read, place)))
                if len(waiting) > len(readers):
                    yield _taken(waiting)
            while waiting:
                yield _taken(waiting)
        finally:
            pool.shutdown(cancel_futures=True)


def _taken(waiting: deque[tuple[grid.Place, Future[Cell]]]) -> tuple[grid.Place, Cell]:
    place, future = waiting.popleft()
    return place, future.result()


def write_overviews(raster: Path, product: Product, threads: int, told: Told, context: Context) -> list[Path]:
    """Write each overview from the picture before it, and return their files, the largest first."""
    paths, sizes = [raster], list(_sizes(product))
    whole, done = sum(width * height for width, height in sizes), 0.0
    for number, (width, height) in enumerate(sizes, start=1):
        share = width * height / whole
        paths.append(raster.with_name(f"{raster.stem}-{number}{raster.suffix}"))
        _halve(paths[-2], paths[-1], product, threads, _part(told, done, share), context)
        done += share
    return paths[1:]


def _part(told: Told, begin: float, share: float) -> Told:
    return lambda fraction: told(begin + share * fraction)


def _sizes(product: Product) -> Iterator[tuple[int, int]]:
    width, height = product.width, product.height
    for _ in choices.factors(width, height, product.block):
        width, height = choices.halved(width, height)
        yield width, height


def _halve(larger: Path, smaller: Path, product: Product, threads: int, told: Told, context: Context) -> None:
    resampling = Resampling[product.overview_resampling]
    with ExitStack() as held:
        sources = [held.enter_context(_opened(larger)) for _ in range(threads)]
        width, height = choices.halved(sources[0].width, sources[0].height)
        picture = held.enter_context(_created(smaller, _profile(product, threads) | {"width": width, "height": height}))
        _colour(sources[0], picture)
        readers = [_halving(source, resampling, masked=product.needs_mask) for source in sources]
        _fill(picture, product, readers, told, context)


@contextmanager
def _opened(path: Path) -> Iterator[DatasetReader]:
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
