"""Makes a copy of a raster that marks gaps in one way, where the source has both a mask and a nodata value.

A pixel counts where both let it through. GDAL's warper looks at the nodata value alone, and what the mask leaves out
would come back, also by interpolation. So what is to be reprojected is first copied with nodata where the mask leaves
out: on the source's own grid, so that every tile is made as the whole is. Imports rasterio.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import rasterio
from affine import Affine
from rasterio.crs import CRS
from rasterio.io import DatasetReader
from rasterio.warp import transform
from rasterio.windows import Window

from flows.handlers.context import Context
from flows.handlers.raster import grid
from flows.handlers.raster.opening import CACHE_BYTES, GDAL_ERRORS
from flows.handlers.raster.pictures import describe
from flows.handlers.raster.views import ProductHeader, View, folded_pixels
from flows.storage import LocalStore

FOLDER: Final = "folded"
BLOCKS_AT_ONCE: Final = 4
# How the place of a tile is found in the source: by so many points a side, and with so much around them.
POINTS: Final = 33
MARGIN_PIXELS, MARGIN_SHARE = 64, 0.1
_HALF_TURN: Final = 180.0

Box = tuple[float, float, float, float]
Ordinates = npt.NDArray[np.float64]


def folded(view: View, place: grid.Place, crs: CRS, context: Context) -> Context:
    """Return the context in which the source has nodata where its mask hides pixels, as far as the place needs it."""
    own = LocalStore(context.workdir / FOLDER)
    path = own.root / view.name
    path.parent.mkdir(parents=True, exist_ok=True)
    _write(path, view.source, view.product, _needed(view.source, view.product, place, crs), context)
    return replace(context, storage=replace(context.storage, bronze=own))


def _write(path: Path, source: DatasetReader, product: ProductHeader, needed: Box | None, context: Context) -> None:
    with (
        rasterio.Env(GDAL_CACHEMAX=CACHE_BYTES),
        rasterio.open(path, "w", **_profile(source, product), **_placement(source)) as copy,
    ):
        describe(source, copy)
        for window in _windows(source, product.block * BLOCKS_AT_ONCE, needed):
            context.raise_if_stopping()
            copy.write(folded_pixels(source, product, window), window=window)


def _profile(source: DatasetReader, product: ProductHeader) -> dict[str, Any]:
    return {
        "driver": "GTiff",
        "width": source.width,
        "height": source.height,
        "count": source.count,
        "dtype": product.bands.dtype,
        "nodata": product.nodata,
        "tiled": True,
        "blockxsize": product.block,
        "blockysize": product.block,
        "interleave": "pixel",
        "compress": "zstd",
        "zstd_level": 1,
        "sparse_ok": True,
        "bigtiff": "if_safer",
    }


def _placement(source: DatasetReader) -> dict[str, Any]:
    """Return the source's placement; a CRS that was given beside the file is given beside the copy again."""
    points, crs = source.gcps
    return {"gcps": points, "crs": crs} if points else {"transform": source.transform, "crs": source.crs}


def _windows(source: DatasetReader, side: int, needed: Box | None) -> Iterator[Window]:
    """The windows of the source that are needed, block by block."""
    for column, row, width, height in grid.windows(source.width, source.height, side):
        if needed is None or _intersect((column, row, column + width, row + height), needed):
            yield Window(column, row, width, height)


def _intersect(one: Box, other: Box) -> bool:
    return one[0] <= other[2] and other[0] <= one[2] and one[1] <= other[3] and other[1] <= one[3]


def _needed(source: DatasetReader, product: ProductHeader, place: grid.Place, crs: CRS) -> Box | None:
    """Return the part of the source, in its pixels, that a place of the product needs; None for all of it."""
    if source.gcps[0] or place[2:] == (product.width, product.height):
        return None
    xs, ys = _points(product.part(*place))
    try:
        there = transform(CRS.from_string(product.crs), crs, xs, ys)
    except GDAL_ERRORS:
        return None
    if (
        not np.isfinite(there).all()
        or _may_turn(product.crs, xs)
        or (crs.is_geographic and _reach_beyond_half_turn(there[0]))
    ):
        return None
    columns, rows = _transformed(~source.transform, np.asarray(there[0]), np.asarray(there[1]))
    return _widened(columns.min(), rows.min(), columns.max(), rows.max())


def _points(part: ProductHeader) -> tuple[list[float], list[float]]:
    """A grid of points over the part, its edges included."""
    shares = np.linspace(0, 1, POINTS)
    columns, rows = np.meshgrid(shares * part.width, shares * part.height)
    xs, ys = _transformed(part.transform, columns.ravel(), rows.ravel())
    return xs.tolist(), ys.tolist()


def _transformed(place: Affine, xs: Ordinates, ys: Ordinates) -> tuple[Ordinates, Ordinates]:
    return place.a * xs + place.b * ys + place.c, place.d * xs + place.e * ys + place.f


def _may_turn(crs: str, xs: list[float]) -> bool:
    """Whether longitudes run past the antimeridian, where the same place has two of them."""
    return CRS.from_string(crs).is_geographic and _reach_beyond_half_turn(xs)


def _reach_beyond_half_turn(longitudes: list[float]) -> bool:
    return max(map(abs, longitudes)) >= _HALF_TURN


def _widened(west: float, north: float, east: float, south: float) -> Box:
    across, down = MARGIN_PIXELS + MARGIN_SHARE * (east - west), MARGIN_PIXELS + MARGIN_SHARE * (south - north)
    return west - across, north - down, east + across, south + down
