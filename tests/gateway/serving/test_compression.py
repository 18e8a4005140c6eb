"""How answers travel: every public route by HEAD and OPTIONS, open to all origins; texts compressed, files not."""

import gzip
from collections.abc import Iterator
from typing import Any

import httpx
import psycopg
import pytest
from fastapi import APIRouter, FastAPI

from gateway.edge.cross_origin import DATA, is_data
from gateway.serving.compression import takes_gzip
from gateway.serving.layers import MVT
from tests.gateway.serving.conftest import Served
from tests.gateway.serving.test_layers import ZOOM_8, layers  # noqa: F401 - a fixture
from tests.gateway.serving.test_tiles import LAT, LON, TILE_PATH

_, Z, X, Y = TILE_PATH.removesuffix(".png").split("/")
DIGEST = "0123456789abcdef"
TEXT, TEXT_NAME = b"words, " * 1000, f"words-{DIGEST}.csv"
# What stands for the parameters of routes. A route with one that is not here has to be added.
GIVEN = {
    "asset_id": "open", "collection_id": "open", "item_id": "open-2-r1", "collectionId": "fields", "itemId": "1",
    "file_name": TEXT_NAME, "tileMatrixSetId": "WebMercatorQuad", "z": Z, "x": X, "y": Y, "format": "png",
    "lon": f"{LON}", "lat": f"{LAT}", "width": "64", "height": "64",
}  # fmt: skip
IDENTITY, GZIP = {"Accept-Encoding": "identity"}, {"Accept-Encoding": "gzip"}


@pytest.fixture(scope="module", autouse=True)
def text(served: Served) -> Iterator[None]:
    """A text beside the product, as long as what is compressed."""
    (served.root / "silver" / "words.csv").write_bytes(TEXT)
    with psycopg.connect(served.admin_url, autocommit=True) as connection:
        values = ("open", 2, "words", "words.csv", DIGEST + "0" * 48, "text/csv")
        connection.execute("insert into api.served_files values (%s, %s, 1, %s, %s, %s, %s)", values)
        yield
        connection.execute("delete from api.served_files where name = 'words.csv'")


def templates(routes: list[Any], prefix: str = "") -> Iterator[str]:
    """The paths of these routes, of those that were included too."""
    for route in routes:
        if included := getattr(route, "effective_candidates", None):
            yield from templates(included(), prefix)
        elif not hasattr(route, "app") or hasattr(route, "endpoint"):  # no mount
            yield prefix + route.path


def public_paths(app: FastAPI) -> list[str]:
    """Every address of data that a route leads to."""
    mounted = {"/stac": app.state.catalog, "/vector": app.state.features}
    known = [*templates(app.routes)]
    for prefix, each in mounted.items():
        known += templates(each.routes, prefix)
    return sorted({path.format(**GIVEN) for path in known if is_data(path)})


async def test_every_public_route_answers_head_and_options_and_is_open(client: httpx.AsyncClient, app: FastAPI) -> None:
    paths = public_paths(app)
    assert len(paths) > 30
    for path in paths:
        answer, head = await client.get(path), await client.head(path)
        expected = 404 if path.endswith("data.parquet") else 200
        assert (answer.status_code, head.status_code, head.content) == (expected, expected, b""), path
        assert dict(head.headers) == dict(answer.headers), path
        asked = await client.options(path)
        allowed = set(asked.headers["allow"].split(", "))
        assert (asked.status_code, asked.content, {"GET", "HEAD", "OPTIONS"} - allowed) == (204, b"", set()), path
        refused = await client.request("PATCH", path)
        assert (refused.status_code, refused.headers["allow"]) == (405, asked.headers["allow"]), path
        for each in (answer, head, asked, refused):
            assert (each.headers["access-control-allow-origin"], each.headers["access-control-expose-headers"]) == (
                "*",
                "*",
            ), path
            assert "access-control-allow-credentials" not in each.headers


def test_new_public_route_is_covered_by_the_walk() -> None:
    app, router = FastAPI(), APIRouter()
    router.add_api_route("/tiles/{asset_id}/new", lambda: None)
    app.include_router(router)
    app.state.catalog = app.state.features = FastAPI(openapi_url=None)
    assert public_paths(app) == ["/tiles/open/new"]


async def test_a_search_may_be_posted(client: httpx.AsyncClient) -> None:
    asked = await client.options("/stac/search")
    assert asked.headers["allow"] == "GET, HEAD, OPTIONS, POST"


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/metrics", "/openapi.json", "/tilesets", "/"])
async def test_only_data_addresses_allow_other_origins(path: str, client: httpx.AsyncClient) -> None:
    asking = {"Origin": "https://elsewhere.test", "Access-Control-Request-Method": "GET"}
    for answer in (await client.get(path, headers=asking), await client.options(path, headers=asking)):
        assert [name for name in answer.headers if name.startswith("access-control")] == []


@pytest.mark.parametrize("path", ["/livez", "/readyz"])
async def test_probes_answer_head_requests(path: str, client: httpx.AsyncClient) -> None:
    assert (await client.head(path)).status_code == 200
    refused = await client.post(path)
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize("root", DATA)
async def test_preflight_of_a_missing_asset_equals_that_of_an_existing_one(
    root: str, client: httpx.AsyncClient
) -> None:
    asking = {
        "Origin": "https://elsewhere.test",
        "Access-Control-Request-Method": "GET",
        "Access-Control-Request-Headers": "range,if-none-match,x-api-key,authorization",
    }
    answers = [await client.options(f"{root}/{path}", headers=asking) for path in ("open/info", "of/nobody")]
    assert answers[0].headers == answers[1].headers
    assert (answers[0].status_code, answers[0].headers["access-control-allow-origin"]) == (200, "*")
    for unwanted in ({"Access-Control-Request-Method": "DELETE"}, {"Access-Control-Request-Headers": "cookie"}):
        assert (await client.options(f"{root}/open", headers=asking | unwanted)).status_code == 400


@pytest.mark.parametrize(
    "path",
    [
        "/vector/collections/fields/items",
        "/vector/collections/fields/items?f=geojsonseq",
        "/vector/collections/fields/items?f=csv",
        f"/tiles/fields/{ZOOM_8}",
        "/stac/search",
        "/stac/collections/open/items",
        "/stac/api",
    ],
)
async def test_text_and_vector_tiles_are_compressed_for_clients_that_accept_gzip(
    path: str, client: httpx.AsyncClient
) -> None:
    plain = await client.get(path, headers=IDENTITY)
    async with client.stream("GET", path, headers=GZIP) as packed:
        sent = b"".join([piece async for piece in packed.aiter_raw()])
    assert "content-encoding" not in plain.headers
    assert (packed.headers["content-encoding"], packed.headers["content-type"]) == (
        "gzip",
        plain.headers["content-type"],
    )
    assert gzip.decompress(sent) == plain.content
    assert len(sent) < len(plain.content)
    assert int(packed.headers.get("content-length", len(sent))) == len(sent)
    for answer in (plain, packed):
        assert "Accept-Encoding" in answer.headers["vary"].split(", ")
    if tag := plain.headers.get("etag"):
        assert packed.headers["etag"] == f"W/{tag}"
        for known in (tag, f"W/{tag}"):
            again = await client.get(path, headers=GZIP | {"If-None-Match": known})
            assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize(
    "path",
    [f"/tiles/open/{TILE_PATH}", "/tiles/open/preview.webp", "/tiles/open/preview.tif", "/tiles/open/preview.npy",
     "/tiles/open/data.tif", f"/tiles/open/files/{TEXT_NAME}", "/livez"],
)  # fmt: skip
async def test_pictures_and_files_are_not_compressed(path: str, client: httpx.AsyncClient) -> None:
    plain, answer = await client.get(path, headers=IDENTITY), await client.get(path, headers=GZIP)
    assert (plain.status_code, "content-encoding" in answer.headers) == (200, False)
    assert (answer.content, answer.headers.get("etag")) == (plain.content, plain.headers.get("etag"))


@pytest.mark.parametrize(
    ("path", "media_type"), [(f"files/{TEXT_NAME}", "text/csv; charset=utf-8"), ("data.tif", "image/tiff")]
)
async def test_range_answers_bytes_of_the_version_that_its_tag_names(
    path: str, media_type: str, client: httpx.AsyncClient
) -> None:
    whole = await client.get(f"/tiles/open/{path}", headers=GZIP)
    assert whole.headers["content-type"].startswith(media_type)
    asked = GZIP | {"Range": "bytes=1000-2999", "If-Range": whole.headers["etag"]}
    part = await client.get(f"/tiles/open/{path}", headers=asked)
    assert (part.status_code, part.content) == (206, whole.content[1000:3000])
    assert part.headers["content-range"] == f"bytes 1000-2999/{len(whole.content)}"
    assert "content-encoding" not in part.headers


async def test_small_vector_tile_keeps_its_media_type(client: httpx.AsyncClient) -> None:
    answer = await client.get(f"/tiles/fields/{ZOOM_8}", headers=GZIP)
    assert answer.headers["content-type"] == MVT


@pytest.mark.parametrize(
    ("accepted", "taken"),
    [("gzip", True), ("br, gzip;q=0.5", True), ("GZIP", True), ("deflate,gzip; q=1", True),
     ("", False), ("br", False), ("gzip;q=0", False), ("gzip;q=0.0, br", False), ("identity", False), ("xgzip", False)],
)  # fmt: skip
def test_accept_encoding_header_of_every_form_is_judged(accepted: str, taken: bool) -> None:
    assert takes_gzip(accepted) is taken


@pytest.mark.parametrize(
    ("path", "route"),
    [
        ("/tiles/archive/info", "/tiles/{asset_id}/info"),
        ("/tiles/archive/data.tif", "/tiles/{asset_id}/data.tif"),
        ("/stac/conformance", "/stac/conformance"),
    ],
)
async def test_head_request_is_counted_once_under_its_route(
    path: str, route: str, client: httpx.AsyncClient, app: FastAPI
) -> None:
    def counted() -> dict[str, float]:
        lines = [line.rpartition(" ") for line in app.state.metering.text().decode().splitlines()]
        return {name: float(value) for name, _, value in lines if name.startswith("cairn_http_request_seconds_count")}

    before = counted()
    assert (await client.head(path)).status_code == 200
    added = {name: value - before.get(name, 0) for name, value in counted().items() if value != before.get(name)}
    expected = f'cairn_http_request_seconds_count{{method="HEAD",route="{route}",status="2xx"}}'
    assert added == {expected: 1.0}
