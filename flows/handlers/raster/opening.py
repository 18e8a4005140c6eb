"""Opens rasters that nobody trusts: the one door to them. One of the few files that import rasterio.

Safety rests on four things: the header is read and measured by our own reader before GDAL sees the file, only one
driver may open it, nothing beside it or named in it is read, and the caller is a child process that may be killed. GDAL
is given neither path nor address: it reads the blob that the process was handed open, through us.
"""

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

import rasterio
from rasterio._err import CPLE_BaseError
from rasterio.enums import ColorInterp
from rasterio.errors import CRSError, NotGeoreferencedWarning, RasterioError
from rasterio.io import DatasetReader

from flows.handlers.context import Context
from flows.handlers.errors import InvalidInput
from flows.handlers.raster import blob_file, grid, limits, tiff_pictures
from flows.handlers.raster.outages import raising_storage_faults
from flows.handlers.raster.pieces import Pieces, kept_of
from flows.handlers.raster.tiff_directories import BeyondLimit, Damaged, NotTiff
from flows.handlers.raster.verdict import unsupported_pixels

DRIVER: Final = "GTiff"
# What rasterio raises of what GDAL says; some calls pass on the innermost class, which belongs to no public one.
GDAL_ERRORS: Final = (RasterioError, CRSError, CPLE_BaseError)
# Room for the largest block that is let in beside those written meanwhile: pushed out, it would be unpacked for each
# cell anew. GDAL itself reads small numbers as megabytes; through rasterio's Env all are bytes.
CACHE_BYTES: Final = limits.MAX_BLOCK_BYTES + 32 * 1024**2
_ENVIRONMENT: Final = {
    "GDAL_DISABLE_READDIR_ON_OPEN": "EMPTY_DIR",
    "GDAL_PAM_ENABLED": "NO",
    "GDAL_GEOREF_SOURCES": "INTERNAL",
    "GDAL_CACHEMAX": CACHE_BYTES,
    "GDAL_TIFF_INTERNAL_MASK": "YES",
    "GTIFF_MAX_CUMULATED_MEM_USAGE": limits.MAX_BLOCK_BYTES,
    "GTIFF_REPORT_COMPD_CS": "NO",  # heights of a compound CRS do not concern a map
    "PROJ_NETWORK": "OFF",
    "CPL_VSIL_CURL_ALLOWED_EXTENSIONS": "{none}",  # no address at all
    # What reads other files and addresses by design is not even known where rasters are opened.
    "GDAL_SKIP": "DERIVED,GTI,MRF,WMS,WCS,WMTS,HTTP,PLMOSAIC,EEDA,EEDAI,DAAS,STACTA,STACIT,PDF,Rasterlite,TIL,"
    "ECRGTOC,RPFTOC,SENTINEL2,SAFE,DIMAP,RS2,ISIS3,PDS4,VICAR,ERS,Zarr,netCDF,HDF5,HDF5Image,KMLSUPEROVERLAY",
}


@contextmanager
def opened(name: str, context: Context) -> Iterator[DatasetReader]:
    """The bronze raster of that name, opened by an allowed driver, its header within the limits."""
    bronze = context.storage.bronze
    with bronze.reader(name) as blob, rasterio.Env(**_ENVIRONMENT):
        source = Pieces(blob, kept_of(bronze, name))
        _refuse_by_header(source, name)
        with raising_storage_faults(source), _opened(source, name) as raster:
            yield raster


@contextmanager
def _opened(source: Pieces, name: str) -> Iterator[DatasetReader]:
    """Open the raster by GDAL, whose first look at the file this is."""
    try:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            files = blob_file.alone(source)
            raster = rasterio.open(blob_file.NAME, driver=DRIVER, sharing=False, opener=files)
    except (*GDAL_ERRORS, ValueError):
        # The library's message names paths and URLs, so ours takes its place.
        raise _damaged(name) from None
    with raster:
        if _lacks_origin(raster, told):
            raise _damaged(name, "its pixels have a size and no place")
        if _lacks_palette(raster):
            raise _damaged(name, "its pixels are colours of a palette that is not there")
        _refuse_as_opened(raster, name)
        yield raster


def _lacks_origin(raster: DatasetReader, told: Iterable[warnings.WarningMessage]) -> bool:
    """True where GDAL knows no place but rasterio makes one up from half of it."""
    return not raster.transform.is_identity and any(one.category is NotGeoreferencedWarning for one in told)


def _lacks_palette(raster: DatasetReader) -> bool:
    """True where a band's pixels are numbers of colours and there are no colours."""
    for band, meaning in zip(raster.indexes, raster.colorinterp, strict=True):
        if meaning is ColorInterp.palette:
            try:
                raster.colormap(band)
            except ValueError:
                return True
    return False


def _refuse_by_header(source: Pieces, name: str) -> None:
    """Judge the file by its own numbers, before any library has seen it."""
    if not source.size_bytes:
        raise InvalidInput(f"{name!r} is empty. Check that its upload has finished.")
    try:
        pictures = tiff_pictures.claimed_pictures(source.read, source.size_bytes)
    except NotTiff:
        raise InvalidInput(
            f"{name!r} is not a GeoTIFF, whatever its name says. Convert it to GeoTIFF and send it again."
        ) from None
    except Damaged as fault:
        raise _damaged(name, str(fault)) from None
    except BeyondLimit as excess:
        raise InvalidInput(f"{name!r} is too large: {excess}.") from None
    if clauses := limits.refusals(pictures, source.size_bytes):
        raise InvalidInput(f"{name!r} {clauses[0]}")


def _damaged(name: str, what: str = "GDAL cannot make sense of it") -> InvalidInput:
    return InvalidInput(
        f"{name!r} begins like a TIFF but cannot be read as one: its header is damaged or incomplete ({what}). "
        "Write the file anew and send it again."
    )


def _refuse_as_opened(raster: DatasetReader, name: str) -> None:
    """Refuse what only GDAL reveals: unsupported pixel types and block sizes."""
    if unsupported := unsupported_pixels(raster.dtypes):
        raise InvalidInput(f"{name!r} is refused. {unsupported.sentence()}")
    block_height, block_width = raster.block_shapes[0]
    claimed = grid.decoded_bytes(block_width, block_height, raster.count, raster.dtypes[0])
    if claimed > limits.MAX_BLOCK_BYTES:
        raise InvalidInput(
            f"{name!r} is too large: {claimed:,} bytes in one block; the limit is {limits.MAX_BLOCK_BYTES:,}. "
            "Write it with tiles and send it again."
        )
