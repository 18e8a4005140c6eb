"""The vector family as authors see it: parameters, results, pools. Declared, not yet written. No GDAL here."""

from typing import NoReturn

from pydantic import BaseModel, Field

from domain.contracts.artifacts import Artifact, Bounds, Sha256
from flows.context import Context
from flows.errors import PlannedHandler
from flows.handlers.raster.declarations import BLOB_NAME, EPSG_CODE, ITEM_REGISTERED, RegisterItemResult
from flows.handlers.registry import handler

TABLE_NAME = r"^[a-z][a-z0-9_]{0,62}$"


def _planned(name: str) -> NoReturn:
    raise PlannedHandler(f"{name} is declared for authors but not written yet.")


class VectorValidateParams(BaseModel):
    source: str = Field(max_length=900, description=BLOB_NAME)
    layer: str | None = Field(default=None, max_length=200, description="Where the file holds several")
    source_crs: str | None = Field(default=None, pattern=EPSG_CODE, description="Used only where the file names none")


class VectorValidateResult(BaseModel):
    """What the file holds, and the verdict."""

    source: str
    layer: str
    driver: str
    warnings: list[str]
    crs: str
    geometry_type: str
    feature_count: int
    fields: dict[str, str] = Field(description="Column types by name")
    bounds_wgs84: Bounds
    size_mb: float
    sha256: Sha256


@handler(
    "vector.validate",
    pool="gdal",
    timeout_seconds=600,
    example=VectorValidateResult(
        source="uploads/roads.gpkg",
        layer="roads",
        driver="GPKG",
        warnings=[],
        crs="EPSG:31287",
        geometry_type="MultiLineString",
        feature_count=12_345,
        fields={"name": "text", "lanes": "integer"},
        bounds_wgs84=(14.73, 47.49, 15.27, 47.86),
        size_mb=8.5,
        sha256="0" * 64,
    ),
    planned=True,
)
def validate(params: VectorValidateParams, context: Context) -> VectorValidateResult:
    """Open the file by an allow-listed driver and report what it holds, or refuse it with a reason."""
    _planned("vector.validate")


class LoadPostgisParams(BaseModel):
    source: str = Field(max_length=900, description=BLOB_NAME)
    layer: str = Field(max_length=200)
    source_crs: str = Field(pattern=EPSG_CODE)
    target_crs: str = Field(default="EPSG:4326", pattern=EPSG_CODE)
    chunk_features: int = Field(default=10_000, ge=100, le=1_000_000)


class Chunk(BaseModel):
    """A run of features that is loaded in one transaction."""

    number: int = Field(ge=0)
    first: int = Field(ge=0)
    count: int = Field(ge=1)


class LoadPostgisResult(BaseModel):
    table: str = Field(pattern=TABLE_NAME, description="Generated, never the partner's words")
    chunks: list[Chunk]
    feature_count: int


@handler(
    "vector.load_postgis",
    pool="gdal",
    timeout_seconds=600,
    example=LoadPostgisResult(table="v_0123", chunks=[Chunk(number=0, first=0, count=10_000)], feature_count=10_000),
    planned=True,
)
def load_postgis(params: LoadPostgisParams, context: Context) -> LoadPostgisResult:
    """Create the empty table and say which chunks fill it."""
    _planned("vector.load_postgis")


class LoadChunkParams(BaseModel):
    source: str = Field(max_length=900, description=BLOB_NAME)
    layer: str = Field(max_length=200)
    source_crs: str = Field(pattern=EPSG_CODE)
    target_crs: str = Field(default="EPSG:4326", pattern=EPSG_CODE)
    table: str = Field(pattern=TABLE_NAME)
    chunk: Chunk


class LoadChunkResult(BaseModel):
    loaded: int
    repaired: int = Field(description="Geometries that were made valid")
    rejected: int = Field(description="Features whose geometry could not be repaired")


@handler(
    "vector.load_chunk",
    pool="gdal",
    timeout_seconds=1800,
    example=LoadChunkResult(loaded=10_000, repaired=0, rejected=0),
    planned=True,
)
def load_chunk(params: LoadChunkParams, context: Context) -> LoadChunkResult:
    """Load one chunk; loading it again replaces it."""
    _planned("vector.load_chunk")


class FinalizeParams(BaseModel):
    table: str = Field(pattern=TABLE_NAME)
    expected_features: int = Field(ge=0)


class FinalizeResult(BaseModel):
    table: str
    feature_count: int
    bounds_wgs84: Bounds


@handler(
    "vector.finalize",
    pool="light",
    timeout_seconds=1800,
    example=FinalizeResult(table="v_0123", feature_count=10_000, bounds_wgs84=(14.73, 47.49, 15.27, 47.86)),
    planned=True,
)
def finalize(params: FinalizeParams, context: Context) -> FinalizeResult:
    """Count, index and analyse the table."""
    _planned("vector.finalize")


class VectorItemParams(BaseModel):
    product: FinalizeResult
    source: str = Field(max_length=900, description="The blob the table was loaded from")
    source_sha256: Sha256


class VectorItemResult(RegisterItemResult):
    artifacts: list[Artifact]


@handler(
    "vector.stac_register_item",
    pool="light",
    timeout_seconds=300,
    example=VectorItemResult(**ITEM_REGISTERED.model_dump()),
    planned=True,
)
def stac_register_item(params: VectorItemParams, context: Context) -> VectorItemResult:
    """Write the STAC item of one table. The catalogue shows it only after an approval."""
    _planned("vector.stac_register_item")
