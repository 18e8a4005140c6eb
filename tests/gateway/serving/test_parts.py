"""Versions that are catalogued in parts: each reader finds the parts of what they may read, and their files."""

import hashlib
import json
from collections.abc import Iterator

import httpx
import psycopg
import pytest
from psycopg.types.json import Jsonb

from domain.rules.publication import Holdings, collection, public_item
from flows.handlers.raster.tile_declarations import TILE_DONE
from flows.handlers.stac.declarations import RegisterItemsParams
from flows.handlers.stac.staging import register_items
from tests.gateway.serving.conftest import Served
from tests.support.rasters import context_in

OWNER = {"Authorization": "Bearer ddh-client"}
STRANGER = {"X-API-Key": "arcgis-client"}
TILES = 12
PARTS = {"inner-1-r1", "archive-1-r1", "quilt-1-r1"}  # the last one has no file as a whole
PUBLIC = {"open-2-r1", "archive-1-r1", "archive-2-r1", "mixed-2-r1"}
QUILT = """
insert into api.products values
    ('quilt', 'ddh', 1, 1, 'public', 'approved', true, 'latest_only', null, null, null, null)
"""


@pytest.fixture(scope="module", autouse=True)
def parts(served: Served) -> Iterator[None]:
    """Items and files of tiles, in the catalogue as the domain would have put them there; gone afterwards."""
    with psycopg.connect(served.admin_url, autocommit=True) as connection:
        connection.execute(QUILT)
        connection.execute("select pgstac.create_collection(%s)", [Jsonb(collection("quilt", {}, "Hub", Holdings()))])
        for whole in sorted(PARTS):
            for item in _registered(served, connection, whole):
                connection.execute("select pgstac.create_item(%s)", [Jsonb(item)])
        yield
        connection.execute("delete from pgstac.items where id like '%-r1-%'")
        connection.execute("delete from api.products where asset_id = 'quilt'")
        connection.execute("select pgstac.delete_collection('quilt')")
        connection.execute("truncate api.served_files, api.served_in_parts")


def _registered(served: Served, connection: psycopg.Connection, whole: str) -> list[dict[str, object]]:
    asset_id, ordinal, _ = whole.split("-")
    facts = {"asset_id": asset_id, "version_ordinal": int(ordinal), "revision": 1, "version_label": "1"}
    context = context_in(served.root, output_prefix=f"parts/{whole}", facts={**facts, "request_id": "request"})
    tiles = []
    for number in range(TILES):
        name, content = f"parts/{whole}/{number}.tif", f"tile {number} of {whole}".encode()
        context.storage.silver.write_bytes(name, content)
        digest = hashlib.sha256(content).hexdigest()
        made = {"role": "tile", "name": name, "sha256": digest, "size_bytes": len(content)}
        tiles.append(
            TILE_DONE.model_copy(
                update={"id": str(number), "artifacts": [TILE_DONE.artifacts[0].model_copy(update=made)]}
            )
        )
        values = [asset_id, int(ordinal), "tile", name, digest, "image/tiff"]
        connection.execute("insert into api.served_files values (%s, %s, 1, %s, %s, %s, %s)", values)
    connection.execute("insert into api.served_in_parts values (%s, %s, 1)", [asset_id, int(ordinal)])
    written = register_items(RegisterItemsParams(collection_id=asset_id, tiles=tiles, source="up/x.tif"), context)
    lines = context.storage.silver.read_bytes(written.items).splitlines()
    return [public_item(json.loads(line), "http://serving", whole, int(ordinal)) for line in lines]


def parts_of(*wholes: str) -> set[str]:
    return {f"{whole}-{number}" for whole in wholes for number in range(TILES)}


@pytest.mark.parametrize(
    ("headers", "visible"),
    [
        ({}, PUBLIC | parts_of("archive-1-r1", "quilt-1-r1")),
        (STRANGER, PUBLIC | parts_of("archive-1-r1", "quilt-1-r1")),
        (OWNER, PUBLIC | {"open-1-r1", "inner-1-r1", "mixed-1-r1"} | parts_of(*PARTS)),
    ],
)
async def test_a_search_finds_the_parts_that_the_reader_may_read(
    headers: dict[str, str], visible: set[str], client: httpx.AsyncClient
) -> None:
    for answer in (
        await client.get("/stac/search", params={"limit": 200}, headers=headers),
        await client.post("/stac/search", json={"limit": 200}, headers=headers),
    ):
        assert answer.status_code == 200, answer.text
        assert {item["id"] for item in answer.json()["features"]} == visible


async def test_filters_and_pages_reveal_no_hidden_parts(client: httpx.AsyncClient) -> None:
    hidden = {"op": "like", "args": [{"property": "id"}, "inner%"]}
    for search in ({"filter": hidden}, {"ids": ["inner-1-r1-3"]}, {"collections": ["inner"]}):
        answer = await client.post("/stac/search", json=search)
        assert (answer.status_code, answer.json()["features"]) == (200, []), search
    everything = {"op": "or", "args": [hidden, {"op": "=", "args": [{"property": "collection"}, "archive"]}]}
    found = await client.post("/stac/search", json={"filter": everything, "limit": 200})
    assert {item["id"] for item in found.json()["features"]} == parts_of("archive-1-r1") | {
        "archive-1-r1",
        "archive-2-r1",
    }
    text = {"filter": "id like 'inner%'", "filter-lang": "cql2-text", "limit": "200"}
    assert (await client.get("/stac/search", params=text)).json()["features"] == []


async def test_pages_lead_through_all_parts(client: httpx.AsyncClient) -> None:
    seen: list[str] = []
    url: str | None = "/stac/collections/archive/items?limit=5"
    while url:
        page = (await client.get(url)).json()
        seen += [item["id"] for item in page["features"]]
        url = next((link["href"] for link in page["links"] if link["rel"] == "next"), None)
    assert sorted(seen) == sorted(parts_of("archive-1-r1") | {"archive-1-r1", "archive-2-r1"})


async def test_part_and_its_file_are_answered_only_to_who_may_read_them(client: httpx.AsyncClient) -> None:
    path = "/stac/collections/inner/items/inner-1-r1-3"
    item = (await client.get(path, headers=OWNER)).json()
    href = item["assets"]["data"]["href"]
    assert href.startswith("http://serving/tiles/inner/files/data-")
    for headers in ({}, STRANGER):
        for hidden in (path, href):
            assert (await client.get(hidden, headers=headers)).status_code == 404
    given = await client.get(href, headers=OWNER)
    assert given.status_code == 200
    assert (given.content, given.headers["content-type"]) == (b"tile 3 of inner-1-r1", "image/tiff")
    part = await client.get(href, headers=OWNER | {"Range": "bytes=0-3"})
    assert (part.status_code, part.content) == (206, b"tile")


@pytest.mark.parametrize(
    "name",
    ["data-0123456789abcdef.tif", "data.tif", "data-0123.tif", "..%2f..%2fetc%2fpasswd", "data-%25%25%25%25.tif"],
)
async def test_file_that_is_no_part_is_answered_404(name: str, client: httpx.AsyncClient) -> None:
    answer = await client.get(f"/tiles/archive/files/{name}?version=1")
    assert answer.status_code == 404


async def test_file_of_a_part_is_answered_for_its_version_only(client: httpx.AsyncClient) -> None:
    item = (await client.get("/stac/collections/archive/items/archive-1-r1-0")).json()
    href: str = item["assets"]["data"]["href"]
    assert (await client.get(href)).status_code == 200
    assert (await client.get(href.replace("version=1", "version=2"))).status_code == 404


async def test_asset_in_parts_without_a_mosaic_has_files_and_no_tiles(client: httpx.AsyncClient) -> None:
    item = (await client.get("/stac/collections/quilt/items/quilt-1-r1-5")).json()
    assert set(item["assets"]) == {"data"}
    assert (await client.get(item["assets"]["data"]["href"])).content == b"tile 5 of quilt-1-r1"
    for path in ("info", "data.tif", "WebMercatorQuad/0/0/0.png", "preview.png"):
        answer = await client.get(f"/tiles/quilt/{path}")
        assert (answer.status_code, answer.json()["code"]) == (404, "not-found")
