"""Raster handlers that are declared and not yet written: collections and their items. No GDAL here."""

from typing import NoReturn

from pydantic import BaseModel, Field

from domain.contracts.artifacts import Artifact, Sha256
from flows.context import Context
from flows.errors import PlannedHandler
from flows.handlers.raster.declarations import ITEM_REGISTERED
from flows.handlers.raster.tile_declarations import TileResult
from flows.handlers.registry import handler


def _planned(name: str) -> NoReturn:
    raise PlannedHandler(f"{name} is declared for authors but not written yet.")


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
