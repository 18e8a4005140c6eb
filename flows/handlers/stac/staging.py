"""Writes items and words about collections into the silver zone, where approvals find them. Knows no catalogue."""

import hashlib
import json
from collections.abc import Sequence
from datetime import UTC, datetime

from domain.contracts.artifacts import Artifact, Bounds
from domain.rules.extents import union
from flows.handlers.context import Context
from flows.handlers.errors import HandlerError, InvalidInput
from flows.handlers.raster.declarations import RegisterItemParams, RegisterItemResult
from flows.handlers.raster.merging import merged
from flows.handlers.stac.declarations import (
    EnsureCollectionParams,
    EnsureCollectionResult,
    RegisterItemsParams,
    RegisterItemsResult,
)
from flows.handlers.stac.items import ITEM_MEDIA_TYPE, CataloguedProduct, DerivedFrom, MadeVersion, item, plain_text
from flows.handlers.stac.models import StacItem
from flows.handlers.stac.rasters import raster_product

REPORT_EVERY = 500


def register_item(params: RegisterItemParams, context: Context) -> RegisterItemResult:
    """Describe one raster."""
    source = DerivedFrom(params.source, params.source_sha256)
    return staged_item(raster_product(params.product), source, context)


def staged_item(product: CataloguedProduct, source: DerivedFrom, context: Context) -> RegisterItemResult:
    """Write the item of one product, of whichever kind."""
    made = item(product, source, MadeVersion.of(context.facts), datetime.now(UTC))
    written = _write("stac_item", "item.json", _pretty(made.document()), ITEM_MEDIA_TYPE, context, bbox=made.bbox)
    return RegisterItemResult(item=written.name, item_id=made.id, collection_id=made.collection, artifacts=[written])


def ensure_collection(params: EnsureCollectionParams, context: Context) -> EnsureCollectionResult:
    """Write the words about the collection, if there are any. The catalogue itself knows its contents."""
    facts = MadeVersion.of(context.facts)
    words = {"id": facts.asset_id, "title": plain_text(params.title), "description": params.description}
    said = {name: text for name, text in words.items() if text}
    written = _write("stac_collection", "collection.json", _pretty(said), "application/json", context)
    return EnsureCollectionResult(collection_id=facts.asset_id, artifacts=[written])


def register_items(params: RegisterItemsParams, context: Context) -> RegisterItemsResult:
    """Describe the tiles, one item a line: a run of ten thousand leaves one file to be catalogued."""
    facts, now = MadeVersion.of(context.facts), datetime.now(UTC)
    if params.collection_id != facts.asset_id:
        raise InvalidInput(
            f"Items of asset {facts.asset_id} belong in its own collection, not {params.collection_id!r}."
        )
    tiles = [tile for tile in params.tiles if not tile.is_empty]
    if not tiles:
        raise InvalidInput("No tile holds any data: the raster is nothing but nodata.")
    source, items = DerivedFrom(params.source, params.source_sha256), []
    for done, tile in enumerate(tiles):
        if done % REPORT_EVERY == 0:
            context.raise_if_stopping()
            context.progress(done / len(tiles), f"{done:,} of {len(tiles):,} items")
        items.append(item(raster_product(tile, part=tile.id), source, facts, now))
    written = _write_items(items, context)
    return RegisterItemsResult(
        items=written.name,
        item_ids=[one.id for one in items],
        collection_id=facts.asset_id,
        bands=merged(params.tiles),
        artifacts=[written],
    )


def _write_items(items: Sequence[StacItem], context: Context) -> Artifact:
    ids = {one.id for one in items}
    if len(ids) < len(items):
        raise HandlerError("Two tiles have one id.")
    lines = (json.dumps(one.document(), separators=(",", ":"), allow_nan=False) for one in items)
    content = "\n".join(lines).encode()
    bbox = union([one.bbox for one in items])
    return _write("stac_items", "items.ndjson", content, "application/x-ndjson", context, bbox=bbox)


def _write(
    role: str, filename: str, content: bytes, media_type: str, context: Context, bbox: Bounds | None = None
) -> Artifact:
    name = context.output_name(filename)
    context.storage.silver.write_bytes(name, content)
    return Artifact(
        role=role,
        zone="silver",
        name=name,
        media_type=media_type,
        sha256=hashlib.sha256(content).hexdigest(),
        size_bytes=len(content),
        bbox=bbox,
    )


def _pretty(document: object) -> bytes:
    return json.dumps(document, indent=2, allow_nan=False).encode()
