"""The raster family's second part: how a source is read, and making large rasters tile by tile. No GDAL here."""

from pydantic import BaseModel, Field

from domain.contracts.artifacts import Artifact, Bounds, Sha256
from domain.contracts.names import GivenName, MadeName
from flows.handlers.context import Context
from flows.handlers.raster.declarations import (
    BLOB_NAME,
    COG,
    COG_CREATED,
    BandStatistics,
    CogResult,
    MakingParams,
    ProductFacts,
    Reading,
)
from flows.handlers.registry import handler

DEFAULT_TILE_PIXELS = 8192
TILE_ID = r"^[A-Za-z0-9_-]{1,100}$"


class BlobToMountParams(BaseModel):
    source: GivenName = Field(description=BLOB_NAME)


class BlobToMountResult(BaseModel):
    source: str = Field(description="Name under which every later node of the run reads it")
    origin: str = Field(default="", description="What may be told of where it came from: an address without its query")
    size_mb: float
    sha256: Sha256
    reading: Reading = Field(default="ranges", description="How tries read its pixels best")
    reason: str = ""


@handler(
    "raster.blob_to_mount",
    pool="light",
    timeout_seconds=3600,
    example=BlobToMountResult(source="uploads/dem.tif", origin="uploads/dem.tif", size_mb=12.5, sha256="0" * 64),
)
def blob_to_mount(params: BlobToMountParams, context: Context) -> BlobToMountResult:
    """Read the source once for its checksum, and decide whether tries copy it or read it where it lies."""
    from flows.handlers.raster import copying

    return copying.blob_to_mount(params, context)


class Tile(BaseModel):
    """One tile of a scheme, in pixels of the product and in degrees."""

    id: str = Field(pattern=TILE_ID)
    column: int = Field(ge=0)
    row: int = Field(ge=0)
    width: int = Field(ge=1)
    height: int = Field(ge=1)
    bounds_wgs84: Bounds


class TilingSchemeParams(MakingParams):
    tile_pixels: int = Field(default=DEFAULT_TILE_PIXELS, ge=512, le=65_536, description="Edge length of a tile")
    memory_limit_mb: int = Field(
        default=2048,
        ge=1,
        description="A raster that takes more than this, unpacked, is large enough for tiles; at most what a try has",
    )


class TilingSchemeResult(BaseModel):
    """How the product would be cut, and whether it should be."""

    tiles: list[Tile]
    tile_count: int
    crs: str
    width: int
    height: int
    decoded_mb: float = Field(description="What all pixels of the product take once they are unpacked")
    estimated_memory_mb: float = Field(description="What a try holds at most while it makes cells, on either route")
    route: str = Field(description="`direct` or `tiled`", pattern="^(direct|tiled)$")
    reason: str


TILE = Tile(id="0_0", column=0, row=0, width=4000, height=4000, bounds_wgs84=(14.73, 47.49, 15.27, 47.86))


@handler(
    "raster.generate_tiling_scheme",
    pool="gdal",
    timeout_seconds=600,
    example=TilingSchemeResult(
        tiles=[TILE],
        tile_count=1,
        crs="EPSG:4326",
        width=4000,
        height=4000,
        decoded_mb=30.5,
        estimated_memory_mb=620.0,
        route="direct",
        reason="30 MB of pixels are within the limit of 2,048 MB.",
    ),
)
def generate_tiling_scheme(params: TilingSchemeParams, context: Context) -> TilingSchemeResult:
    """Cut the product's extent into tiles that can be made one by one, and say whether they should be."""
    from flows.handlers.raster import tiles

    return tiles.scheme(params, context)


class TileOptions(MakingParams):
    """What every tile of one raster shares."""

    is_part: bool = Field(
        default=False, description="A mosaic follows: the tile is kept for it, with what it has of its overviews"
    )


class ProcessTileParams(TileOptions):
    tile: Tile


class TileResult(ProductFacts):
    """One finished tile."""

    id: str = Field(pattern=TILE_ID)
    column: int
    row: int
    cog: MadeName
    is_empty: bool = Field(description="True where the tile holds nothing but nodata")
    artifacts: list[Artifact]


TILE_DONE = TileResult(
    **COG_CREATED.model_dump(exclude={"artifacts"}), id="0_0", column=0, row=0, is_empty=False, artifacts=[COG]
)


@handler("raster.process_tile", pool="gdal", timeout_seconds=3600, example=TILE_DONE)
def process_tile(params: ProcessTileParams, context: Context) -> TileResult:
    """Reproject one tile and write it as a cloud-optimised GeoTIFF."""
    from flows.handlers.raster import tiles

    return tiles.process(params, context)


class ProcessTileBatchParams(TileOptions):
    tiles: list[Tile] = Field(min_length=1)


class ProcessTileBatchResult(BaseModel):
    tiles: list[TileResult]
    artifacts: list[Artifact] = Field(default=[], description="Those of all tiles")


@handler(
    "raster.process_tile_batch",
    pool="gdal",
    timeout_seconds=7200,
    example=ProcessTileBatchResult(tiles=[TILE_DONE], artifacts=[COG]),
)
def process_tile_batch(params: ProcessTileBatchParams, context: Context) -> ProcessTileBatchResult:
    """Process several tiles in one try, which resumes after the last one that was finished."""
    from flows.handlers.raster import tiles

    return tiles.process_batch(params, context)


class PartResult(BaseModel):
    """What a mosaic needs to know of a tile; the rest may be told too."""

    id: str = Field(pattern=TILE_ID)
    column: int = Field(ge=0)
    row: int = Field(ge=0)
    width: int = Field(ge=1)
    height: int = Field(ge=1)
    cog: MadeName
    bands: list[BandStatistics]


class MosaicParams(MakingParams):
    tiles: list[PartResult] = Field(min_length=1)


@handler("raster.mosaic", pool="gdal", timeout_seconds=7200, example=COG_CREATED)
def mosaic(params: MosaicParams, context: Context) -> CogResult:
    """Join finished tiles into one cloud-optimised GeoTIFF, pixel for pixel what the direct route makes."""
    from flows.handlers.raster import mosaic as joining

    return joining.join(params, context)


class DiscardPartsParams(BaseModel):
    tiles: list[PartResult]


class DiscardPartsResult(BaseModel):
    discarded: int


@handler("raster.discard_parts", pool="light", timeout_seconds=600, example=DiscardPartsResult(discarded=1))
def discard_parts(params: DiscardPartsParams, context: Context) -> DiscardPartsResult:
    """Delete the tiles that a mosaic was made of. Doing it twice does no harm."""
    for name in [context.own(tile.cog) for tile in params.tiles]:
        context.storage.runs.delete(name)
    return DiscardPartsResult(discarded=len(params.tiles))
