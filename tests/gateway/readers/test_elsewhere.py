"""Data at the front door for whoever is elsewhere: pages of another origin in a real browser, and programs."""

import gzip
import http.server
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import morecantile
import pytest
from playwright.async_api import Browser, Page

from gateway.serving.freshness import SHARED_SECONDS
from tests.support.acts import decide
from tests.support.browsing import chromium
from tests.support.console import Assembly

PREFLIGHT = {
    "Origin": "https://elsewhere.test",
    "Access-Control-Request-Method": "GET",
    "Access-Control-Request-Headers": "range,if-none-match",
}
# What a page reads of an answer, and that it cannot read one.
READ = """
async ([url, options]) => {
    try {
        const answer = await fetch(url, options);
        const content = new Uint8Array(await answer.arrayBuffer());
        return {status: answer.status, size: content.length, headers: Object.fromEntries(answer.headers),
                text: new TextDecoder().decode(content)};
    } catch (error) {
        return {refused: error.name};
    }
}
"""
PICTURE = "url => new Promise(done => { const picture = new Image(); picture.onload = done; picture.src = url; })"


@pytest.fixture(scope="module")
async def asset_id(assembly: Assembly) -> str:
    """A public raster."""
    made = await assembly.processed("one", "up/elsewhere.tif", 7, dataset_id="elsewhere")
    answer = await decide(assembly.domain, made, 0, "approve", clearance_level="public")
    assert answer.status_code == 200, answer.text
    return made


@pytest.fixture(scope="module")
async def tile(assembly: Assembly, asset_id: str) -> str:
    """The address of a tile that has pixels."""
    told = (await assembly.ask(None, "GET", f"/tiles/{asset_id}/WebMercatorQuad/tilejson.json")).json()
    lon, lat = told["center"][:2]
    place = morecantile.tms.get("WebMercatorQuad").tile(lon, lat, told["minzoom"])
    return f"/tiles/{asset_id}/WebMercatorQuad/{place.z}/{place.x}/{place.y}.png"


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[str]:
    """Another origin: a server with one empty page."""

    class Empty(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """It is quiet."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Empty) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture(scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as launched:
        yield launched


@pytest.fixture
async def page(browser: Browser, elsewhere: str) -> AsyncIterator[Page]:
    """A page of the other origin, in a browser that knows nothing yet."""
    context = await browser.new_context()
    made = await context.new_page()
    await made.goto(elsewhere)
    yield made
    await context.close()


async def read(page: Page, url: str, **options: Any) -> dict[str, Any]:
    found: dict[str, Any] = await page.evaluate(READ, [url, options])
    return found


async def test_a_page_of_another_origin_reads_data(assembly: Assembly, asset_id: str, tile: str, page: Page) -> None:
    url = assembly.url
    picture = await read(page, url + tile)
    assert (picture["status"], picture["headers"]["content-type"]) == (200, "image/png")
    told = await read(page, f"{url}/tiles/{asset_id}/WebMercatorQuad/tilejson.json")
    assert '"tilejson"' in told["text"]
    search = {
        "method": "POST",
        "body": '{"bbox": [-180, -90, 180, 90]}',
        "headers": {"Content-Type": "application/json"},
    }
    found = await read(page, f"{url}/stac/search", **search)
    assert f"{asset_id}-0-r1" in found["text"]
    whole = f"{url}/tiles/{asset_id}/data.tif"
    part = await read(page, whole, headers={"Range": "bytes=0-99", "X-API-Key": "secret-ddh-dev"})
    assert (part["status"], part["size"]) == (206, 100)
    assert part["headers"]["content-range"].startswith("bytes 0-99/")
    known = {"If-None-Match": part["headers"]["etag"], "Cache-Control": "no-cache"}
    assert (await read(page, whole, method="HEAD"))["headers"]["etag"] == part["headers"]["etag"]
    assert "refused" in await read(page, whole, headers=known)  # a header that is not among those a page may send
    absent = await read(page, f"{url}/tiles/nobody/info")
    assert (absent["status"], '"not-found"' in absent["text"]) == (404, True)


async def test_cached_picture_is_readable_by_a_page_of_another_origin(
    assembly: Assembly, tile: str, page: Page
) -> None:
    """Asked for by a picture, there was no origin; a page that asks next is given what was kept of that."""
    await page.evaluate(PICTURE, assembly.url + tile)
    kept = await read(page, assembly.url + tile, cache="force-cache")
    assert (kept["status"], kept["headers"]["cache-control"]) == (200, f"public, max-age={SHARED_SECONDS}")


@pytest.mark.parametrize("path", ["/console/sign-in", "/api/assets", "/api/livez", "/metrics"])
async def test_a_page_of_another_origin_reads_nothing_else(assembly: Assembly, page: Page, path: str) -> None:
    assert await read(page, assembly.url + path) == {"refused": "TypeError"}


async def test_a_page_of_another_origin_reads_nothing_with_cookies(assembly: Assembly, tile: str, page: Page) -> None:
    """As somebody who is signed in at the console, it would read what that person may."""
    assert await read(page, assembly.url + tile, credentials="include") == {"refused": "TypeError"}


NO_DATA = ["/console/", "/console/sign-in", "/api/platform/submit", "/api/assets", "/api/proxy/engine/x",
           "/ogc/processes", "/api/livez", "/metrics", "/", "/nowhere", "/tilesets"]  # fmt: skip


@pytest.mark.parametrize("path", NO_DATA)
async def test_only_data_addresses_allow_other_origins(assembly: Assembly, path: str) -> None:
    for method in ("GET", "POST", "OPTIONS"):
        answer = await assembly.ask(None, method, path, headers=PREFLIGHT)
        assert [name for name in answer.headers if name.startswith("access-control")] == [], (method, path)


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/tiles/some/info", "GET, HEAD, OPTIONS"),
        ("/stac/search", "GET, HEAD, OPTIONS, POST"),
        ("/vector", "GET, HEAD, OPTIONS"),
    ],
)
async def test_options_request_names_the_methods_of_data_addresses(assembly: Assembly, path: str, allowed: str) -> None:
    asked, refused = await assembly.ask(None, "OPTIONS", path), await assembly.ask(None, "DELETE", path)
    assert (asked.status_code, asked.content, asked.headers["allow"]) == (204, b"", allowed)
    assert (refused.status_code, refused.headers["allow"]) == (405, allowed)


@pytest.mark.parametrize(
    ("path", "allowed"), [("/api/platform/submit", "POST"), ("/api/assets", "GET"), ("/console/", "GET, HEAD, POST")]
)
async def test_refused_method_is_answered_with_the_allowed_ones(assembly: Assembly, path: str, allowed: str) -> None:
    refused = await assembly.ask("ddh-dev", "DELETE", path)
    assert (refused.status_code, refused.headers["allow"]) == (405, allowed)


async def test_gateway_forwards_head_ranges_tags_and_compression(assembly: Assembly, asset_id: str, tile: str) -> None:
    async with httpx.AsyncClient(base_url=assembly.url, headers={"Accept-Encoding": "gzip"}) as http:
        for path in (
            tile,
            f"/tiles/{asset_id}/data.tif",
            f"/tiles/{asset_id}/info",
            "/stac/collections",
            "/stac/search",
        ):
            answer, head = await http.get(path), await http.head(path)
            unlike = {"date", "server"}
            assert head.content == b""
            assert {**head.headers} | dict.fromkeys(unlike, "") == {**answer.headers} | dict.fromkeys(unlike, "")
        whole = await http.get(f"/tiles/{asset_id}/data.tif")
        wanted = {"Range": "bytes=100-299", "If-Range": whole.headers["etag"]}
        part = await http.get(f"/tiles/{asset_id}/data.tif", headers=wanted)
        assert (part.status_code, part.content) == (206, whole.content[100:300])
        again = await http.get(f"/tiles/{asset_id}/data.tif", headers={"If-None-Match": whole.headers["etag"]})
        assert (again.status_code, again.headers["access-control-allow-origin"]) == (304, "*")
        async with http.stream("GET", "/stac/search") as packed:
            sent = b"".join([piece async for piece in packed.aiter_raw()])
        assert (packed.headers["content-encoding"], packed.headers["content-length"]) == ("gzip", str(len(sent)))
        assert (
            gzip.decompress(sent) == (await http.get("/stac/search", headers={"Accept-Encoding": "identity"})).content
        )


async def test_refusal_by_the_gateway_is_readable_by_another_origin(assembly: Assembly) -> None:
    wrong = await assembly.ask(None, "GET", "/tiles/some/info", headers={"X-API-Key": "wrong"})
    assert (wrong.status_code, wrong.headers["www-authenticate"]) == (401, "Bearer")
    assert (wrong.headers["access-control-allow-origin"], wrong.headers["x-content-type-options"]) == ("*", "nosniff")
