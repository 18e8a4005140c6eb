"""What a run hands in is its own. Of one that names files, items or tables of others, nothing is taken."""

import json
from pathlib import Path
from typing import Any

import pytest

from flows.storage import Zones
from tests.domain.test_catalogue import restage
from tests.support.acts import SHA256, call, decide, started, submit
from tests.support.platform import Domain
from tests.support.tiled import hydrated, tiled

COG = {"role": "cog", "zone": "silver", "name": "cog.tif", "media_type": "image/tiff", "size_bytes": 1}
OTHERS: dict[str, dict[str, Any]] = {
    "another asset's": {"name": "assets/other/0-r1/a1/cog.tif"},
    "another revision's": {"name": "{asset}/0-r2/a1/cog.tif"},
    "of a longer number": {"name": "{asset}/0-r10/a1/cog.tif"},
    "the folder itself": {"name": "{asset}/0-r1"},
    "up and down again": {"name": "{asset}/0-r1/../0-r2/cog.tif"},
    "an empty part": {"name": "{asset}/0-r1//cog.tif"},
    "an upload": {"zone": "bronze", "name": "uploads/ddh/dem.tif"},
    "in the open": {"zone": "external", "name": "{asset}/0-r1/cog.tif"},
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
async def test_run_that_hands_in_a_foreign_artifact_fails_and_leaves_nothing(
    domain: Domain, other: dict[str, Any]
) -> None:
    await submit(domain)
    flow = await started(domain)
    asset = flow.home.rpartition("/")[0]
    stray: dict[str, Any] = COG | {"sha256": SHA256} | other | {"name": other["name"].format(asset=asset)}
    answer = await flow.commit(artifacts=[flow.own(COG), stray])
    assert (answer.status_code, answer.json()["state"]) == (200, "failed")
    assert domain.rows("select count(*) from app.artifacts") == [(0,)]
    [(problem, told, action)] = domain.rows(
        "select r.problem, q.problem, a.action from app.runs r join app.requests q using (request_id)"
        " join app.audit a on a.action = 'commit.refused' and a.subject = 'run/' || r.run_id::text"
    )
    assert (problem["code"], action) == ("foreign-product", "commit.refused")
    assert stray["name"] in problem["message"]
    assert told["code"] == "processing-failed"
    assert stray["name"] not in json.dumps(told)
    assert (await flow.commit(artifacts=[flow.own(COG)])).status_code == 409  # its word is spent


NAMED: dict[str, Any] = {
    "another asset's": {"cog": f"assets/{'0' * 32}/0-r1/a1/cog.tif"},
    "another revision's": {"product": {"artifacts": [{"name": "{asset}/0-r2/a1/cog.tif"}]}},
    "another run's": {"parts": ["runs/00000000-0000-4000-8000-000000000000/a1/part.tif"]},
    "what was fetched for another": {"source": f"quarantine/assets/{'0' * 32}/0-r1/a1/x.tif"},
    "up and down again": {"cog": "{asset}/0-r1/../0-r2/cog.tif"},
}


@pytest.mark.parametrize("named", NAMED.values(), ids=NAMED)
async def test_outputs_that_name_another_runs_product_are_refused(domain: Domain, named: Any) -> None:
    """Steps behind this one would read, catalogue or publish it."""
    await submit(domain)
    flow = await started(domain)
    own = {"cog": f"{flow.home}/a1/cog.tif", "validation": {"source": f"quarantine/{flow.home}/a1/x.tif"}}
    told = json.loads(json.dumps(named).replace("{asset}", flow.home.rpartition("/")[0]))
    assert (await flow.commit(own | told)).json()["state"] == "failed"
    [(code,)] = domain.rows("select problem ->> 'code' from app.runs")
    assert code == "foreign-product"


async def test_outputs_that_name_the_runs_own_products_are_taken(domain: Domain) -> None:
    await submit(domain)
    flow = await started(domain)
    own = {"cog": f"{flow.home}/a1/cog.tif", "validation": {"source": f"quarantine/{flow.home}/a1/x.tif"}}
    assert (await flow.commit(own | {"note": "assets/ are kept"})).json()["state"] == "completed"


async def test_products_of_earlier_attempts_are_the_runs_own(domain: Domain) -> None:
    """A run that is done again by another attempt hands in what the first one had finished."""
    await submit(domain)
    await (await started(domain)).fail("lost")
    flow = await started(domain)
    assert (await flow.commit(artifacts=[flow.own(COG)])).json()["state"] == "completed"
    assert domain.rows("select name from app.artifacts") == [(f"{flow.home}/a1/cog.tif",)]


async def test_operators_run_may_hand_in_only_files_of_its_own_folder(domain: Domain) -> None:
    order = {"workflow_id": "echo_test", "inputs": {}}
    for name, state in (("runs/{run}/a1/x.tif", "completed"), ("assets/other/0-r1/a1/x.tif", "failed")):
        assert (await call(domain, "operator", "POST", "/runs", order)).is_success
        flow = await started(domain)
        artifact = COG | {"sha256": SHA256, "name": name.format(run=flow.run_id)}
        assert (await flow.commit({}, artifacts=[artifact])).json()["state"] == state


SPOILT: dict[str, dict[str, Any]] = {
    "another's collection": {"collection": "other"},
    "another's id": {"id": "other-0-r1-0_0"},
    "another revision's id": {"id": "{asset}-0-r10-0_0"},
    "another's file": {"assets": {"data": {"href": "cairn://silver/assets/other/0-r1/a1/0.tif"}}},
    "an upload": {"assets": {"data": {"href": "cairn://bronze/uploads/other/0.tif"}}},
    "an address": {"assets": {"data": {"href": "https://evil.example/0.tif"}}},
    "a way out": {"assets": {"data": {"href": "cairn://silver/assets/{asset}/0-r1/../../other/0.tif"}}},
    "a link": {"links": [{"rel": "related", "href": "https://evil.example/"}]},
}


@pytest.mark.parametrize("spoilt", SPOILT.values(), ids=SPOILT)
async def test_items_about_another_asset_are_not_published(
    domain: Domain, tmp_path: Path, spoilt: dict[str, Any]
) -> None:
    asset_id = await tiled(domain, tmp_path, 2)
    first, second = _items(tmp_path, asset_id)
    told = json.loads(json.dumps(spoilt).replace("{asset}", asset_id))
    restage(domain, tmp_path, asset_id, [first, second | told])
    refused = await decide(domain, asset_id, 0, "approve")
    assert (refused.status_code, refused.json()["code"]) == (409, "not-publishable")
    assert domain.rows("select count(*) from pgstac.items") == [(0,)]
    assert domain.rows("select served_revision from app.asset_versions") == [(None,)]
    restage(domain, tmp_path, asset_id, [first, second])
    assert (await decide(domain, asset_id, 0, "approve")).status_code == 200
    assert len(hydrated(domain, asset_id)) == 2


async def test_items_file_exchanged_after_the_commit_is_not_published(domain: Domain, tmp_path: Path) -> None:
    asset_id = await tiled(domain, tmp_path, 2)
    items = _items(tmp_path, asset_id)
    name, content = f"assets/{asset_id}/0-r1/items.ndjson", json.dumps(items[0]).encode()
    Zones.local(tmp_path).silver.write_bytes(name, content)
    assert (await decide(domain, asset_id, 0, "approve")).json()["code"] == "content-differs"


def _items(storage: Path, asset_id: str) -> list[dict[str, Any]]:
    content = Zones.local(storage).silver.read_bytes(f"assets/{asset_id}/0-r1/items.ndjson")
    return [json.loads(line) for line in content.splitlines()]


async def test_table_of_another_run_is_not_served_as_this_runs(domain: Domain) -> None:
    await submit(domain, data_type="vector", source="up/a.gpkg")
    flow = await started(domain)
    product = flow.own(COG | {"role": "geoparquet", "name": "data.parquet"})
    assert (await flow.commit(artifacts=[product])).is_success
    add = (
        "insert into geo.layers (table_name, product, run_id, description, is_ready)"
        " values ('v_0123456789abcdef01234567', %s, %s, '{}', true) returning 1"
    )
    assert domain.rows(add, product["name"], "another")
    assert domain.rows("select table_name from api.staged_products") == []
    assert domain.rows("update geo.layers set run_id = %s returning 1", str(flow.run_id))
    assert domain.rows("select table_name from api.staged_products") == [("v_0123456789abcdef01234567",)]
