"""Versions made of many tiles, processed by the real handlers and committed as a flow run commits them."""

import hashlib
from pathlib import Path
from typing import Any

import psycopg

from flows.handlers.context import Context
from flows.handlers.raster.tile_declarations import TILE_DONE, TileResult
from flows.handlers.stac.declarations import EnsureCollectionParams, RegisterItemsParams
from flows.handlers.stac.staging import ensure_collection, register_items
from flows.storage import Zones
from tests.support.acts import started, submit
from tests.support.platform import Domain

TILES = 250
HYDRATED = 'select pgstac.content_hydrate(i) from pgstac.items i where collection = %s order by id collate "C"'


def tile(number: int, home: str) -> TileResult:
    """One of a square of tiles, of half a degree each. Its file holds its number."""
    column, row = number % 16, number // 16
    west, south = 10 + column / 2, 40 + row / 2
    [file] = TILE_DONE.artifacts
    content = str(number).encode()
    about = {"sha256": hashlib.sha256(content).hexdigest(), "size_bytes": len(content)}
    made = file.model_copy(update={"role": "tile", "name": f"{home}/tiles/{column}_{row}.tif"} | about)
    bounds = (west, south, west + 0.5, south + 0.5)
    return TILE_DONE.model_copy(update={"id": f"{column}_{row}", "bounds_wgs84": bounds, "artifacts": [made]})


async def tiled(
    domain: Domain, storage: Path, tiles: int = TILES, *, title: str | None = None, **submission: Any
) -> str:
    """A processed version made of many tiles; returns the asset's id."""
    accepted = await submit(domain, **submission)
    assert accepted.status_code == 202, accepted.text
    flow = await started(domain)
    [(asset_id, ordinal, revision)] = domain.rows(
        "select asset_id, ordinal, revision from app.requests where request_id = %s", accepted.json()["request_id"]
    )
    facts = {"asset_id": asset_id, "version_ordinal": ordinal, "revision": revision, "version_label": "1"}
    context = Context(
        run_id="run",
        node_id="node",
        storage=Zones.local(storage),
        workdir=storage,
        output_prefix=f"assets/{asset_id}/{ordinal}-r{revision}",
        facts={**facts, "request_id": "request", "refs": {"dataset_id": "elevation"}},
    )
    made = [tile(number, context.output_prefix) for number in range(tiles)]
    for number, each in enumerate(made):
        context.storage.silver.write_bytes(each.artifacts[0].name, str(number).encode())
    collection = ensure_collection(EnsureCollectionParams(title=title), context)
    items = register_items(RegisterItemsParams(collection_id=asset_id, tiles=made, source="up/dem.tif"), context)
    files = [one for each in made for one in each.artifacts] + collection.artifacts + items.artifacts
    artifacts = [one.model_dump(mode="json") for one in files]
    answer = await flow.commit({"item_ids": len(items.item_ids)}, artifacts=artifacts)
    assert answer.status_code == 200, answer.text
    return str(asset_id)


def hydrated(domain: Domain, asset_id: str) -> list[dict[str, Any]]:
    """As the STAC API would give them."""
    with psycopg.connect(domain.database.url(), options="-c search_path=pgstac,public") as connection:
        return [item for (item,) in connection.execute(HYDRATED.encode(), [asset_id]).fetchall()]
