"""The vector family as authors see it: parameters, results, pools. No GDAL here; bodies import what does the work."""

from typing import Literal

from pydantic import BaseModel, Field

from domain.contracts.artifacts import Artifact, Bounds, Sha256
from domain.contracts.names import GivenName, MadeName
from flows.handlers.context import Context
from flows.handlers.raster.declarations import BLOB_NAME, EPSG_CODE, ITEM_REGISTERED, RegisterItemResult
from flows.handlers.registry import handler

IDENTIFIER = r"^[a-z][a-z0-9_]{0,62}$"
MAX_COLUMNS = 400
SqlType = Literal[
    "boolean", "smallint", "integer", "bigint", "real", "double precision",
    "text", "date", "time", "timestamp", "timestamptz", "bytea",
]  # fmt: skip
GeometryType = Literal[
    "Point", "LineString", "Polygon", "MultiPoint", "MultiLineString", "MultiPolygon", "GeometryCollection", "Geometry"
]


class VectorValidateParams(BaseModel):
    source: GivenName = Field(description=BLOB_NAME)
    layer: str | None = Field(default=None, max_length=200, description="Where the file holds several")
    source_crs: str | None = Field(default=None, pattern=EPSG_CODE, description="Used only where the file names none")


class VectorValidateResult(BaseModel):
    """What the file says it holds, and the verdict."""

    source: GivenName
    layer: str
    format: str
    warnings: list[str]
    crs: str
    geometry_type: str
    feature_count: int
    fields: dict[str, str] = Field(description="Column types by the sender's names")
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
        format="GeoPackage",
        warnings=[],
        crs="EPSG:31287",
        geometry_type="MultiLineString",
        feature_count=12_345,
        fields={"Name": "text", "lanes": "integer"},
        bounds_wgs84=(14.73, 47.49, 15.27, 47.86),
        size_mb=8.5,
        sha256="0" * 64,
    ),
)
def validate(params: VectorValidateParams, context: Context) -> VectorValidateResult:
    """Open the file by an allow-listed driver and report what it holds, or refuse it with a reason."""
    from flows.handlers.vector import inspect

    return inspect.validate(params, context)


class VectorConvertParams(BaseModel):
    source: GivenName = Field(description=BLOB_NAME)
    layer: str | None = Field(default=None, max_length=200)
    source_crs: str | None = Field(default=None, pattern=EPSG_CODE)
    target_crs: str = Field(default="EPSG:4326", pattern=EPSG_CODE)
    chunk_features: int = Field(
        default=50_000, ge=100, le=1_000_000, description="Features that load together, at most"
    )


class Column(BaseModel):
    """One column of the table: a generated name, and the sender's words for it."""

    name: str = Field(pattern=IDENTIFIER)
    title: str
    type: SqlType


class Chunk(BaseModel):
    """A run of features that is loaded in one transaction, as rows of PostgreSQL's binary COPY format."""

    number: int = Field(ge=0)
    rows: MadeName = Field(description="Blob of the silver zone; gone once the table is finished")
    count: int = Field(ge=0)


class Repairs(BaseModel):
    """What was done to the geometries."""

    repaired: int = Field(ge=0, description="Made valid")
    rejected: int = Field(ge=0, description="Features left out: nothing valid remained of their geometry")
    without_geometry: int = Field(ge=0, description="Features kept without a geometry, as they came")
    flattened: int = Field(
        default=0, ge=0, description="Features that lost their heights: neither their layer nor its first ones have any"
    )


class VectorConvertResult(BaseModel):
    """The layer in one CRS, valid and typed: as GeoParquet to keep, and as rows to load."""

    product: MadeName = Field(description="The GeoParquet's name in the silver zone")
    chunks: list[Chunk]
    columns: list[Column] = Field(max_length=MAX_COLUMNS)
    crs: str = Field(pattern=EPSG_CODE)
    geometry_type: GeometryType
    has_heights: bool
    feature_count: int = Field(ge=1)
    bounds_native: Bounds
    bounds_wgs84: Bounds
    repairs: Repairs
    source_sha256: Sha256
    artifacts: list[Artifact]


PARQUET = Artifact(
    role="geoparquet",
    zone="silver",
    name="assets/asset/0-r1/a1/data.parquet",
    media_type="application/vnd.apache.parquet",
    sha256="0" * 64,
    size_bytes=1_000_000,
    bbox=(14.73, 47.49, 15.27, 47.86),
)
CONVERTED = VectorConvertResult(
    product=PARQUET.name,
    chunks=[Chunk(number=0, rows="assets/asset/0-r1/a1/rows/00000.copy", count=12_345)],
    columns=[Column(name="name", title="Name", type="text"), Column(name="lanes", title="lanes", type="integer")],
    crs="EPSG:4326",
    geometry_type="MultiLineString",
    has_heights=False,
    feature_count=12_345,
    bounds_native=(14.73, 47.49, 15.27, 47.86),
    bounds_wgs84=(14.73, 47.49, 15.27, 47.86),
    repairs=Repairs(repaired=2, rejected=0, without_geometry=0),
    source_sha256="0" * 64,
    artifacts=[PARQUET],
)


@handler("vector.convert", pool="gdal", timeout_seconds=7200, example=CONVERTED)
def convert(params: VectorConvertParams, context: Context) -> VectorConvertResult:
    """Repair, reproject and type every feature in one pass; write GeoParquet and rows ready to load."""
    from flows.handlers.vector import convert as converting

    return converting.convert(params, context)


class LoadPostgisParams(BaseModel):
    product: VectorConvertResult


class LoadPostgisResult(BaseModel):
    table: str = Field(pattern=IDENTIFIER, description="Generated, never the sender's words")
    chunks: list[Chunk]


@handler(
    "vector.load_postgis",
    pool="light",
    timeout_seconds=600,
    example=LoadPostgisResult(table="v_0123", chunks=CONVERTED.chunks),
    database=True,
)
def load_postgis(params: LoadPostgisParams, context: Context) -> LoadPostgisResult:
    """Create the empty table and say which chunks fill it."""
    from flows.handlers.vector import load

    return load.create(params, context)


class LoadChunkParams(BaseModel):
    table: str = Field(pattern=IDENTIFIER)
    chunk: Chunk


class LoadChunkResult(BaseModel):
    loaded: int


@handler("vector.load_chunk", pool="light", timeout_seconds=1800, example=LoadChunkResult(loaded=10_000), database=True)
def load_chunk(params: LoadChunkParams, context: Context) -> LoadChunkResult:
    """Load one chunk; one that is loaded already is left as it is."""
    from flows.handlers.vector import load

    return load.load_chunk(params, context)


class FinalizeParams(BaseModel):
    table: str = Field(pattern=IDENTIFIER)
    product: VectorConvertResult
    loaded_features: int = Field(ge=0)


class FinalizeResult(BaseModel):
    feature_count: int
    bounds_wgs84: Bounds


@handler(
    "vector.finalize",
    pool="light",
    timeout_seconds=3600,
    example=FinalizeResult(feature_count=12_345, bounds_wgs84=(14.73, 47.49, 15.27, 47.86)),
    database=True,
)
def finalize(params: FinalizeParams, context: Context) -> FinalizeResult:
    """Count, index and analyse the table, and let serving read it."""
    from flows.handlers.vector import load

    return load.finalize(params, context)


class VectorItemParams(BaseModel):
    product: VectorConvertResult
    source: GivenName = Field(description="The blob the table was loaded from")


@handler(
    "vector.stac_register_item",
    pool="light",
    timeout_seconds=300,
    example=ITEM_REGISTERED,
)
def stac_register_item(params: VectorItemParams, context: Context) -> RegisterItemResult:
    """Write the STAC item of one layer. The catalogue shows it only after an approval."""
    from flows.handlers.vector import stac

    return stac.register_item(params, context)
