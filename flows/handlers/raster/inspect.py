"""Describes an opened raster and decides whether it is taken. One of the few files that import rasterio."""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from affine import Affine
from rasterio.crs import CRS
from rasterio.enums import ColorInterp, MaskFlags
from rasterio.errors import CRSError
from rasterio.io import DatasetReader
from rasterio.transform import from_gcps
from rasterio.warp import transform_bounds

from domain.contracts.artifacts import Bounds
from flows.handlers.context import Context
from flows.handlers.errors import InvalidInput
from flows.handlers.raster import grid
from flows.handlers.raster.declarations import ValidateParams, ValidateResult
from flows.handlers.raster.limits import MAX_DECODED_BYTES
from flows.handlers.raster.opening import GDAL_ERRORS, opened
from flows.handlers.raster.verdict import LEAST_CONTROL_POINTS, HeaderFacts, judge

__all__ = [
    "MAX_DECODED_BYTES",
    "bounds_wgs84",
    "crs_of",
    "has_mask_beside",
    "has_own_mask",
    "known_crs",
    "opened",
    "sha256_of",
    "validate",
]

MAX_HASHED_BYTES: Final = 256 * 1024**2

_MEGABYTE: Final = 1024**2


def validate(params: ValidateParams, context: Context) -> ValidateResult:
    """Report what the raster is, or refuse it with a sentence its sender can act on."""
    with opened(params.source, context) as raster:
        context.raise_if_stopping()
        crs = crs_of(raster, params.source_crs, params.source)
        found = judge(_facts(raster, params.source_crs))
        height, width = raster.shape
        block_height, block_width = raster.block_shapes[0]
        place = _placement(raster) or Affine.identity()
        native = grid.bounds(place[:6], width, height)
        size_bytes = context.storage.bronze.size_bytes(params.source) or 0
        return ValidateResult(
            source=params.source,
            outcome="warn_and_fix" if found.findings else "green",
            warnings=[finding.sentence() for finding in found.findings],
            report=list(found.findings),
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
            block_width=block_width,
            block_height=block_height,
            overviews=raster.overviews(1),
            interleave=raster.profile.get("interleave", "band"),
            compression=raster.profile.get("compress", "none"),
            color_interp=[meaning.name for meaning in raster.colorinterp],
            has_own_mask=has_own_mask(raster),
            is_north_up=_is_placed(raster) and grid.is_north_up(raster.transform[:6]),
            control_points=len(raster.gcps[0]),
        )


def crs_of(raster: DatasetReader, given: str | None, name: str) -> CRS:
    """The raster's own CRS, or the given one where the file names none; refuses what cannot be put on a map."""
    if given is not None and not _own_crs(raster):
        known_crs(given)
    if reasons := judge(_facts(raster, given)).refusal():
        raise InvalidInput(f"{name!r} is refused. {reasons}")
    epsg = _epsg(raster)
    return CRS.from_epsg(epsg) if epsg else known_crs(given or "")


def known_crs(code: str) -> CRS:
    """The CRS of an EPSG code that a map can be drawn in: neither heights alone nor geocentric."""
    try:
        crs = CRS.from_epsg(int(code.removeprefix("EPSG:")))
    except (CRSError, ValueError):
        crs = None
    if crs is None or not (crs.is_geographic or crs.is_projected):
        raise InvalidInput(f"{code} is not a CRS of maps that is known here.")
    return crs


def bounds_wgs84(crs: CRS, native: Bounds, name: str) -> Bounds:
    """West, south, east and north in degrees; refuses places that are not on Earth."""
    bounds = _degrees(crs, native)
    if bounds is None:
        raise InvalidInput(
            f"The coordinates of {name!r} do not fit EPSG:{crs.to_epsg()}: they lie outside of the Earth. "
            "Check its CRS."
        )
    return bounds


def sha256_of(path: Path, context: Context) -> str:
    """The file's digest, read in pieces."""
    with path.open("rb") as file:
        return _sha256(iter(lambda: file.read(4 * _MEGABYTE), b""), context)


def has_own_mask(raster: DatasetReader) -> bool:
    """True where an alpha or mask band already tells which pixels count."""
    return ColorInterp.alpha in raster.colorinterp or has_mask_beside(raster)


def has_mask_beside(raster: DatasetReader) -> bool:
    """True where a mask that is none of the bands tells which pixels count."""
    return ColorInterp.alpha not in raster.colorinterp and any(
        MaskFlags.per_dataset in flags for flags in raster.mask_flag_enums
    )


def _facts(raster: DatasetReader, given: str | None) -> HeaderFacts:
    """The header, as far as the verdict depends on it."""
    block_height, block_width = raster.block_shapes[0]
    epsg = _epsg(raster)
    return HeaderFacts(
        dtypes=tuple(raster.dtypes),
        block_width=block_width,
        block_height=block_height,
        epsg=epsg,
        names_crs=bool(_own_crs(raster)),
        crs_given=given is not None,
        is_placed=_is_placed(raster),
        control_points=len(raster.gcps[0]),
        is_north_up=grid.is_north_up(raster.transform[:6]),
        is_on_earth=_is_on_earth(raster, f"EPSG:{epsg}" if epsg else given),
        nodata=raster.nodata,
        has_own_mask=has_own_mask(raster),
    )


def _is_placed(raster: DatasetReader) -> bool:
    return not raster.transform.is_identity and raster.transform.determinant != 0


def _placement(raster: DatasetReader) -> Affine | None:
    """Where the pixels lie: as the file says, or as its control points come closest."""
    points, _ = raster.gcps
    if not _is_placed(raster) and len(points) < LEAST_CONTROL_POINTS:
        return None
    place: Affine = raster.transform if _is_placed(raster) else from_gcps(points)
    return place


def _own_crs(raster: DatasetReader) -> CRS | None:
    return raster.crs or raster.gcps[1]


def _epsg(raster: DatasetReader) -> int | None:
    """The code of the file's CRS. What else the file says of it is never used: definitions can name other files."""
    crs = _own_crs(raster)
    return crs.to_epsg() if crs else None


def _is_on_earth(raster: DatasetReader, code: str | None) -> bool:
    place = _placement(raster)
    if place is None or code is None:
        return False
    return _degrees(known_crs(code), grid.bounds(place[:6], raster.width, raster.height)) is not None


def _degrees(crs: CRS, native: Bounds) -> Bounds | None:
    try:
        west, south, east, north = transform_bounds(crs, CRS.from_epsg(4326), *native)
    except GDAL_ERRORS:
        return None
    # Written so that NaN and infinity fail it too. A raster may reach a little, or a full turn, past 180 degrees.
    if not (-181 <= min(west, east) <= max(west, east) <= 361 and -91 <= south <= north <= 91):
        return None
    return west, south, east, north


def _source_sha256(name: str, size_bytes: int, context: Context) -> str | None:
    """The source's digest, where reading all of it costs little; a large one is digested where it is copied."""
    if size_bytes > MAX_HASHED_BYTES:
        return None
    return _sha256(context.storage.bronze.chunks(name), context)


def _sha256(pieces: Iterable[bytes], context: Context) -> str:
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
        context.raise_if_stopping()
    return digest.hexdigest()
