"""A database with pgSTAC, a few served products made by the real handlers, and the app over both."""

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import httpx
import psycopg
import pytest
from fastapi import FastAPI
from psycopg.types.json import Jsonb
from pydantic import SecretStr

from deployments import sample
from flows.handlers.raster.declarations import (
    CogResult,
    CreateCogParams,
    RegisterItemParams,
    create_cog,
    stac_register_item,
)
from gateway.serving.app import create_app
from gateway.serving.settings import ServingSettings
from tests.support.cluster import TestCluster
from tests.support.rasters import bronze, context_in

SIZE = 1024
# Asset, exposure, and the clearance of each of its versions; the last is the latest. All belong to platform ddh.
ASSETS = {
    "open": ("latest_only", ["public", "public"]),
    "archive": ("all_versions", ["public", "public"]),
    "inner": ("latest_only", ["ouo"]),
    "mixed": ("all_versions", ["ouo", "public"]),
    "draft": ("latest_only", ["uncleared"]),
}
# Client, role, platform, active. A client's token is its name.
CLIENTS = [
    ("ddh-client", "partner", "ddh", True),
    ("arcgis-client", "partner", "arcgis", True),
    ("a-reviewer", "reviewer", None, True),
    ("a-worker", "worker", None, True),
    ("revoked-client", "partner", "ddh", False),
]
# In place of what migrations make: tables where the domain has views, so that tests write what serving is to read.
SCHEMA = """
DROP SCHEMA api, geo CASCADE;
CREATE SCHEMA api;
CREATE TABLE api.products (asset_id text, platform_id text, ordinal int, revision int, clearance text, approval text,
    is_latest bool, exposure text, cog_name text, nodata double precision, bands jsonb, bounds_wgs84 jsonb,
    parquet_name text, table_name text, layer jsonb);
CREATE TABLE api.clients (secret_hash text, client_id text, role text, platform_id text, is_active bool);
CREATE VIEW api.served_products AS SELECT * FROM api.products WHERE approval = 'approved';
CREATE VIEW api.staged_products AS SELECT * FROM api.products WHERE approval = 'pending_review';
CREATE TABLE api.served_files (asset_id text, ordinal int, revision int, role text, name text, sha256 text,
    media_type text);
CREATE TABLE api.served_in_parts (asset_id text, ordinal int, revision int);
CREATE VIEW api.staged_files AS SELECT * FROM api.served_files;
CREATE TABLE api.descriptions (asset_id text, ordinal int, revision int, role text, name text);
CREATE SCHEMA geo;
CREATE VIEW api.identities AS SELECT * FROM api.clients;
CREATE VIEW api.sessions AS SELECT null::text AS session_hash, c.client_id, c.role, c.platform_id
    FROM api.clients c WHERE false;
GRANT USAGE ON SCHEMA api, geo TO cairn_serving;
GRANT SELECT ON api.served_products, api.staged_products, api.served_files, api.staged_files, api.served_in_parts,
    api.descriptions, api.identities, api.sessions TO cairn_serving;
"""


@dataclass(frozen=True)
class Served:
    """What the tests know of the products: the formula's seed of a version is its ordinal number."""

    admin_url: str
    serving_url: str
    root: Path


@pytest.fixture(scope="session")
def served(cluster: TestCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Products on disk, their rows, and their items in the catalogue."""
    root = tmp_path_factory.mktemp("zones")
    with cluster.database() as database:
        with psycopg.connect(database.url(), autocommit=True) as connection:
            connection.execute(SCHEMA)
            _add_clients(connection)
            for asset_id, (exposure, clearances) in ASSETS.items():
                _add_asset(connection, root, asset_id, exposure, clearances)
        yield Served(database.url(), database.url("cairn_serving"), root)


def _add_clients(connection: psycopg.Connection) -> None:
    for client_id, role, platform_id, is_active in CLIENTS:
        digest = sha256(client_id.encode()).hexdigest()
        values = (digest, client_id, role, platform_id, is_active)
        connection.execute("INSERT INTO api.clients VALUES (%s, %s, %s, %s, %s)", values)


def _add_asset(connection: psycopg.Connection, root: Path, asset_id: str, exposure: str, clearances: list[str]) -> None:
    connection.execute("SELECT pgstac.create_collection(%s)", (Jsonb(_collection(asset_id)),))
    for ordinal, clearance in enumerate(clearances, start=1):
        product, item = _make(root, asset_id, ordinal)
        connection.execute("SELECT pgstac.create_item(%s)", (Jsonb(item),))
        bands = Jsonb([band.model_dump() for band in product.bands])
        is_latest = ordinal == len(clearances)
        values = (asset_id, "ddh", ordinal, 1, clearance, "approved", is_latest, exposure, product.cog, 0, bands)
        connection.execute(
            "INSERT INTO api.products VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
            (*values, Jsonb(product.bounds_wgs84)),
        )


def _make(root: Path, asset_id: str, ordinal: int) -> tuple[CogResult, dict[str, object]]:
    facts = {"asset_id": asset_id, "version_ordinal": ordinal, "revision": 1, "version_label": f"v{ordinal}"}
    prefix = f"rasters/{asset_id}/{ordinal}-r1/a1"
    context = context_in(root, output_prefix=prefix, facts={**facts, "request_id": "request"})
    source = f"up/{ordinal}.tif"
    if context.storage.bronze.size_bytes(source) is None:
        sample.write(bronze(root, source), seed=ordinal, size=SIZE)
    product = create_cog(CreateCogParams(source=source), context)
    made = stac_register_item(RegisterItemParams(product=product, source=source, source_sha256="0" * 64), context)
    return product, json.loads(context.storage.silver.read_bytes(made.item))


def _collection(asset_id: str) -> dict[str, object]:
    return {
        "type": "Collection",
        "stac_version": "1.1.0",
        "id": asset_id,
        "description": asset_id,
        "license": "other",
        "extent": {"spatial": {"bbox": [[-180, -90, 180, 90]]}, "temporal": {"interval": [[None, None]]}},
        "links": [],
    }


@pytest.fixture(scope="session")
def app(served: Served) -> FastAPI:
    """Remembers nothing: tests change its tables behind its back. Its drawing process lets nobody go first, and has all
    the time that it takes.
    """
    settings = ServingSettings(
        database_serving_url=SecretStr(served.serving_url),
        storage_root=served.root,
        serving_memory_seconds=0,
        serving_drawing_niceness=0,
        serving_drawing_seconds=600,
    )
    return create_app(settings)


@pytest.fixture(scope="session")
async def client(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://serving") as client,
    ):
        yield client
