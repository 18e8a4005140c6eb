"""Serving's figures: routes by template, what was remembered, connections; to the public they are not there."""

import httpx
from fastapi import FastAPI
from pydantic import SecretStr

from gateway.serving.app import create_app
from gateway.serving.settings import ServingSettings
from tests.gateway.serving.conftest import Served

TOKEN = "0123456789abcdef-watching"


async def test_metrics_are_answered_404_to_everybody_but_operators(client: httpx.AsyncClient) -> None:
    for token, status in ((None, 404), ("ddh-client", 404), ("a-reviewer", 404), ("no-such", 401)):
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        assert (await client.get("/metrics", headers=headers)).status_code == status, token


async def test_metrics_show_routes_caches_and_connections(served: Served) -> None:
    app: FastAPI = create_app(
        ServingSettings(
            database_serving_url=SecretStr(served.serving_url),
            storage_root=served.root,
            metrics_token=SecretStr(TOKEN),
            serving_memory_seconds=1.5,
        )
    )
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://serving") as client,
    ):
        for _ in range(3):
            assert (await client.get("/tiles/open/WebMercatorQuad/tilejson.json")).status_code == 200
        await client.get("/stac/collections/partners-words")
        await client.get("/vector/collections")
        text = (await client.get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"})).text
    assert 'route="/tiles/{asset_id}/{tileMatrixSetId}/tilejson.json",status="2xx"} 3.0' in text
    assert 'route="/stac/collections/{collection_id}"' in text
    assert 'route="/vector/collections"' in text
    assert "partners-words" not in text
    assert 'cairn_serving_cache_total{cache="memory",result="hit"}' in text
    assert 'cairn_serving_cache_total{cache="memory",result="hit"} 0.0' not in text
    assert 'cairn_database_connections{kind="most",pool="lookup"} 4.0' in text
    assert 'cairn_database_connections{kind="most",pool="layers"} 4.0' in text
