"""Links in answers begin as operators said, whatever a caller or a proxy says of hosts."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from pydantic import HttpUrl, SecretStr

from gateway.edge.public_address import PublicAddress
from gateway.serving.app import create_app
from gateway.serving.settings import ServingSettings
from tests.gateway.serving.conftest import Served
from tests.support.cluster import TestDatabase
from tests.support.platform import running_platform

SAID = {
    "Host": "evil.test",
    "Forwarded": "for=10.0.0.1;host=evil.test;proto=http",
    "X-Forwarded-Host": "evil.test",
    "X-Forwarded-Port": "666",
    "X-Forwarded-Proto": "http",
}
PUBLIC = "https://cairn.example"
ADDRESS = re.compile(r'"(https?://[^/"]+)')
# What else answers name: standards, schemas, example hosts of the catalogue's own items.
ELSEWHERE = re.compile(
    r"(opengis|stacspec|ogc|stac-extensions|json-schema|stac-utils|geojson|cairn\.test|api\.stacspec)"
)


@pytest.fixture
async def public(served: Served) -> AsyncIterator[httpx.AsyncClient]:
    url = SecretStr(served.serving_url)
    app = create_app(ServingSettings(database_serving_url=url, storage_root=served.root, public_url=HttpUrl(PUBLIC)))
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://serving", headers=SAID) as client,
    ):
        yield client


async def test_tiles_files_and_catalogue_link_to_the_public_address(public: httpx.AsyncClient) -> None:
    for path in (
        "/tiles/open/WebMercatorQuad/tilejson.json",
        "/tiles/open/link",
        "/stac/",
        "/stac/collections/open/items",
        "/vector/",
    ):
        answer = await public.get(path)
        assert answer.status_code == 200, path
        links = {found for found in ADDRESS.findall(answer.text) if not ELSEWHERE.search(found)}
        assert links == {PUBLIC}, path


async def test_jobs_of_the_gateway_link_to_the_public_address(database: TestDatabase, tmp_path: Path) -> None:
    async with (
        running_platform(database, tmp_path, public_url=HttpUrl(PUBLIC)) as platform,
        platform.as_("ddh-dev") as partner,
    ):
        answer = await partner.get("/ogc/processes", headers=SAID)
        links = {found for found in ADDRESS.findall(answer.text) if not ELSEWHERE.search(found)}
        assert (answer.status_code, links) == (200, {PUBLIC})


@pytest.mark.parametrize(
    ("url", "path", "host", "scheme"),
    [
        ("https://cairn.example", "/tiles/a", "cairn.example", "https"),
        ("https://cairn.example:8443/", "/tiles/a", "cairn.example:8443", "https"),
        ("http://127.0.0.1:8000", "/stac", "127.0.0.1:8000", "http"),
        ("https://[2001:db8::1]:8443", "/stac", "[2001:db8::1]:8443", "https"),
        ("https://cairn.example", "/console", "evil.test", "http"),
        ("https://cairn.example", "/console/assets", "evil.test", "http"),
        ("https://cairn.example", "/console-of-another", "cairn.example", "https"),
    ],
)
async def test_gateway_uses_the_public_address_but_for_pages_that_compare_hosts(
    url: str, path: str, host: str, scheme: str
) -> None:
    seen: list[httpx.URL | dict[str, str] | str] = []

    async def app(scope: dict[str, object], _receive: object, _send: object) -> None:
        headers = dict(scope["headers"])  # type: ignore[call-overload]
        seen.extend([str(scope["scheme"]), headers[b"host"].decode()])

    sent = [(name.lower().encode(), value.encode()) for name, value in SAID.items()]
    scope = {"type": "http", "path": path, "scheme": "http", "headers": sent}
    await PublicAddress(app, HttpUrl(url), spared="/console")(scope, None, None)  # type: ignore[arg-type]
    assert seen == [scheme, host]
