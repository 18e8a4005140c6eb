"""Collections and the items of many tiles, as authors see them. Bodies import what does the work."""

from pydantic import BaseModel, Field

from domain.contracts.artifacts import Artifact, Sha256
from domain.contracts.names import GivenName, MadeName
from flows.handlers.context import Context
from flows.handlers.raster.declarations import BandStatistics
from flows.handlers.raster.tile_declarations import TILE_DONE, TileResult
from flows.handlers.registry import handler


class EnsureCollectionParams(BaseModel):
    title: str | None = Field(default=None, max_length=300)
    description: str | None = Field(default=None, max_length=4000)


class EnsureCollectionResult(BaseModel):
    collection_id: str
    artifacts: list[Artifact]


COLLECTION_WRITTEN = EnsureCollectionResult(
    collection_id="asset",
    artifacts=[
        Artifact(
            role="stac_collection",
            zone="silver",
            name="assets/asset/0-r1/a1/collection.json",
            media_type="application/json",
            sha256="0" * 64,
            size_bytes=600,
        )
    ],
)


@handler("raster.stac_ensure_collection", pool="light", timeout_seconds=300, example=COLLECTION_WRITTEN)
def stac_ensure_collection(params: EnsureCollectionParams, context: Context) -> EnsureCollectionResult:
    """Write what the asset's collection is called. There is one for each asset, whatever writes it and how often."""
    from flows.handlers.stac import staging

    return staging.ensure_collection(params, context)


class RegisterItemsParams(BaseModel):
    collection_id: str
    tiles: list[TileResult] = Field(min_length=1)
    source: GivenName = Field(description="The blob the tiles were derived from")
    source_sha256: Sha256 | None = None


class RegisterItemsResult(BaseModel):
    items: MadeName = Field(description="Name of the file in the silver zone that holds one item a line")
    item_ids: list[str]
    collection_id: str
    bands: list[BandStatistics] = Field(default=[], description="What each band holds in all tiles together")
    artifacts: list[Artifact]


ITEMS_REGISTERED = RegisterItemsResult(
    items="assets/asset/0-r1/a1/items.ndjson",
    item_ids=[f"asset-0-r1-{TILE_DONE.id}"],
    collection_id="asset",
    bands=TILE_DONE.bands,
    artifacts=[
        Artifact(
            role="stac_items",
            zone="silver",
            name="assets/asset/0-r1/a1/items.ndjson",
            media_type="application/x-ndjson",
            sha256="0" * 64,
            size_bytes=2000,
            bbox=TILE_DONE.bounds_wgs84,
        )
    ],
)


@handler("raster.stac_register_items", pool="light", timeout_seconds=600, example=ITEMS_REGISTERED)
def stac_register_items(params: RegisterItemsParams, context: Context) -> RegisterItemsResult:
    """Write one STAC item for each tile that holds data. The catalogue shows them only after an approval."""
    from flows.handlers.stac import staging

    return staging.register_items(params, context)
