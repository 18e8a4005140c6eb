"""Makes one cloud-optimised GeoTIFF. One of the few files that import rasterio.

Two passes, measured against one: the warp goes window by window into a plain file beside the product, where progress
is known and a stop is noticed; GDAL's COG driver then compresses that file. Handing the warp itself to the driver
takes as long, because it warps again for the overviews, in three times the memory, and cannot be stopped.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
import rasterio
import rasterio.shutil
from rasterio.crs import CRS
from rasterio.enums import ColorInterp, Resampling
from rasterio.errors import CRSError, RasterioError
from rasterio.io import DatasetReader, DatasetWriter
from rasterio.vrt import WarpedVRT
from rasterio.windows import Window
from rio_cogeo.cogeo import cog_validate

from domain.contracts.artifacts import Artifact
from flows.context import Context
from flows.errors import HandlerError, InvalidInput
from flows.handlers.raster import grid
from flows.handlers.raster.declarations import BandStatistics, CogResult, CreateCogParams
from flows.handlers.raster.inspect import (
    MAX_DECODED_BYTES,
    bounds_wgs84,
    crs_of,
    has_own_mask,
    known_crs,
    opened,
    sha256_of,
)

MEDIA_TYPE: Final = "image/tiff; application=geotiff; profile=cloud-optimized"
WINDOW_BYTES: Final = 128 * 1024**2
THREADS: Final = 2
# Statistics come from a picture of the product no longer than this, which its overviews give without a full read.
STATISTICS_PIXELS: Final = 1024


def create(params: CreateCogParams, context: Context) -> CogResult:
    """Reproject and optimise the source, check the product strictly, and put it into the silver zone."""
    plain, product = context.workdir / "plain.tif", context.workdir / "cog.tif"
    try:
        with opened(params.source, context) as source:
            _write_plain(source, params, plain, context)
            context.raise_if_stopping()
            context.progress(0.6, "compressing")
            _compress(plain, product, params)
    finally:
        plain.unlink(missing_ok=True)
    context.raise_if_stopping()
    context.progress(0.9, "checking")
    valid, errors, _ = cog_validate(product, strict=True, quiet=True)
    if not valid:
        raise HandlerError(f"The product is not a valid cloud-optimised GeoTIFF: {'; '.join(errors)}")
    return _kept(product, params, context)


def _write_plain(source: DatasetReader, params: CreateCogParams, path: Path, context: Context) -> None:
    """Write every pixel of the product, at full size, uncompressed."""
    with _north_up(source, params) as view:
        size_bytes = grid.decoded_bytes(view.width, view.height, source.count, source.dtypes[0])
        if size_bytes > MAX_DECODED_BYTES:
            raise InvalidInput(
                f"{params.source!r} would grow to {size_bytes:,} bytes of pixels in {params.target_crs}; "
                f"the limit is {MAX_DECODED_BYTES:,}. Choose another target CRS."
            )
        with rasterio.open(path, "w", **_plain_profile(view, source)) as plain:
            _copy_descriptions(source, plain)
            _copy_pixels(source, view, plain, params.source, context)


@contextmanager
def _north_up(source: DatasetReader, params: CreateCogParams) -> Iterator[Any]:
    """The source as it will be: itself where nothing moves, else a warped view."""
    crs, target = crs_of(source, params.source_crs, params.source), known_crs(params.target_crs)
    if crs == target and grid.is_north_up(source.transform[:6]):
        yield source
        return
    nodata = grid.usable_nodata(source.nodata, source.dtypes[0])
    # The colours of a palette are names, not amounts: nothing lies between two of them.
    resampling = "nearest" if ColorInterp.palette in source.colorinterp else params.resampling
    outside = {"nodata": nodata, "src_nodata": nodata} if nodata is not None else {"add_alpha": not _has_alpha(source)}
    try:
        view = WarpedVRT(
            source, src_crs=crs, crs=target, resampling=Resampling[resampling], NUM_THREADS=THREADS, **outside
        )
    except (RasterioError, CRSError):
        raise InvalidInput(
            f"{params.source!r} cannot be reprojected to {params.target_crs}: it lies outside of it."
        ) from None
    with view:
        yield view


def _plain_profile(view: Any, source: DatasetReader) -> dict[str, Any]:
    return {
        "driver": "GTiff",
        "width": view.width,
        "height": view.height,
        "count": source.count,
        "dtype": source.dtypes[0],
        "crs": view.crs,
        "transform": view.transform,
        "nodata": grid.usable_nodata(source.nodata, source.dtypes[0]),
        "tiled": True,
        "blockxsize": grid.BLOCK_PIXELS,
        "blockysize": grid.BLOCK_PIXELS,
        "interleave": "pixel",
        "BIGTIFF": "IF_SAFER",
        "SPARSE_OK": True,
    }


def _copy_descriptions(source: DatasetReader, plain: DatasetWriter) -> None:
    """Keep what the bands mean: colours, names, units, scales."""
    plain.colorinterp = source.colorinterp
    if source.colorinterp[0] is ColorInterp.palette:
        plain.write_colormap(1, source.colormap(1))
    plain.descriptions, plain.units = source.descriptions, [unit or "" for unit in source.units]
    plain.scales, plain.offsets = source.scales, source.offsets


def _copy_pixels(source: DatasetReader, view: Any, plain: DatasetWriter, name: str, context: Context) -> None:
    """Copy window by window; between two windows the run may stop."""
    masked = _needs_mask(source, view)
    side = grid.window_side(source.count, source.dtypes[0], WINDOW_BYTES)
    places = list(grid.windows(view.width, view.height, side))
    for number, place in enumerate(places):
        context.raise_if_stopping()
        window = Window(*place)
        try:
            pixels = view.read(source.indexes, window=window)
            mask = view.dataset_mask(window=window) if masked else None
        except RasterioError:
            raise InvalidInput(
                f"Some pixels of {name!r} cannot be unpacked: the file is damaged. Write it anew and send it again."
            ) from None
        plain.write(pixels, window=window)
        if mask is not None:
            plain.write_mask(mask, window=window)
        context.progress(0.6 * (number + 1) / len(places), f"window {number + 1} of {len(places)}")


def _needs_mask(source: DatasetReader, view: Any) -> bool:
    """A mask says which pixels count where no nodata value and no alpha band do."""
    if _has_alpha(source) or grid.usable_nodata(source.nodata, source.dtypes[0]) is not None:
        return False
    return view is not source or has_own_mask(source)


def _has_alpha(raster: DatasetReader) -> bool:
    return ColorInterp.alpha in raster.colorinterp


def _compress(plain: Path, product: Path, params: CreateCogParams) -> None:
    with rasterio.open(plain, driver="GTiff") as raster:
        palette, dtype = ColorInterp.palette in raster.colorinterp, raster.dtypes[0]
        rasterio.shutil.copy(
            raster,
            product,
            driver="COG",
            COMPRESS=params.compression.upper(),
            # Neighbouring amounts differ by little, so their differences pack well; bytes and names gain nothing.
            PREDICTOR="NO" if palette or dtype in ("uint8", "int8") else "YES",
            OVERVIEW_RESAMPLING="NEAREST" if palette else params.resampling.upper(),
            BLOCKSIZE=grid.BLOCK_PIXELS,
            BIGTIFF="IF_SAFER",
            NUM_THREADS=THREADS,
        )


def _kept(product: Path, params: CreateCogParams, context: Context) -> CogResult:
    """Describe the product from the product itself and put it where readers look."""
    with rasterio.open(product, driver="GTiff") as raster:
        bbox = bounds_wgs84(CRS.from_string(params.target_crs), tuple(raster.bounds), params.source)
        name = context.output_name("cog.tif")
        cog = Artifact(
            role="cog",
            zone="silver",
            name=name,
            media_type=MEDIA_TYPE,
            sha256=sha256_of(product, context),
            size_bytes=product.stat().st_size,
            bbox=bbox,
        )
        result = CogResult(
            cog=name,
            crs=params.target_crs,
            bounds_native=tuple(raster.bounds),
            bounds_wgs84=bbox,
            width=raster.width,
            height=raster.height,
            transform=list(raster.transform[:6]),
            bands=[_statistics(raster, band) for band in raster.indexes],
            artifacts=[cog],
        )
    context.storage.silver.put_file(name, product)
    context.progress(1.0, "stored")
    return result


def _statistics(raster: DatasetReader, band: int) -> BandStatistics:
    """What a small picture of the band shows. A band without one valid pixel has zeros."""
    shape = grid.shrunk(raster.width, raster.height, STATISTICS_PIXELS)
    picture = raster.read(band, out_shape=shape, masked=True)
    values = picture.compressed().astype("float64")
    values = values[np.isfinite(values)]
    shown = values if values.size else np.zeros(1)
    return BandStatistics(
        dtype=raster.dtypes[band - 1],
        nodata=raster.nodata,
        minimum=float(shown.min()),
        maximum=float(shown.max()),
        mean=float(shown.mean()),
        stddev=float(shown.std()),
        valid_percent=100.0 * values.size / picture.size,
    )
