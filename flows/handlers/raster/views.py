"""Reads the source as its product will have it: in the target's CRS, on its grid. Imports rasterio."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from affine import Affine
from rasterio.crs import CRS
from rasterio.enums import Resampling
from rasterio.io import DatasetReader
from rasterio.vrt import WarpedVRT
from rasterio.windows import Window

from flows.handlers.context import Context
from flows.handlers.errors import InvalidInput
from flows.handlers.raster import choices, grid
from flows.handlers.raster.declarations import MakingParams
from flows.handlers.raster.inspect import (
    MAX_DECODED_BYTES,
    bounds_wgs84,
    crs_of,
    has_mask_beside,
    has_own_mask,
    known_crs,
    opened,
)
from flows.handlers.raster.opening import GDAL_ERRORS

Pixels = np.ndarray[Any, Any]

WARP_MEMORY_MB = 64
EXACT_INTEGERS = 2**53
WEB_MERCATOR = "EPSG:3857"
# Degrees counted from the antimeridian: what lies across it is one piece there.
_FROM_ANTIMERIDIAN = "+proj=longlat +datum=WGS84 +pm=180 +no_defs"
_HALF_TURN = 180.0


@dataclass(frozen=True)
class ProductHeader:
    """What the header of the product will say. The same source and parameters give the same, in every process."""

    crs: str
    width: int
    height: int
    transform: Affine
    bands: choices.Bands
    nodata: float | None
    needs_mask: bool
    folds_mask: bool
    """The source has a mask beside its nodata value: the product has nodata where either leaves out."""
    hidden: float | None
    """The nodata value of a source with an alpha band: the product has no other word for it than that band."""
    is_warped: bool
    block: int
    cell: int
    compression: str
    resampling: str
    overview_resampling: str

    @property
    def size_bytes(self) -> int:
        """What all its pixels take once they are unpacked."""
        return grid.decoded_bytes(self.width, self.height, self.bands.count, self.bands.dtype)

    @property
    def overviews(self) -> int:
        """How many smaller pictures there are."""
        return len(choices.factors(self.width, self.height, self.block))

    @property
    def block_sides(self) -> list[int]:
        """The side of the blocks of each picture, the largest first."""
        return choices.block_sides(self.width, self.height, self.block)

    @property
    def overviews_of_cells(self) -> int:
        """How many of them are made with the cells: those that are every second pixel of the one before."""
        if self.overview_resampling != "nearest":
            return 0
        return min(self.overviews, choices.overviews_of_cells(self.cell, self.block))

    def part(self, column: int, row: int, width: int, height: int) -> "ProductHeader":
        """The product that covers only a window of this one."""
        moved = self.transform @ Affine.translation(column, row)
        return replace(self, transform=moved, width=width, height=height)


@dataclass
class View:
    """The source on the product's grid, for one thread at a time."""

    source: DatasetReader
    seen: Any
    product: ProductHeader
    name: str

    def read(self, place: grid.Place) -> tuple[Pixels, Pixels | None]:
        """The pixels of a window and, where the product needs one, their mask."""
        window = Window(*place)
        try:
            if self.product.folds_mask and not self.product.is_warped:
                return folded_pixels(self.source, self.product, window), None
            if not self.product.needs_mask:
                return self._exact(self.seen.read(self.source.indexes, window=window)), None
            if not self.product.is_warped:
                return self.seen.read(window=window), self.seen.dataset_mask(window=window)
            both = self.seen.read(window=window)
        except GDAL_ERRORS:
            raise InvalidInput(
                f"Some pixels of {self.name!r} cannot be unpacked: the file is damaged. "
                "Write it anew and send it again."
            ) from None
        return self._exact(both[:-1]), np.where(both[-1] > 0, 255, 0).astype("uint8")

    def _exact(self, pixels: Pixels) -> Pixels:
        return self._hide_nodata_colours(self._refuse_rounded(pixels))

    def _hide_nodata_colours(self, pixels: Pixels) -> Pixels:
        """Make pixels transparent whose colours are all nodata, so that alpha and nodata agree."""
        hidden, alpha = self.product.hidden, self.product.bands.alpha
        if hidden is not None and alpha is not None:
            colours = np.delete(pixels, alpha, axis=0)
            pixels[alpha][(np.isnan(colours) if math.isnan(hidden) else colours == hidden).all(axis=0)] = 0
        return pixels

    def _refuse_rounded(self, pixels: Pixels) -> Pixels:
        """Refuse whole numbers that reprojection may have rounded: it calculates exactly below 2⁵³ only."""
        is_long = self.product.is_warped and pixels.dtype in ("int64", "uint64")
        if is_long and max(int(pixels.max()), -int(pixels.min())) >= EXACT_INTEGERS:  # may have been rounded to it
            raise InvalidInput(
                f"{self.name!r} holds whole numbers of {EXACT_INTEGERS:,} or more, which reprojection would change. "
                "Send it in its target CRS, or as smaller numbers."
            )
        return pixels


def folded_pixels(source: DatasetReader, product: ProductHeader, window: Window) -> Pixels:
    """The source's own pixels, nodata where its mask leaves out."""
    pixels: Pixels = source.read(window=window)
    pixels[:, source.dataset_mask(window=window) == 0] = product.nodata
    return pixels


@contextmanager
def viewed(params: MakingParams, context: Context) -> Iterator[View]:
    """Open the source and look at it on its product's grid."""
    with opened(params.source, context) as source:
        product = planned(source, params)
        with _open_view(source, product, params) as seen:
            yield View(source, seen, product, params.source)


def planned(source: DatasetReader, params: MakingParams) -> ProductHeader:
    """Decide all about the product from the source's header."""
    crs, target = crs_of(source, params.source_crs, params.source), known_crs(params.target_crs)
    bands = choices.Bands(source.count, source.dtypes[0], tuple(meaning.name for meaning in source.colorinterp))
    stays = crs == target and not source.gcps[0] and grid.is_north_up(source.transform[:6]) and not params.web_optimised
    named = grid.usable_nodata(source.nodata, bands.dtype)
    nodata = named if bands.alpha is None else None
    block = choices.block_side(params.block_size, bands)
    if stays:
        width, height, transform = source.width, source.height, source.transform
    else:
        width, height, transform = _target_grid(source, crs, target, params, block)
    product = ProductHeader(
        crs=params.target_crs,
        width=width,
        height=height,
        transform=transform,
        bands=bands,
        nodata=nodata,
        needs_mask=nodata is None and bands.alpha is None and (not stays or has_own_mask(source)),
        folds_mask=nodata is not None and has_mask_beside(source),
        hidden=named if bands.alpha is not None else None,
        is_warped=not stays,
        block=block,
        cell=choices.cell_side(block, bands),
        compression=params.compression,
        resampling=choices.resampling(params.resampling, bands),
        overview_resampling=choices.overview_resampling(params.overview_resampling, bands),
    )
    if product.width == 1 and product.height > choices.LARGEST_PLAIN:
        raise InvalidInput(
            f"{params.source!r} would be one pixel wide and {product.height:,} high, a strip that can have no "
            "overviews. Send it with neighbouring columns."
        )
    if product.size_bytes > MAX_DECODED_BYTES:
        raise InvalidInput(
            f"{params.source!r} would grow to {product.size_bytes:,} bytes of pixels in {params.target_crs}; "
            f"the limit is {MAX_DECODED_BYTES:,}. Choose another target CRS."
        )
    return product


def _target_grid(
    source: DatasetReader, crs: CRS, target: CRS, params: MakingParams, block: int
) -> tuple[int, int, Affine]:
    """The product's size and place: pixels about as large as the source's, north up."""
    if params.web_optimised and source.gcps[0]:
        raise InvalidInput(
            f"{params.source!r} is placed by control points, which fits no web map's grid. "
            "Send it without `web_optimised`."
        )
    shift = _HALF_TURN if target.is_geographic and _crosses_antimeridian(source, crs, params.source) else 0.0
    wanted = CRS.from_string(_FROM_ANTIMERIDIAN) if shift else target
    try:
        with WarpedVRT(source, src_crs=crs, crs=wanted) as natural:
            width, height, transform = natural.width, natural.height, natural.transform
    except GDAL_ERRORS:
        raise _outside(params) from None
    if not (width and height):
        raise _outside(params)
    transform = Affine.translation(shift, 0) @ transform
    if params.web_optimised:
        return _on_web_grid(transform, width, height, block, params)
    return width, height, transform


def _on_web_grid(
    transform: Affine, width: int, height: int, block: int, params: MakingParams
) -> tuple[int, int, Affine]:
    if params.target_crs != WEB_MERCATOR:
        raise InvalidInput(f"`web_optimised` needs `target_crs` {WEB_MERCATOR}, the CRS of web maps.")
    column, row, width, height, metres = grid.on_web_grid(transform[:6], width, height, block)
    west, north = column * metres - grid.WEB_EDGE_METRES, grid.WEB_EDGE_METRES - row * metres
    return width, height, Affine(metres, 0, west, 0, -metres, north)


def _crosses_antimeridian(source: DatasetReader, crs: CRS, name: str) -> bool:
    if source.gcps[0]:
        return False
    west, _, east, _ = bounds_wgs84(crs, grid.bounds(source.transform[:6], source.width, source.height), name)
    return west > east


def _outside(params: MakingParams) -> InvalidInput:
    return InvalidInput(f"{params.source!r} cannot be reprojected to {params.target_crs}: it lies outside of it.")


@contextmanager
def _open_view(source: DatasetReader, product: ProductHeader, params: MakingParams) -> Iterator[Any]:
    """Return the source itself where nothing moves, else a warped view of it."""
    if not product.is_warped:
        yield source
        return
    asked: dict[str, Any] = {"add_alpha": product.needs_mask}
    if product.nodata is not None:
        # By itself, rasterio has a pixel count in all bands that counts in one: nodata of the others become a value.
        asked = {"nodata": product.nodata, "src_nodata": product.nodata, "UNIFIED_SRC_NODATA": "NO"}
    if not source.gcps[0]:  # control points are only looked at where the grid is left to the library
        asked |= {"transform": product.transform, "width": product.width, "height": product.height}
    try:
        view = WarpedVRT(
            source,
            src_crs=crs_of(source, params.source_crs, params.source),
            crs=known_crs(product.crs),
            resampling=Resampling[product.resampling],
            warp_mem_limit=WARP_MEMORY_MB,
            **asked,
        )
    except GDAL_ERRORS:
        raise _outside(params) from None
    with view:
        yield view
