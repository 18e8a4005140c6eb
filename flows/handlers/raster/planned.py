"""Raster handlers that are declared and not yet written: copying, tiling, mosaics, collections. No GDAL here."""

from typing import NoReturn

from pydantic import BaseModel, Field

from domain.contracts.artifacts import Artifact, Bounds, Sha256
from flows.context import Context
from flows.errors import PlannedHandler
from flows.handlers.raster.declarations import (
    BLOB_NAME,
    COG,
    COG_CREATED,
    EPSG_CODE,
    ITEM_REGISTERED,
    CogResult,
    Compression,
    Resampling,
)
from flows.handlers.registry import handler


def _planned(name: str) -> NoReturn:
    raise PlannedHandler(f"{name} is declared for authors but not written yet.")


class BlobToMountParams(BaseModel):
    source: str = Field(max_length=900, description=BLOB_NAME)


class BlobToMountResult(BaseModel):
    source: str = Field(description="Name of the copy, which every later node of the run may read")
    size_mb: float
    sha256: Sha256


@handler(
    "raster.blob_to_mount",
    pool="light",
    timeout_seconds=3600,
    example=BlobToMountResult(source="uploads/dem.tif", size_mb=12.5, sha256="0" * 64),
    planned=True,
)
def blob_to_mount(params: BlobToMountParams, context: Context) -> BlobToMountResult:
    """Copy the source once to where all nodes of the run can read it."""
    _planned("raster.blob_to_mount")


class Tile(BaseModel):
    """One tile of a scheme, in pixels of the source and in degrees."""

    id: str = Field(pattern=r"^[A-Za-z0-9_-]{1,100}$")
    column: int = Field(ge=0)
    row: int = Field(ge=0)
    width: int = Field(ge=1)
    height: int = Field(ge=1)
    bounds_wgs84: Bounds


class TilingSchemeParams(BaseModel):
    source: str = Field(max_length=900, description=BLOB_NAME)
    source_crs: str | None = Field(default=None, pattern=EPSG_CODE)
    target_crs: str = Field(default="EPSG:4326", pattern=EPSG_CODE)
    tile_pixels: int = Field(default=8192, ge=512, le=65_536, description="Edge length of a tile")


class TilingSchemeResult(BaseModel):
    tiles: list[Tile]
    tile_count: int
    crs: str


TILE = Tile(id="0_0", column=0, row=0, width=4000, height=4000, bounds_wgs84=(14.73, 47.49, 15.27, 47.86))


@handler(
    "raster.generate_tiling_scheme",
    pool="gdal",
    timeout_seconds=600,
    example=TilingSchemeResult(tiles=[TILE], tile_count=1, crs="EPSG:4326"),
    planned=True,
)
def generate_tiling_scheme(params: TilingSchemeParams, context: Context) -> TilingSchemeResult:
    """Cut the raster's extent into tiles that can be processed one by one."""
    _planned("raster.generate_tiling_scheme")


class TileOptions(BaseModel):
    """What every tile of one raster shares."""

    source: str = Field(max_length=900, description=BLOB_NAME)
    source_crs: str | None = Field(default=None, pattern=EPSG_CODE)
    target_crs: str = Field(default="EPSG:4326", pattern=EPSG_CODE)
    resampling: Resampling = "nearest"
    compression: Compression = "deflate"


class ProcessTileParams(TileOptions):
    tile: Tile


class TileResult(BaseModel):
    """One finished tile."""

    id: str
    cog: str
    bounds_wgs84: Bounds
    is_empty: bool = Field(description="True where the tile holds nothing but nodata")
    artifacts: list[Artifact]


TILE_DONE = TileResult(id="0_0", cog=COG.name, bounds_wgs84=TILE.bounds_wgs84, is_empty=False, artifacts=[COG])


@handler("raster.process_tile", pool="gdal", timeout_seconds=3600, example=TILE_DONE, planned=True)
def process_tile(params: ProcessTileParams, context: Context) -> TileResult:
    """Reproject one tile and write it as a cloud-optimised GeoTIFF."""
    _planned("raster.process_tile")


class ProcessTileBatchParams(TileOptions):
    tiles: list[Tile] = Field(min_length=1)


class ProcessTileBatchResult(BaseModel):
    tiles: list[TileResult]


@handler(
    "raster.process_tile_batch",
    pool="gdal",
    timeout_seconds=7200,
    example=ProcessTileBatchResult(tiles=[TILE_DONE]),
    planned=True,
)
def process_tile_batch(params: ProcessTileBatchParams, context: Context) -> ProcessTileBatchResult:
    """Process several small tiles with the source opened once."""
    _planned("raster.process_tile_batch")


class MosaicParams(BaseModel):
    tiles: list[TileResult] = Field(min_length=1)
    compression: Compression = "deflate"


@handler("raster.mosaic", pool="gdal", timeout_seconds=7200, example=COG_CREATED, planned=True)
def mosaic(params: MosaicParams, context: Context) -> CogResult:
    """Join finished tiles into one cloud-optimised GeoTIFF."""
    _planned("raster.mosaic")


class EnsureCollectionParams(BaseModel):
    title: str | None = Field(default=None, max_length=300)


class EnsureCollectionResult(BaseModel):
    collection_id: str


@handler(
    "raster.stac_ensure_collection",
    pool="light",
    timeout_seconds=300,
    example=EnsureCollectionResult(collection_id="asset"),
    planned=True,
)
def stac_ensure_collection(params: EnsureCollectionParams, context: Context) -> EnsureCollectionResult:
    """Write the STAC collection of the asset, where there is none yet."""
    _planned("raster.stac_ensure_collection")


class RegisterItemsParams(BaseModel):
    collection_id: str
    tiles: list[TileResult] = Field(min_length=1)
    source: str = Field(max_length=900, description="The blob the tiles were derived from")
    source_sha256: Sha256


class RegisterItemsResult(BaseModel):
    item_ids: list[str]
    collection_id: str
    artifacts: list[Artifact]


@handler(
    "raster.stac_register_items",
    pool="light",
    timeout_seconds=600,
    example=RegisterItemsResult(
        item_ids=["asset-0-r1-0_0"], collection_id="asset", artifacts=list(ITEM_REGISTERED.artifacts)
    ),
    planned=True,
)
def stac_register_items(params: RegisterItemsParams, context: Context) -> RegisterItemsResult:
    """Write one STAC item for each tile. The catalogue shows them only after an approval."""
    _planned("raster.stac_register_items")
