"""The process: what it opens and when, what it says of its health, what it may do in the database."""

import subprocess
import sys

import httpx
import psycopg
import pytest
from fastapi import FastAPI
from pydantic import SecretStr, ValidationError

from gateway.serving.app import create_app
from gateway.serving.settings import ServingSettings
from tests.gateway.serving.conftest import Served


async def test_alive_and_ready(client: httpx.AsyncClient) -> None:
    assert (await client.get("/livez")).json() == {"status": "alive"}
    assert (await client.get("/readyz")).json() == {"status": "ready"}


async def test_not_ready_while_its_views_are_gone(client: httpx.AsyncClient, served: Served) -> None:
    with psycopg.connect(served.admin_url, autocommit=True) as connection:
        connection.execute("ALTER VIEW api.identities RENAME TO elsewhere")
        answer = await client.get("/readyz")
        connection.execute("ALTER VIEW api.elsewhere RENAME TO identities")
    assert (answer.status_code, answer.json()["code"]) == (503, "not-ready")
    assert (await client.get("/readyz")).status_code == 200


async def test_a_downgrade_is_effective_at_once(client: httpx.AsyncClient, served: Served) -> None:
    with psycopg.connect(served.admin_url, autocommit=True) as connection:
        assert (await client.get("/tiles/open/info")).status_code == 200
        connection.execute("UPDATE api.products SET clearance = 'ouo' WHERE asset_id = 'open'")
        try:
            assert (await client.get("/tiles/open/info")).status_code == 404
            assert (await client.get("/stac/collections/open")).status_code == 404
        finally:
            connection.execute("UPDATE api.products SET clearance = 'public' WHERE asset_id = 'open'")


@pytest.mark.parametrize("door", ["info", "data.tif"])
async def test_a_failure_of_ours_names_no_path(
    door: str, client: httpx.AsyncClient, app: FastAPI, served: Served
) -> None:
    """A file that is gone is the storage's failure: the database still knows its product."""
    app.state.sources.handles.close()  # what is open already would be read on
    moved = served.root / "silver-elsewhere"
    (served.root / "silver").rename(moved)
    try:
        answer = await client.get(f"/tiles/open/{door}")
    finally:
        moved.rename(served.root / "silver")
    assert (answer.status_code, answer.json()["code"]) == (503, "storage-unavailable")
    assert (answer.headers["retry-after"], answer.headers["cache-control"]) == ("5", "no-store")
    assert "silver" not in answer.text


async def test_both_pools_are_read_only(client: httpx.AsyncClient, app: FastAPI) -> None:
    async with app.state.lookup._pool.connection() as connection:
        cursor = await connection.execute("SELECT current_user, current_setting('transaction_read_only')")
        assert list((await cursor.fetchone()).values()) == ["cairn_serving", "on"]
    stac = app.state.catalog
    async with stac.state.readpool.acquire() as connection:
        row = await connection.fetchrow("SELECT current_user, current_setting('transaction_read_only')")
        assert list(row) == ["cairn_serving", "on"]
    assert not hasattr(stac.state, "writepool")


def test_building_the_app_opens_no_connection() -> None:
    url = SecretStr("postgresql://nobody@127.0.0.1:1/nowhere")
    app = create_app(ServingSettings.model_validate({"database_serving_url": url, "storage_root": "zones"}))
    assert not hasattr(app.state, "lookup")


@pytest.mark.parametrize("url", ["", "sqlite:///cairn.db", "not a url"])
def test_refuses_to_start_on_nonsense(url: str) -> None:
    with pytest.raises(ValidationError):
        ServingSettings.model_validate({"database_serving_url": url, "storage_root": "zones"})


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAIRN_DATABASE_SERVING_URL", "postgresql://cairn_serving:secret@127.0.0.1/cairn")
    monkeypatch.setenv("CAIRN_STORAGE_ROOT", "zones")
    assert "secret" not in repr(ServingSettings())


def test_the_rule_needs_no_library() -> None:
    code = "import sys; import domain.rules.clearance; print({'fastapi', 'pydantic', 'rasterio'} & sys.modules.keys())"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "set()"
