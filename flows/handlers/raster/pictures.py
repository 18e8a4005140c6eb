"""Writes the pictures of a product, cell by cell: the raster itself, and the overviews that are some of its pixels.

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
from rasterio.enums import ColorInterp
from rasterio.errors import NotGeoreferencedWarning
from rasterio.io import DatasetReader, DatasetWriter
from rasterio.windows import Window

from flows.handlers.context import Context
from flows.handlers.raster import choices, grid
from flows.handlers.raster.opening import CACHE_BYTES
from flows.handlers.raster.statistics import BandTally, Tallies, sampling, stride
from flows.handlers.raster.views import ProductHeader

Pixels = np.ndarray[Any, Any]
Cell = tuple[Pixels, Pixels | None]
Reader = Callable[[grid.Place], Cell]
Told = Callable[[float], None]


@dataclass(frozen=True)
class Written:
    """The files of the pictures, the largest first, and what was seen of the pixels on their way."""

    paths: Sequence[Path]
    tallies: Sequence[BandTally]
    is_empty: bool


def write(
    paths: Sequence[Path],
    product: ProductHeader,
    block_sides: Sequence[int],
    source: DatasetReader,
    readers: Sequence[Reader],
    told: Told,
    context: Context,
) -> Written:
    """Write the raster and the overviews that come with it, by as many threads as there are readers."""
    step = stride(product.width, product.height)
    every = sampling(product.width * product.height // step**2)
    tallies = Tallies(product.bands.count, step, product.nodata, product.bands.alpha, every)
    with created(paths, product, block_sides, source, len(readers)) as pictures:
        is_empty = fill(pictures, product, readers, told, context, tallies)
    return Written(paths, tallies.each, is_empty)


def write_empty_mask(picture: DatasetWriter) -> None:
    """Give the picture a mask that leaves everything out."""
    nothing = np.zeros(
        (min(picture.height, picture.block_shapes[0][0]), min(picture.width, picture.block_shapes[0][1]))
    )
    picture.write_mask(nothing.astype("uint8"), window=Window(0, 0, nothing.shape[1], nothing.shape[0]))


def path_of(raster: Path, overview: int) -> Path:
    """Where an overview goes, beside its raster; the raster itself is number 0."""
    return raster.with_name(f"{raster.stem}-{overview}{raster.suffix}") if overview else raster


@contextmanager
def created(
    paths: Sequence[Path], product: ProductHeader, block_sides: Sequence[int], source: DatasetReader, threads: int
) -> Iterator[list[DatasetWriter]]:
    """The files of the raster and its first overviews with their whole headers and no pixels yet.

    The sides of blocks are those of the whole where the product is a part, whose blocks are moved into the whole.
    """
    with ExitStack() as held:
        profile = _profile(product, block_sides[0], threads)
        raster = held.enter_context(_created_raster(paths[0], product, source, profile))
        overviews = [
            held.enter_context(created_overview(path, product, number, block_sides[number], source, threads))
            for number, path in enumerate(paths[1:], start=1)
        ]
        yield [raster, *overviews]


@contextmanager
def _created_raster(
    path: Path, product: ProductHeader, source: DatasetReader, profile: dict[str, Any]
) -> Iterator[DatasetWriter]:
    place = {"crs": product.crs, "transform": product.transform, "width": product.width, "height": product.height}
    with _created(path, profile | place) as picture:
        describe(source, picture)
        yield picture


@contextmanager
def created_overview(
    path: Path, product: ProductHeader, number: int, block_side: int, larger: DatasetReader, threads: int
) -> Iterator[DatasetWriter]:
    """The file of a smaller picture, by its number: it has no place of its own."""
    width, height = choices.halved(product.width, product.height, number)
    with _created(path, _profile(product, block_side, threads) | {"width": width, "height": height}) as picture:
        _colour(larger, picture)
        yield picture


def _profile(product: ProductHeader, block_side: int, threads: int) -> dict[str, Any]:
    return {
        "driver": "GTiff",
        "count": product.bands.count,
        "dtype": product.bands.dtype,
        "nodata": product.nodata,
        "tiled": True,
        "blockxsize": block_side,
        "blockysize": block_side,
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


def describe(source: DatasetReader, picture: DatasetWriter) -> None:
    """Keep what the bands mean: colours, names, units, scales."""
    _colour(source, picture)
    picture.descriptions, picture.units = source.descriptions, [unit or "" for unit in source.units]
    picture.scales, picture.offsets = source.scales, source.offsets


def _colour(source: DatasetReader, picture: DatasetWriter) -> None:
    picture.colorinterp = source.colorinterp
    if source.colorinterp[0] is ColorInterp.palette:
        picture.write_colormap(1, source.colormap(1))


def fill(
    pictures: Sequence[DatasetWriter],
    product: ProductHeader,
    readers: Sequence[Reader],
    told: Told,
    context: Context,
    tallies: Tallies | None = None,
) -> bool:
    """Write cell by cell in their order, read ahead by the readers; True where all of it is blank."""
    places = list(grid.windows(pictures[0].width, pictures[0].height, product.cell))
    is_empty = True
    for number, (place, cell) in enumerate(_read_ahead(readers, places), start=1):
        context.raise_if_stopping()
        if tallies:
            tallies.add(*cell)
        is_empty = _is_nothing(cell, product.nodata) and is_empty
        _write_cell(pictures, place, cell, product.nodata, is_first=number == 1)
        told(number / len(places))
    return is_empty


def _is_nothing(cell: Cell, nodata: float | None) -> bool:
    pixels, mask = cell
    return _is_blank(pixels, nodata) if mask is None else not mask.any()


def _write_cell(
    pictures: Sequence[DatasetWriter], place: grid.Place, cell: Cell, nodata: float | None, *, is_first: bool
) -> None:
    """Write the cell into the first picture, every second pixel of it into the next, and so on."""
    (column, row, width, height), (pixels, mask) = place, cell
    for level, picture in enumerate(pictures):
        window = Window(column >> level, row >> level, *choices.halved(width, height, level))
        step = slice(None, None, 2**level)
        some = pixels[:, step, step]
        if not _is_blank(some, nodata):
            picture.write(some, window=window)
        if mask is not None and (is_first or mask[step, step].any()):  # one write makes the mask, however empty
            picture.write_mask(mask[step, step], window=window)


def _is_blank(pixels: Pixels, nodata: float | None) -> bool:
    """True where a block that is not stored reads the same."""
    nothing = nodata or 0
    return bool(pixels.flat[0] == nothing) and bool((pixels == nothing).all())


def _read_ahead(readers: Sequence[Reader], places: Sequence[grid.Place]) -> Iterator[tuple[grid.Place, Cell]]:
    """Yield each place with its pixels in order, reading as many at once as there are readers."""
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
                    yield _next_result(waiting)
            while waiting:
                yield _next_result(waiting)
        finally:
            pool.shutdown(cancel_futures=True)


def _next_result(waiting: deque[tuple[grid.Place, Future[Cell]]]) -> tuple[grid.Place, Cell]:
    place, future = waiting.popleft()
    return place, future.result()
