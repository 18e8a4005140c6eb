"""Vector layers through the app, real rows of a real table: the right features, for the right readers, and no more."""

from collections.abc import Iterator
from typing import Any

import httpx
import morecantile
import psycopg
import pytest
from fastapi import FastAPI
from psycopg.types.json import Jsonb

from gateway.forwarding.reading_headers import COST
from gateway.serving.layers import MVT
from gateway.serving.memory_budget import MemoryBudget
from tests.gateway.serving.conftest import Served
from tests.gateway.serving.test_tiles import OWNER, REVIEWER, STRANGER, WORKER

PARCELS = "v_0123456789abcdef01234567"
STAGED = "v_89abcdef0123456701234567"
TABLE = """
create table geo.{0} (fid bigint not null, name text, lanes integer, seen date, area double precision, raw bytea,
    geom geometry(Geometry, 4326));
insert into geo.{0} select n, 'field ' || n, n % 3, '2024-01-01'::date + n, n / 4.0, '\\x00',
    st_makeenvelope(14 + n * 0.01, 47, 14.005 + n * 0.01, 47.005, 4326) from generate_series(1, {1}) n;
create index on geo.{0} using gist (geom);
grant select on geo.{0} to cairn_serving;
"""
LAYER = {
    "columns": [
        {"name": "name", "title": "Name", "type": "text"},
        {"name": "lanes", "title": "Spuren (Anzahl)", "type": "integer"},
        {"name": "seen", "title": "seen", "type": "date"},
        {"name": "area", "title": "area", "type": "double precision"},
        {"name": "raw", "title": "raw", "type": "bytea"},
    ],
    "crs": "EPSG:4326",
    "geometry_type": "Polygon",
    "feature_count": 30,
    "bounds_wgs84": [14.01, 47.0, 14.305, 47.005],
}
# Asset, clearance, approval, table. All of version 1 and platform ddh; one version 2 of `fields` waits for review.
LAYERS = [
    ("fields", 1, "public", "approved", PARCELS),
    ("meadows", 1, "ouo", "approved", PARCELS),
    ("moors", 1, "uncleared", "approved", PARCELS),
    ("fields", 2, "public", "pending_review", STAGED),
]
TILE = morecantile.tms.get("WebMercatorQuad").tile(14.15, 47.0, 8)
ZOOM_8 = f"WebMercatorQuad/{TILE.z}/{TILE.x}/{TILE.y}"  # holds all features


@pytest.fixture(scope="module", autouse=True)
def layers(served: Served) -> Iterator[None]:
    with psycopg.connect(served.admin_url, autocommit=True) as connection:
        for table, count in ((PARCELS, 30), (STAGED, 3)):
            connection.execute(TABLE.format(table, count).encode())
        for asset, ordinal, clearance, approval, table in LAYERS:
            values = (asset, "ddh", ordinal, 1, clearance, approval, approval == "approved", "latest_only")
            connection.execute(
                "insert into api.products (asset_id, platform_id, ordinal, revision, clearance, approval, is_latest,"
                " exposure, table_name, layer) values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
                (*values, table, Jsonb(LAYER)),
            )
        yield
        connection.execute("delete from api.products where table_name is not null")
        connection.execute(f"drop table geo.{PARCELS}, geo.{STAGED}".encode())


async def features(client: httpx.AsyncClient, query: str = "", **headers: str) -> Any:
    answer = await client.get(f"/vector/collections/fields/items{query}", headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_features_are_those_of_the_table(client: httpx.AsyncClient) -> None:
    found = await features(client, "?limit=2&offset=3")
    assert (found["numberMatched"], found["numberReturned"]) == (30, 2)
    first = found["features"][0]
    assert first["properties"] == {"name": "field 4", "lanes": 1, "seen": "2024-01-05", "area": 1.0}
    assert first["geometry"]["coordinates"][0][0] == [14.04, 47.0]
    one = (await client.get("/vector/collections/fields/items/4")).json()
    assert one["properties"] == first["properties"]


@pytest.mark.parametrize(
    ("query", "count"),
    [("?bbox=14.0,46.9,14.055,47.1", 5), ("?lanes=2", 10), ("?name=field%207", 1), ("?ids=1,2", 2),
     ("?datetime=2024-01-02T00:00:00Z/2024-01-04T12:00:00Z", 3), ("?name=x%27%20or%201=1--", 0)],
)  # fmt: skip
async def test_features_are_found_by_place_time_and_value(client: httpx.AsyncClient, query: str, count: int) -> None:
    assert (await features(client, query))["numberMatched"] == count


@pytest.mark.parametrize("address", ["/tiles/fields/" + ZOOM_8, f"/tiles/fields/{ZOOM_8}.pbf"])
async def test_vector_tiles_are_answered_at_the_addresses_of_raster_tiles(
    client: httpx.AsyncClient, address: str
) -> None:
    answer = await client.get(address)
    assert (answer.status_code, answer.headers["content-type"]) == (200, MVT)
    assert all(f"field {n}".encode() in answer.content for n in (1, 17, 30))
    assert b"lanes" in answer.content
    elsewhere = await client.get("/tiles/fields/WebMercatorQuad/9/0/0")
    assert (elsewhere.status_code, elsewhere.content) == (200, b"")


async def test_tilejson_describes_fields_and_bounds_of_the_tiles(client: httpx.AsyncClient) -> None:
    document = (await client.get("/tiles/fields/WebMercatorQuad/tilejson.json?version=1", headers=OWNER)).json()
    assert document["tiles"] == ["http://serving/tiles/fields/WebMercatorQuad/{z}/{x}/{y}?version=1"]
    assert document["vector_layers"][0]["fields"]["lanes"] == "Spuren (Anzahl)"
    assert document["bounds"] == LAYER["bounds_wgs84"]


async def test_features_api_is_described_by_the_standards_links(client: httpx.AsyncClient) -> None:
    landing = (await client.get("/vector/")).json()
    assert {link["rel"] for link in landing["links"]} == {"self", "conformance", "data", "queryables", "service-desc"}
    assert {link["href"] for link in landing["links"] if link["rel"] == "service-desc"} == {"http://serving/vector/api"}
    assert (await client.get("/vector/conformance")).json()["conformsTo"]
    listed = (await client.get("/vector/collections")).json()["collections"]
    assert [each["id"] for each in listed] == ["fields"]
    links = {link["rel"]: link["href"] for link in listed[0]["links"]}
    assert links["items"] == "http://serving/vector/collections/fields/items"
    queryables = (await client.get("/vector/collections/fields/queryables")).json()
    assert set(queryables["properties"]) >= {"name", "lanes"}


WHO_SEES = [
    ("fields", {}, 200), ("fields", STRANGER, 200), ("meadows", {}, 404), ("meadows", STRANGER, 404),
    ("meadows", OWNER, 200), ("meadows", REVIEWER, 200), ("moors", OWNER, 404), ("moors", REVIEWER, 200),
    ("moors", WORKER, 404), ("nothing", {}, 404), ("open", {}, 404),
]  # fmt: skip


@pytest.mark.parametrize(("asset", "headers", "status"), WHO_SEES)
async def test_layer_is_hidden_at_every_address_from_who_may_not_read_it(
    client: httpx.AsyncClient, asset: str, headers: dict[str, str], status: int
) -> None:
    """`open` is a raster: it has no features, and its tiles are pictures."""
    below = ["", "/items", "/items/1", "/queryables"]
    addresses = [f"/vector/collections/{asset}{path}" for path in below]
    if asset != "open":
        addresses += [f"/tiles/{asset}/{ZOOM_8}", f"/tiles/{asset}/WebMercatorQuad/tilejson.json"]
    answers = [await client.get(address, headers=headers) for address in addresses]
    assert {answer.status_code for answer in answers} == {status}
    if status == 404:
        nowhere = await client.get("/vector/collections/nowhere")
        assert {answer.text for answer in answers} == {nowhere.text}


async def test_layer_waiting_for_review_is_shown_to_reviewers_only(client: httpx.AsyncClient) -> None:
    assert (await features(client, "?version=2", **REVIEWER))["numberMatched"] == 3
    for headers in ({}, OWNER, STRANGER):
        answer = await client.get("/vector/collections/fields/items?version=2", headers=headers)
        assert answer.status_code == 404
    assert (await features(client, "", **REVIEWER))["numberMatched"] == 30


@pytest.mark.parametrize(
    "query",
    ["filter=query_to_xml('select 1',true,true,'')='x'", "filter-lang=cql2-json", "Filter=1", "geom-column=geom",
     "f=html", "bbox=a,b", "bbox=1,2,3", "datetime=yesterday", "ids=a", "limit=-1", "limit=100000", "simplify=nan",
     "sortby=pg_sleep(1)", "sortby=raw", "version=one"],
)  # fmt: skip
async def test_unsafe_feature_query_is_refused(client: httpx.AsyncClient, query: str) -> None:
    answer = await client.get(f"/vector/collections/fields/items?{query}")
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid-parameters"), answer.text


@pytest.mark.parametrize("address", ["", "/collections", "/collections/fields", "/collections/fields/items"])
async def test_no_answer_is_html_or_names_the_table(client: httpx.AsyncClient, address: str) -> None:
    answer = await client.get(f"/vector{address or '/'}", headers={"Accept": "text/html,*/*;q=0.8"})
    assert answer.status_code == 200
    assert "html" not in answer.headers["content-type"]
    assert not [word for word in (PARCELS, "geo.", "tipg_") if word in answer.text]


@pytest.mark.parametrize("place", ["9/276/99999999999", "99/1/1", "9/276/-1"])
async def test_impossible_tile_address_is_refused(client: httpx.AsyncClient, place: str) -> None:
    for asset in ("fields", "nothing"):
        answer = await client.get(f"/tiles/{asset}/WebMercatorQuad/{place}")
        assert answer.status_code in {404, 422}, answer.text


@pytest.fixture
def heavy(served: Served) -> Iterator[str]:
    """12 features: the first has a few corners, the second 300,000, each of the others ten thousand."""
    table = "v_fedcba9876543210fedcba98"
    with psycopg.connect(served.admin_url, autocommit=True) as connection:
        connection.execute(TABLE.format(table, 12).encode())
        for where, corners in (("fid = 2", 300_000), ("fid > 2", 10_000)):
            ring = f"ST_Segmentize(geom, ST_Perimeter(geom) / {corners})"
            connection.execute(f"update geo.{table} set geom = {ring} where {where}".encode())  # noqa: S608
        connection.execute(
            "insert into api.products (asset_id, platform_id, ordinal, revision, clearance, approval, is_latest,"
            " exposure, table_name, layer)"
            " values ('heavy', 'ddh', 1, 1, 'public', 'approved', true, 'latest_only', %s, %s)",
            (table, Jsonb(LAYER | {"feature_count": 12})),
        )
        yield "heavy"
        connection.execute("delete from api.products where asset_id = 'heavy'")
        connection.execute(f"drop table geo.{table}".encode())


async def test_page_of_large_features_ends_at_its_memory_and_the_next_goes_on(
    heavy: str, client: httpx.AsyncClient
) -> None:
    """All features come, in pages of as many as fit; each costs its reader what it took."""
    path = f"/vector/collections/{heavy}/items"
    offset: int | None = 0
    pages: list[list[int]] = []
    while offset is not None:
        answer = await client.get(f"{path}?limit=100&offset={offset}")
        assert answer.status_code == 200, answer.text
        found = answer.json()
        pages.append([feature["id"] for feature in found["features"]])
        assert float(answer.headers[COST]) >= 1.0
        following = [link["href"] for link in found["links"] if link["rel"] == "next"]
        offset = int(httpx.URL(following[0]).params["offset"]) if following else None
    assert pages[:2] == [[1], [2]]
    assert [number for page in pages for number in page] == list(range(1, 13))
    assert float((await client.get(f"{path}?limit=1&offset=1")).headers[COST]) > 70


@pytest.mark.parametrize("ending", ["items/2", "items?ids=2&f=csv", "items?offset=1&limit=1&f=geojsonseq"])
async def test_too_large_feature_is_refused_with_advice_to_simplify(
    ending: str, heavy: str, client: httpx.AsyncClient, app: FastAPI
) -> None:
    before = app.state.features.state.budget
    app.state.features.state.budget = MemoryBudget(2**30, 64 * 2**20, 0)
    try:
        answer = await client.get(f"/vector/collections/{heavy}/{ending}")
        assert (answer.status_code, answer.json()["code"]) == (422, "too-large")
        assert "simplify" in answer.json()["detail"]
        joined = f"{ending}{'&' if '?' in ending else '?'}simplify=0.001"
        assert (await client.get(f"/vector/collections/{heavy}/{joined}")).status_code == 200
        async with app.state.features.state.budget.share(2**30):
            refused = await client.get(f"/vector/collections/{heavy}/items/1")
        assert (refused.status_code, refused.json()["code"]) == (503, "busy")
        assert app.state.features.state.budget.free_bytes == 2**30
    finally:
        app.state.features.state.budget = before
