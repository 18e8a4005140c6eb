"""The catalogue follows decisions: thousands of items at once, in the decision's own transaction, and gone with it."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from domain.repositories.catalogue import Catalogue
from flows.storage import Zones
from tests.support.acts import call, decide
from tests.support.platform import Domain
from tests.support.stac import judge_collection, judge_item
from tests.support.tiled import TILES, hydrated, tile, tiled


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
    handed_in = "update app.artifacts set (sha256, size_bytes) = (%s, %s) where name = %s returning 1"
    assert domain.rows(handed_in, digest, len(content), name)


async def test_hostile_metadata_is_stored_in_the_catalogue_unchanged(domain: Domain, tmp_path: Path) -> None:
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


async def test_staged_items_are_not_copied_outside(domain: Domain, tmp_path: Path) -> None:
    asset_id = await tiled(domain, tmp_path, 2)
    await decide(domain, asset_id, 0, "approve", clearance_level="public")
    [(inputs,)] = domain.rows("select inputs from app.runs where workflow_id = 'adf_export'")
    assert {one["role"] for one in inputs["artifacts"]} == {"tile"}
