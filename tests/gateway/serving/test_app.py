"""The process: what it opens and when, what it says of its health, what it may do in the database."""

import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import asyncpg
import httpx
import psycopg
import pytest
from fastapi import FastAPI
from psycopg_pool import PoolTimeout
from pydantic import SecretStr, ValidationError

from gateway.serving import problems
from gateway.serving.app import create_app
from gateway.serving.settings import ServingSettings
from tests.gateway.serving.conftest import Served


async def test_started_service_is_alive_and_ready(client: httpx.AsyncClient) -> None:
    assert (await client.get("/livez")).json() == {"status": "alive"}
    assert (await client.get("/readyz")).json() == {"status": "ready"}


@contextmanager
def without(served: Served, relation: str) -> Iterator[None]:
    """The database as a fault of ours leaves it: what serving asks for is not there."""
    schema, name = relation.split(".")
    with psycopg.connect(served.admin_url, autocommit=True) as connection:
        connection.execute(f"ALTER TABLE {relation} RENAME TO elsewhere".encode())
        try:
            yield
        finally:
            connection.execute(f"ALTER TABLE {schema}.elsewhere RENAME TO {name}".encode())


def faults(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """What was logged as an error of ours, and by which SQLSTATE."""
    found = [each for each in caplog.records if each.levelno == logging.ERROR and each.name == "cairn.serving"]
    return [(each.getMessage(), vars(each)["sqlstate"]) for each in found if each.exc_info]


REFUSED = "the database refused what serving asked"
NO_TABLE, NO_RIGHT, CANCELLED, OUT_OF_MEMORY = "42P01", "42501", "57014", "53200"


async def test_service_is_not_ready_while_its_views_are_gone(
    client: httpx.AsyncClient, served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    with without(served, "api.identities"):
        answer = await client.get("/readyz")
    assert (answer.status_code, answer.json()["code"]) == (503, "not-ready")
    assert faults(caplog) == [(REFUSED, NO_TABLE)]
    assert (await client.get("/readyz")).status_code == 200


@pytest.mark.parametrize(
    ("relation", "path"),
    [
        ("api.served_products", "/tiles/open/info"),
        ("api.served_products", "/stac/search"),
        ("api.served_products", "/vector/collections/open/items"),
        ("pgstac.items", "/stac/search?bbox=0,0,1,1"),
    ],
)
async def test_missing_relation_is_answered_500_and_logged(
    relation: str, path: str, client: httpx.AsyncClient, served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    """By whichever library it is asked. The reader is told no more than that."""
    with without(served, relation):
        answer = await client.get(path)
    assert (answer.status_code, answer.json()["code"]) == (500, "internal")
    assert relation.partition(".")[2] not in answer.text
    assert faults(caplog) == [(REFUSED, NO_TABLE)]


async def test_geometry_with_a_wrong_srid_is_answered_500(
    client: httpx.AsyncClient, served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    """As it once stood in the catalogue, and was passed over as a database that does not answer."""
    change = "UPDATE pgstac.items SET geometry = st_setsrid(geometry, %s)"
    with psycopg.connect(served.admin_url, autocommit=True, options="-c search_path=pgstac,public") as connection:
        connection.execute(change, [0])
        try:
            answer = await client.get("/stac/search", params={"bbox": "-180,-90,180,90"})
        finally:
            connection.execute(change, [4326])
    assert (answer.status_code, answer.json()["code"]) == (500, "internal")
    assert faults(caplog) == [(REFUSED, "XX000")]


@pytest.mark.parametrize("library", [psycopg.errors.lookup, asyncpg.PostgresError.get_message_class_for_sqlstate])
@pytest.mark.parametrize(("state", "status"), [(CANCELLED, 503), (OUT_OF_MEMORY, 503), (NO_RIGHT, 500)])
def test_only_passing_database_failures_count_as_outages(
    library: Callable[[str], type[Exception]], state: str, status: int
) -> None:
    assert problems.of_database(library(state)()).status == status


def test_failed_connection_counts_as_an_outage() -> None:
    assert problems.of_database(PoolTimeout()) is problems.NOT_READY
    assert problems.of_database(psycopg.ProgrammingError()) is problems.INTERNAL


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
async def test_storage_failure_is_answered_without_a_path(
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
def test_senseless_settings_are_refused_at_start(url: str) -> None:
    with pytest.raises(ValidationError):
        ServingSettings.model_validate({"database_serving_url": url, "storage_root": "zones"})


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAIRN_DATABASE_SERVING_URL", "postgresql://cairn_serving:secret@127.0.0.1/cairn")
    monkeypatch.setenv("CAIRN_STORAGE_ROOT", "zones")
    assert "secret" not in repr(ServingSettings())


def test_clearance_rule_loads_no_library() -> None:
    code = "import sys; import domain.rules.clearance; print({'fastapi', 'pydantic', 'rasterio'} & sys.modules.keys())"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "set()"
