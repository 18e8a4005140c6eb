"""The raster family as authors see it: parameters, results, pools. No GDAL here; bodies import what does the work."""

from typing import Literal

from pydantic import BaseModel, Field

from domain.contracts.artifacts import Artifact, Bounds, Sha256
from domain.contracts.names import GivenName, MadeName
from flows.handlers.context import Context
from flows.handlers.raster.verdict import FileFinding
from flows.handlers.registry import handler

Resampling = Literal["nearest", "bilinear", "cubic", "average", "mode"]
Reading = Literal["ranges", "whole"]
Compression = Literal["deflate", "zstd", "lzw"]
EPSG_CODE = r"^EPSG:[0-9]{4,6}$"
# Polygons, each its outer ring and its holes, each ring its corners: longitude and latitude.
Polygons = list[list[list[tuple[float, float]]]]
BlockSize = Literal[128, 256, 512, 1024]
COG_MEDIA_TYPE = "image/tiff; application=geotiff; profile=cloud-optimized"
BLOB_NAME = "container/path in the bronze zone"


class ValidateParams(BaseModel):
    source: GivenName = Field(description=BLOB_NAME)
    source_crs: str | None = Field(default=None, pattern=EPSG_CODE, description="Used only where the file names none")


class ValidateResult(BaseModel):
    """What the header says, and the verdict."""

    source: GivenName
    outcome: Literal["green", "warn_and_fix"]
    warnings: list[str]
    driver: str
    crs: str
    bounds_native: Bounds
    bounds_wgs84: Bounds
    width: int
    height: int
    band_count: int
    dtype: str
    nodata: float | None
    is_cog: bool
    size_mb: float
    estimated_memory_mb: float = Field(description="What all its pixels take once they are unpacked")
    sha256: Sha256 | None = Field(description="None where the source is too large to be read only for this")
    report: list[FileFinding] = Field(default=[], description="The warnings, each with a code")
    block_width: int = 0
    block_height: int = 0
    overviews: list[int] = Field(default=[], description="Factors of the smaller pictures in the file")
    interleave: str = "band"
    compression: str = "none"
    color_interp: list[str] = Field(default=[], description="What each band means: gray, red, alpha, palette …")
    has_own_mask: bool = Field(default=False, description="An alpha or mask band tells which pixels count")
    is_north_up: bool = True
    control_points: int = 0


VALIDATED = ValidateResult(
    source="uploads/dem.tif",
    outcome="green",
    warnings=[],
    driver="GTiff",
    crs="EPSG:32633",
    bounds_native=(480_000, 5_260_000, 520_000, 5_300_000),
    bounds_wgs84=(14.73, 47.49, 15.27, 47.86),
    width=4000,
    height=4000,
    band_count=1,
    dtype="uint16",
    nodata=0,
    is_cog=False,
    size_mb=12.5,
    estimated_memory_mb=30.5,
    sha256="0" * 64,
    block_width=512,
    block_height=512,
    color_interp=["gray"],
)


@handler("raster.validate", pool="gdal", timeout_seconds=600, example=VALIDATED)
def validate(params: ValidateParams, context: Context) -> ValidateResult:
    """Open the raster by an allow-listed driver and report what it is, or refuse it with a reason."""
    from flows.handlers.raster import inspect

    return inspect.validate(params, context)


class MakingParams(BaseModel):
    """How a raster becomes a product: the same for the whole of it and for its tiles."""

    source: GivenName = Field(description=BLOB_NAME)
    source_crs: str | None = Field(default=None, pattern=EPSG_CODE)
    reading: Reading = Field(default="ranges", description="Where it lies, or from a whole copy on the try's own disk")
    target_crs: str = Field(default="EPSG:4326", pattern=EPSG_CODE)
    resampling: Resampling | None = Field(default=None, description="Chosen by the kind of data where not given")
    overview_resampling: Resampling | None = Field(default=None, description="Likewise, for the smaller pictures")
    compression: Compression = "deflate"
    block_size: BlockSize | None = Field(default=None, description="Side of a block in pixels; 512 where not given")
    web_optimised: bool = Field(default=False, description="Pixels and blocks are those of web maps; EPSG:3857 only")


class CreateCogParams(MakingParams):
    """The whole raster at once."""


class BandStatistics(BaseModel):
    """What a band holds, in its pixels' own numbers, and what the header says of it."""

    dtype: str
    nodata: float | None
    minimum: float
    maximum: float
    mean: float
    stddev: float
    valid_percent: float
    percentile_2: float | None = None
    percentile_98: float | None = None
    scale: float = 1.0
    offset: float = 0.0
    unit: str | None = None
    description: str | None = None
    meaning: str = Field(default="gray", description="gray, red, alpha, palette …")


class ProductFacts(BaseModel):
    """What a catalogue needs to know of a finished raster."""

    crs: str
    bounds_native: Bounds
    bounds_wgs84: Bounds
    width: int
    height: int
    transform: list[float] = Field(min_length=6, max_length=6, description="Affine coefficients a…f")
    bands: list[BandStatistics]
    footprint_wgs84: Polygons | None = Field(
        default=None, description="Outline of the data: polygons in degrees, cut at the antimeridian"
    )


class CogResult(ProductFacts):
    """The product, and what a catalogue needs to know of it."""

    cog: MadeName
    artifacts: list[Artifact]


COG = Artifact(
    role="cog",
    zone="silver",
    name="rasters/asset/0-r1/a1/cog.tif",
    media_type=COG_MEDIA_TYPE,
    sha256="0" * 64,
    size_bytes=1_000_000,
    bbox=(14.73, 47.49, 15.27, 47.86),
)
COG_CREATED = CogResult(
    cog=COG.name,
    crs="EPSG:4326",
    bounds_native=(14.73, 47.49, 15.27, 47.86),
    bounds_wgs84=(14.73, 47.49, 15.27, 47.86),
    width=4400,
    height=3100,
    transform=[0.000122, 0.0, 14.73, 0.0, -0.000122, 47.86],
    bands=[
        BandStatistics(dtype="uint16", nodata=0, minimum=1, maximum=4000, mean=2000, stddev=700, valid_percent=98.0)
    ],
    artifacts=[COG],
)


@handler("raster.create_cog", pool="gdal", timeout_seconds=7200, example=COG_CREATED)
def create_cog(params: CreateCogParams, context: Context) -> CogResult:
    """Reproject and write one cloud-optimised GeoTIFF in a single pass."""
    from flows.handlers.raster import cog

    return cog.create(params, context)


class RegisterItemParams(BaseModel):
    product: CogResult
    source: GivenName = Field(description="The blob the product was derived from")
    source_sha256: Sha256 | None = None


class RegisterItemResult(BaseModel):
    item: MadeName = Field(description="Name of the item's JSON in the silver zone")
    item_id: str
    collection_id: str
    artifacts: list[Artifact]


ITEM_REGISTERED = RegisterItemResult(
    item="rasters/asset/0-r1/a1/item.json",
    item_id="asset-0-r1",
    collection_id="asset",
    artifacts=[
        Artifact(
            role="stac_item",
            zone="silver",
            name="rasters/asset/0-r1/a1/item.json",
            media_type="application/geo+json",
            sha256="0" * 64,
            size_bytes=2000,
        )
    ],
)


@handler("raster.stac_register_item", pool="light", timeout_seconds=300, example=ITEM_REGISTERED)
def stac_register_item(params: RegisterItemParams, context: Context) -> RegisterItemResult:
    """Write the STAC item of one product. The catalogue shows it only after an approval."""
    from flows.handlers.stac import staging

    return staging.register_item(params, context)
