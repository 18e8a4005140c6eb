"""The STAC API through the app: everyone finds what they may read, and only that."""

from typing import Any

import httpx
import pytest
from stac_fastapi.pgstac.core import CoreCrudClient

OWNER = {"Authorization": "Bearer ddh-client"}
STRANGER = {"X-API-Key": "arcgis-client"}
REVIEWER = {"Authorization": "Bearer a-reviewer"}

PUBLIC = {"open-2-r1", "archive-1-r1", "archive-2-r1", "mixed-2-r1"}
OWN = PUBLIC | {"open-1-r1", "inner-1-r1", "mixed-1-r1"}
ALL = OWN | {"draft-1-r1"}
VISIBLE = [({}, PUBLIC), (STRANGER, PUBLIC), (OWNER, OWN), (REVIEWER, ALL)]


@pytest.mark.parametrize(("headers", "visible"), VISIBLE)
async def test_search_finds_what_the_reader_may_read(
    headers: dict[str, str], visible: set[str], client: httpx.AsyncClient
) -> None:
    everything = {"limit": 100}
    for answer in (
        await client.get("/stac/search", params=everything, headers=headers),
        await client.post("/stac/search", json=everything, headers=headers),
    ):
        assert answer.status_code == 200
        assert {item["id"] for item in answer.json()["features"]} == visible


@pytest.mark.parametrize(("headers", "visible"), VISIBLE)
async def test_items_and_collections_are_shown_only_to_who_may_read_them(
    headers: dict[str, str], visible: set[str], client: httpx.AsyncClient
) -> None:
    listed = (await client.get("/stac/collections", headers=headers)).json()
    assert {collection["id"] for collection in listed["collections"]} == {item.split("-")[0] for item in visible}
    assert listed["numberMatched"] == len(listed["collections"])
    for item in ALL:
        collection = f"/stac/collections/{item.split('-')[0]}"
        answer = await client.get(f"{collection}/items/{item}", headers=headers)
        assert answer.status_code == (200 if item in visible else 404)
        items = await client.get(f"{collection}/items", headers=headers)
        if items.status_code == 200:
            assert {found["id"] for found in items.json()["features"]} <= visible


async def test_asking_by_id_or_filter_reveals_nothing_more(client: httpx.AsyncClient) -> None:
    for params in (
        {"ids": "inner-1-r1"},
        {"collections": "inner"},
        {"ids": "inner-1-r1,open-2-r1", "collections": "inner"},
        {"filter": "id = 'inner-1-r1'", "filter-lang": "cql2-text"},
    ):
        answer = await client.get("/stac/search", params=params)
        assert (answer.status_code, answer.json()["features"]) == (200, [])
        assert "inner-1-r1" not in str({**answer.json(), "links": []})


@pytest.mark.parametrize("path", ["", "/items", "/queryables", "/items/inner-1-r1"])
async def test_hidden_collection_looks_like_a_missing_one(path: str, client: httpx.AsyncClient) -> None:
    hidden = await client.get(f"/stac/collections/inner{path}")
    absent = await client.get(f"/stac/collections/nobody{path}")
    assert hidden.status_code == absent.status_code == 404
    assert hidden.text.replace("inner", "nobody") == absent.text
    assert (await client.get(f"/stac/collections/inner{path}", headers=OWNER)).status_code == 200


async def test_served_item_is_the_one_that_the_handler_wrote(client: httpx.AsyncClient) -> None:
    item = (await client.get("/stac/collections/open/items/open-2-r1")).json()
    assert item["properties"]["platform:version_id"] == "v2"
    assert item["assets"]["data"]["bands"][0]["data_type"] == "uint16"
    links = {link["rel"]: link["href"] for link in item["links"]}
    assert links["self"] == "http://serving/stac/collections/open/items/open-2-r1"


async def test_pages_of_a_search_follow_each_other_and_end(client: httpx.AsyncClient) -> None:
    seen: list[str] = []
    url: str | None = "/stac/search?limit=3"
    while url:
        page = (await client.get(url)).json()
        seen += [item["id"] for item in page["features"]]
        url = next((link["href"] for link in page["links"] if link["rel"] == "next"), None)
    assert sorted(seen) == sorted(PUBLIC)


NO_SHAPES: list[Any] = [
    {"type": "Polygon", "coordinates": None},
    {"type": "Polygon", "coordinates": "all"},
    {"type": "Polygon", "coordinates": [[[0, 0], [1, 1], [1, 0]]]},
    {"type": "Point", "coordinates": [[[1, 2]]]},
    {"type": "Blob", "coordinates": [1, 2]},
    {"bbox": [1, 2, 3, 4]},
    [1, 2],
    ["a", 2, 3, 4],
]
WORLD = {"type": "Polygon", "coordinates": [[[-180, -90], [180, -90], [180, 90], [-180, 90], [-180, -90]]]}


def token(collection: str, item: str) -> str:
    return f"next:{collection.encode().hex()}:{item.encode().hex()}"


async def test_a_made_up_page_tells_nothing_of_hidden_items(client: httpx.AsyncClient) -> None:
    hidden, absent = token("inner", "inner-1-r1"), token("inner", "inner-7-r1")
    for headers, equal in (({}, True), (OWNER, False)):
        answers = [
            await client.get("/stac/search", params={"token": page}, headers=headers) for page in (hidden, absent)
        ]
        assert (answers[0].content == answers[1].content) is equal


@pytest.mark.parametrize(
    "search",
    [
        {"collections": ["a\x00"]},
        {"token": "next:nowhere"},
        {"filter": {"op": "no_such_function", "args": [1, 2]}},
        {"filter": {"op": "=", "args": [{"property": "a'; DROP TABLE items; --"}, 1]}},
        {"sortby": [{"field": "a'; DROP TABLE items; --", "direction": "asc"}]},
        {"query": {"datetime": {"no_such_operator": 1}}},
        {"datetime": "yesterday"},
        {"bbox": [1, 2]},
        {"limit": -1},
        {"bbox": [10, 40, -50, 20, 50, 9000, 1]},
        *({"filter": {"op": "s_intersects", "args": [{"property": "geometry"}, shape]}} for shape in NO_SHAPES),
        {"filter": {"op": "not", "args": [{"op": "s_within", "args": [{"property": "geometry"}, NO_SHAPES[0]]}]}},
    ],
)
async def test_senseless_search_is_refused_or_reveals_nothing_more(
    search: dict[str, object], client: httpx.AsyncClient
) -> None:
    answer = await client.post("/stac/search", json=search)
    if answer.status_code == 200:
        assert {item["id"] for item in answer.json()["features"]} <= PUBLIC
    else:
        assert 400 <= answer.status_code < 500, answer.text


@pytest.mark.parametrize(
    "asked",
    [{"bbox": "nan,0,1,1"}, {"bbox": "0,0,inf,1"}, {"intersects": "x"}, {"query": "x"}, {"bbox": "1,2"}],
    ids=str,
)
@pytest.mark.parametrize("path", ["/stac/search", "/stac/collections/open/items"])
async def test_senseless_address_is_not_answered_500(
    path: str, asked: dict[str, str], client: httpx.AsyncClient
) -> None:
    if "intersects" in asked and path.endswith("/items"):
        return  # it has no such parameter
    answer = await client.get(path, params=asked)
    assert 400 <= answer.status_code < 500, answer.text


async def test_geometry_means_the_same_in_body_and_filter(client: httpx.AsyncClient) -> None:
    """Members that RFC 7946 does not know are ignored, as the one that named a CRS before it."""
    shape = WORLD | {"crs": {"type": "name", "properties": {"name": "EPSG:3857"}}}
    condition = {"op": "s_intersects", "args": [{"property": "geometry"}, shape]}
    solid = {"op": "s_intersects", "args": [{"property": "geometry"}, [-180, -90, -50, 180, 90, 9000]]}
    for search in ({"intersects": shape}, {"filter": condition}, {"filter": solid}):
        found = (await client.post("/stac/search", json=search)).json()
        assert {item["id"] for item in found["features"]} == PUBLIC


async def test_landing_page_links_to_every_resource(client: httpx.AsyncClient) -> None:
    page = (await client.get("/stac/")).json()
    assert page["id"] == "cairn"
    for link in page["links"]:
        assert link["href"].startswith("http://serving/stac/")
        answer = await client.get(link["href"])
        assert (answer.status_code, "html" in answer.headers["content-type"]) == (200, False), link


async def test_an_unknown_credential_is_refused(client: httpx.AsyncClient) -> None:
    answer = await client.get("/stac/search", headers={"X-API-Key": "guess"})
    assert (answer.status_code, answer.json()["code"]) == (401, "unknown-credential")


@pytest.mark.parametrize(("method", "path"), [("POST", "/stac/collections"), ("DELETE", "/stac/collections/open")])
async def test_every_writing_route_of_the_catalogue_is_refused(
    method: str, path: str, client: httpx.AsyncClient
) -> None:
    assert (await client.request(method, path, json={})).status_code == 405


@pytest.mark.parametrize("path", ["/stac/search", "/stac/collections/open/items"])
async def test_page_of_a_search_has_a_bounded_number_of_items(
    path: str, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Items are asked for by the library; what it is asked for is seen here."""
    asked: list[int] = []
    ask = CoreCrudClient._search_base

    async def seen(self: Any, search: Any, request: Any) -> Any:
        asked.append(search.limit)
        return await ask(self, search, request)

    monkeypatch.setattr(CoreCrudClient, "_search_base", seen)
    for limit in (10_000, 7):
        assert (await client.get(f"{path}?limit={limit}")).status_code == 200
    assert asked == [1000, 7]
