"""The catalogue follows decisions: thousands of items at once, in the decision's own transaction, and gone with it."""

import hashlib
import json
from pathlib import Path
from typing import Any

import psycopg
import pytest

from domain.repositories.catalogue import Catalogue
from flows.context import Context
from flows.handlers.raster.tile_declarations import TILE_DONE, TileResult
from flows.handlers.stac.declarations import EnsureCollectionParams, RegisterItemsParams
from flows.handlers.stac.staging import ensure_collection, register_items
from flows.storage import Zones
from tests.support.acts import call, decide, started, submit
from tests.support.platform import Domain
from tests.support.stac import judge_collection, judge_item

TILES = 250
HYDRATED = 'select pgstac.content_hydrate(i) from pgstac.items i where collection = %s order by id collate "C"'


def tile(number: int, home: str) -> TileResult:
    """One of a square of tiles, of half a degree each."""
    column, row = number % 16, number // 16
    west, south = 10 + column / 2, 40 + row / 2
    [file] = TILE_DONE.artifacts
    name = file.model_copy(
        update={"role": "tile", "name": f"{home}/tiles/{column}_{row}.tif", "sha256": f"{number:064x}"}
    )
    bounds = (west, south, west + 0.5, south + 0.5)
    return TILE_DONE.model_copy(update={"id": f"{column}_{row}", "bounds_wgs84": bounds, "artifacts": [name]})


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


def described(domain: Domain, asset_id: str) -> dict[str, Any]:
    [(collection,)] = domain.rows("select content from pgstac.collections where id = %s", asset_id)
    judge_collection(collection)
    return dict(collection)


async def test_tiles_are_staged_at_commit_and_visible_with_the_approval(domain: Domain, tmp_path: Path) -> None:
    asset_id = await tiled(domain, tmp_path, title="Alps")
    assert hydrated(domain, asset_id) == []
    assert (await decide(domain, asset_id, 0, "approve")).status_code == 200
    found = hydrated(domain, asset_id)
    assert len(found) == TILES
    for item in found[:: TILES // 10]:
        judge_item(item)
    assert {item["id"] for item in found} == {f"{asset_id}-0-r1-{tile(number, 'home').id}" for number in range(TILES)}
    assert "cairn://" not in json.dumps(found)
    collection = described(domain, asset_id)
    assert collection["title"] == "Alps"
    assert collection["extent"]["spatial"]["bbox"] == [[10, 40, 18, 48]]


async def test_an_unpublished_version_takes_its_items_along(domain: Domain, tmp_path: Path) -> None:
    asset_id = await tiled(domain, tmp_path, 20)
    await decide(domain, asset_id, 0, "approve")
    assert (await decide(domain, asset_id, 0, "unpublish")).status_code == 200
    assert hydrated(domain, asset_id) == []
    assert described(domain, asset_id)["extent"]["spatial"]["bbox"] == [[-180, -90, 180, 90]]  # nothing is told of it


async def test_a_new_revision_takes_the_place_of_the_old_ones_items(domain: Domain, tmp_path: Path) -> None:
    """And of no other's: `r1` is not the beginning of `r10`."""
    asset_id = await tiled(domain, tmp_path, 20)
    await decide(domain, asset_id, 0, "approve")
    await tiled(domain, tmp_path, 5, version_label="2", source="uploads/other.tif")
    await decide(domain, asset_id, 1, "approve")
    ids = [item["id"] for item in hydrated(domain, asset_id)]
    assert [sum(one.startswith(f"{asset_id}-{ordinal}-r1-") for one in ids) for ordinal in (0, 1)] == [20, 5]
    async with domain.service.database.transaction() as session:
        await Catalogue(session).withdraw(f"{asset_id}-1-r", asset_id)
    assert len(hydrated(domain, asset_id)) == 25
    async with domain.service.database.transaction() as session:
        await Catalogue(session).withdraw(f"{asset_id}-1-r1", asset_id)
    assert len(hydrated(domain, asset_id)) == 20


async def test_a_decision_that_fails_leaves_the_catalogue_as_it_was(
    domain: Domain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asset_id = await tiled(domain, tmp_path, 20)

    async def broken(*_: Any) -> None:
        raise RuntimeError("after the items were written")

    with monkeypatch.context() as patched:
        patched.setattr(Catalogue, "describe", broken)
        assert (await decide(domain, asset_id, 0, "approve")).status_code == 500
    assert hydrated(domain, asset_id) == []
    assert (await decide(domain, asset_id, 0, "approve")).status_code == 200
    assert len(hydrated(domain, asset_id)) == 20


async def test_reindexing_writes_the_same_again(domain: Domain, tmp_path: Path) -> None:
    asset_id = await tiled(domain, tmp_path, 20)
    await decide(domain, asset_id, 0, "approve")
    before = hydrated(domain, asset_id)
    domain.rows("delete from pgstac.items where id like '%%-1_0' returning 1")
    domain.rows("update pgstac.items set id = id || '-stray' where id like '%%-r1-0_0' returning 1")
    answer = await call(domain, "operator", "POST", "/commands/asset.reindex", {"asset_id": asset_id})
    assert answer.status_code == 200, answer.text
    assert hydrated(domain, asset_id) == before


def restage(domain: Domain, storage: Path, asset_id: str, items: list[dict[str, Any]]) -> None:
    """Have these be the items that the run of the first revision handed in."""
    name, content = f"assets/{asset_id}/0-r1/items.ndjson", "\n".join(map(json.dumps, items)).encode()
    Zones.local(storage).silver.write_bytes(name, content)
    digest = hashlib.sha256(content).hexdigest()
    assert domain.rows("update app.artifacts set sha256 = %s where name = %s returning 1", digest, name)


async def test_words_that_no_database_format_may_misread(domain: Domain, tmp_path: Path) -> None:
    """Backslashes, tabs, line ends and quotes in a partner's own names arrive as they were."""
    odd = 'a\\b\\n\t"c"\n\\. {1} ünï'
    asset_id = await tiled(domain, tmp_path, 2)
    name = f"assets/{asset_id}/0-r1/items.ndjson"
    silver = Zones.local(tmp_path).silver
    staged = [json.loads(line) for line in silver.read_bytes(name).splitlines()]
    for item in staged:
        item["properties"]["platform:dataset_id"] = odd
    restage(domain, tmp_path, asset_id, staged)
    assert (await decide(domain, asset_id, 0, "approve")).status_code == 200
    assert {item["properties"]["platform:dataset_id"] for item in hydrated(domain, asset_id)} == {odd}


async def test_staged_items_do_not_go_out(domain: Domain, tmp_path: Path) -> None:
    asset_id = await tiled(domain, tmp_path, 2)
    await decide(domain, asset_id, 0, "approve", clearance_level="public")
    [(inputs,)] = domain.rows("select inputs from app.runs where workflow_id = 'adf_export'")
    assert {one["role"] for one in inputs["artifacts"]} == {"tile"}
