"""Opens rasters that nobody trusts, and says what they are. One of the few files that import rasterio.

Safety rests on four things: a driver allow-list at open, nothing beside the file is read, the header is measured
against limits before a pixel is touched, and the caller is a child process that may be killed.
"""

import hashlib
import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import rasterio
from rasterio.crs import CRS
from rasterio.enums import ColorInterp, MaskFlags
from rasterio.errors import CRSError, NotGeoreferencedWarning, RasterioError
from rasterio.io import DatasetReader
from rasterio.warp import transform_bounds

from domain.contracts.artifacts import Bounds
from flows.context import Context
from flows.errors import InvalidInput
from flows.handlers.raster import grid
from flows.handlers.raster.declarations import ValidateParams, ValidateResult
from flows.storage.reading import gdal_name, gdal_options

DRIVER: Final = "GTiff"
MAX_SIDE_PIXELS: Final = 400_000
MAX_BANDS: Final = 256
MAX_DECODED_BYTES: Final = 200 * 1000**3
MAX_BLOCK_BYTES: Final = 256 * 1024**2
MAX_BLOCKS: Final = 2_000_000
# Beyond a small picture, no honest file unpacks to more than this many times its size.
MAX_EXPANSION: Final = 2_000
SMALL_BYTES: Final = 64 * 1024**2
MAX_HASHED_BYTES: Final = 256 * 1024**2

_MEGABYTE: Final = 1024**2
_MAGIC: Final = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
_ENVIRONMENT: Final = {
    "GDAL_DISABLE_READDIR_ON_OPEN": "EMPTY_DIR",
    "GDAL_PAM_ENABLED": "NO",
    "GDAL_GEOREF_SOURCES": "INTERNAL",
    "GDAL_CACHEMAX": 256,
    "GDAL_TIFF_INTERNAL_MASK": "YES",
    "GTIFF_REPORT_COMPD_CS": "NO",  # heights of a compound CRS do not concern a map
    "CPL_VSIL_CURL_ALLOWED_EXTENSIONS": "{none}",
    "PROJ_NETWORK": "OFF",
}


def validate(params: ValidateParams, context: Context) -> ValidateResult:
    """Report what the raster is, or refuse it with a sentence its sender can act on."""
    size_bytes = context.storage.bronze.size_bytes(params.source) or 0
    with opened(params.source, context) as raster:
        crs = crs_of(raster, params.source_crs, params.source)
        context.raise_if_stopping()
        _refuse_truncated(raster, size_bytes, params.source, context)
        findings = _findings(raster)
        height, width = raster.shape
        native = grid.bounds(raster.transform[:6], width, height)
        return ValidateResult(
            source=params.source,
            outcome="warn_and_fix" if findings else "green",
            warnings=findings,
            driver=raster.driver,
            crs=f"EPSG:{crs.to_epsg()}",
            bounds_native=native,
            bounds_wgs84=bounds_wgs84(crs, native, params.source),
            width=width,
            height=height,
            band_count=raster.count,
            dtype=raster.dtypes[0],
            nodata=grid.usable_nodata(raster.nodata, raster.dtypes[0]),
            is_cog=raster.tags(ns="IMAGE_STRUCTURE").get("LAYOUT") == "COG",
            size_mb=size_bytes / _MEGABYTE,
            estimated_memory_mb=grid.decoded_bytes(width, height, raster.count, raster.dtypes[0]) / _MEGABYTE,
            sha256=_source_sha256(params.source, size_bytes, context),
        )


@contextmanager
def opened(name: str, context: Context) -> Iterator[DatasetReader]:
    """The bronze raster of that name, opened by an allowed driver, its header within the limits."""
    bronze = context.storage.bronze
    readable = bronze.readable_path(name)
    _refuse_other_formats(bronze.read_range(name, 0, 4), name)
    with rasterio.Env(**_ENVIRONMENT, **gdal_options(readable)), warnings.catch_warnings():
        warnings.simplefilter("ignore", NotGeoreferencedWarning)  # refused below, in words for the sender
        try:
            raster = rasterio.open(gdal_name(readable), driver=DRIVER, sharing=False)
        except (RasterioError, ValueError, CRSError):
            # The library's message names paths and URLs, so ours takes its place.
            raise InvalidInput(
                f"{name!r} begins like a TIFF but cannot be read as one: its header is damaged or incomplete. "
                "Write the file anew and send it again."
            ) from None
        with raster:
            _refuse_beyond_limits(raster, bronze.size_bytes(name) or 0, name)
            yield raster


def crs_of(raster: DatasetReader, given: str | None, name: str) -> CRS:
    """The raster's own CRS, or the given one where the file names none."""
    if raster.transform.is_identity or raster.transform.determinant == 0:
        raise InvalidInput(
            f"{name!r} is not placed on the ground: it has no origin and pixel size "
            "(ground control points are not supported). Georeference it and send it again."
        )
    if raster.crs:
        if raster.crs.to_epsg() is None:
            raise InvalidInput(
                f"The CRS of {name!r} has no EPSG code. Reproject it to one that has, and send it again."
            )
        return CRS.from_epsg(raster.crs.to_epsg())
    if given is None:
        raise InvalidInput(f"{name!r} names no CRS. Write one into the file, or state it as `source_crs`.")
    return known_crs(given)


def known_crs(code: str) -> CRS:
    """The CRS of an EPSG code that a map can be drawn in: neither heights alone nor geocentric."""
    try:
        crs = CRS.from_epsg(int(code.removeprefix("EPSG:")))
    except CRSError:
        crs = None
    if crs is None or not (crs.is_geographic or crs.is_projected):
        raise InvalidInput(f"{code} is not a CRS of maps that is known here.")
    return crs


def bounds_wgs84(crs: CRS, native: Bounds, name: str) -> Bounds:
    """West, south, east and north in degrees; refuses places that are not on Earth."""
    try:
        west, south, east, north = transform_bounds(crs, CRS.from_epsg(4326), *native)
    except (CRSError, RasterioError):
        west = south = east = north = math.nan
    # Written so that NaN and infinity fail it too. A raster may reach a little, or a full turn, past 180 degrees.
    if not (-181 <= min(west, east) <= max(west, east) <= 361 and -91 <= south <= north <= 91):
        raise InvalidInput(
            f"The coordinates of {name!r} do not fit EPSG:{crs.to_epsg()}: they lie outside of the Earth. "
            "Check its CRS."
        )
    return west, south, east, north


def sha256_of(path: Path, context: Context) -> str:
    """The file's digest, read in pieces."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(4 * _MEGABYTE):
            digest.update(piece)
            context.raise_if_stopping()
    return digest.hexdigest()


def _source_sha256(name: str, size_bytes: int, context: Context) -> str | None:
    """The source's digest, where reading all of it costs little; a large one is digested where it is copied."""
    if size_bytes > MAX_HASHED_BYTES:
        return None
    digest = hashlib.sha256()
    for chunk in context.storage.bronze.chunks(name):
        digest.update(chunk)
        context.raise_if_stopping()
    return digest.hexdigest()


def has_own_mask(raster: DatasetReader) -> bool:
    """True where an alpha or mask band already tells which pixels count."""
    return ColorInterp.alpha in raster.colorinterp or any(
        MaskFlags.per_dataset in flags for flags in raster.mask_flag_enums
    )


def _refuse_other_formats(magic: bytes, name: str) -> None:
    if not magic:
        raise InvalidInput(f"{name!r} is empty. Check that its upload has finished.")
    if magic not in _MAGIC:
        raise InvalidInput(
            f"{name!r} is not a GeoTIFF, whatever its name says. Convert it to GeoTIFF and send it again."
        )


def _refuse_beyond_limits(raster: DatasetReader, size_bytes: int, name: str) -> None:
    """Judge the header alone. Every number in it is a claim that may be false."""
    dtype = raster.dtypes[0]
    if dtype not in grid.PIXEL_TYPES:
        raise InvalidInput(f"{name!r} holds {dtype} pixels. Supported are {', '.join(sorted(grid.PIXEL_TYPES))}.")
    block_height, block_width = raster.block_shapes[0]
    decoded = grid.decoded_bytes(raster.width, raster.height, raster.count, dtype)
    blocks = math.ceil(raster.width / block_width) * math.ceil(raster.height / block_height) * raster.count
    limits = (
        ("pixels on its longer side", max(raster.width, raster.height), MAX_SIDE_PIXELS),
        ("bands", raster.count, MAX_BANDS),
        ("bytes of pixels", decoded, MAX_DECODED_BYTES),
        ("bytes in one block", grid.decoded_bytes(block_width, block_height, raster.count, dtype), MAX_BLOCK_BYTES),
        ("blocks", blocks, MAX_BLOCKS),
    )
    for what, claimed, limit in limits:
        if claimed > limit:
            raise InvalidInput(f"{name!r} is too large: {claimed:,} {what}; the limit is {limit:,}.")
    if decoded > max(SMALL_BYTES, size_bytes * MAX_EXPANSION):
        raise InvalidInput(
            f"{name!r} claims {decoded:,} bytes of pixels in a file of {size_bytes:,} bytes, "
            f"more than {MAX_EXPANSION:,} times its size. It is damaged, or mostly empty: cut it to its content."
        )


def _refuse_truncated(raster: DatasetReader, size_bytes: int, name: str, context: Context) -> None:
    """Every block that the file lists must lie inside of it: cheap, and it finds any cut in the pixel area."""
    block_height, block_width = raster.block_shapes[0]
    columns, rows = math.ceil(raster.width / block_width), math.ceil(raster.height / block_height)
    bands = range(1, 2) if raster.profile.get("interleave") == "pixel" else raster.indexes
    for band in bands:
        for row in range(rows):
            context.raise_if_stopping()
            for column in range(columns):
                place = f"{column}_{row}"
                offset = raster.get_tag_item(f"BLOCK_OFFSET_{place}", "TIFF", bidx=band)
                length = raster.get_tag_item(f"BLOCK_SIZE_{place}", "TIFF", bidx=band)
                if offset and int(offset) + int(length or 0) > size_bytes:
                    raise InvalidInput(
                        f"{name!r} is cut short: it lists pixels beyond its end at {size_bytes:,} bytes. "
                        "Check that its upload has finished and send it again."
                    )


def _findings(raster: DatasetReader) -> list[str]:
    """What the product will have better than the file."""
    block_height, block_width = raster.block_shapes[0]
    found = []
    if grid.usable_nodata(raster.nodata, raster.dtypes[0]) is None and not has_own_mask(raster):
        found.append(
            "It names no nodata value that its pixels can hold: the product gets a mask where reprojection leaves gaps."
        )
    if max(block_height, block_width) > grid.BLOCK_PIXELS * 2:
        found.append(
            f"Its blocks of {block_width} x {block_height} pixels are slow to read: the product is tiled anew."
        )
    if not grid.is_north_up(raster.transform[:6]):
        found.append("Its rows do not run from north to south: the product is turned north-up.")
    return found
