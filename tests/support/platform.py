"""The domain and the gateway over a test database, and callers of every role."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
from cryptography.fernet import Fernet
from pydantic import HttpUrl, SecretStr

from domain.app import create_app
from domain.security import secret_hash
from domain.settings import DomainSettings
from domain.state import Service
from gateway.app import create_app as create_gateway
from gateway.domain_client.client import DomainClient
from gateway.settings import GatewaySettings
from gateway.state import Gateway
from tests.support.asking import ask
from tests.support.clock import eventually
from tests.support.cluster import TestDatabase

SEALING_KEY, AUDIT_KEY = Fernet.generate_key().decode(), "a key of the audit's seals, for tests"
KEYS = {"CAIRN_SECRETS_KEYS": json.dumps([SEALING_KEY]), "CAIRN_AUDIT_KEYS": json.dumps([AUDIT_KEY])}
# client id, role, platform. A client's secret is `secret-` and its id.
CLIENTS = (
    ("ddh-dev", "partner", "ddh"),
    ("arcgis-dev", "partner", "arcgis"),
    ("reviewer", "reviewer", None),
    ("operator", "operator", None),
    ("admin", "admin", None),
    ("worker", "worker", None),
    ("gateway", "gateway", None),
)


def add_clients(database: TestDatabase) -> None:
    ask(
        database.url(),
        "insert into app.clients (client_id, role, platform_id, display_name, secret_hash)"
        " select name, role, platform, name, hash"
        " from unnest(%s::text[], %s::text[], %s::text[], %s::text[]) as added (name, role, platform, hash)",
        [*map(list, zip(*CLIENTS, strict=True)), [secret_hash(f"secret-{name}") for name, _, _ in CLIENTS]],
    )
    # What tests submit lies in folders that partners share; tests of whose folders are whose say others.
    ask(database.url(), "update app.platforms set source_prefixes = '{uploads/,up/,u/}'")


def domain_settings(database: TestDatabase, storage: Path, **changes: Any) -> DomainSettings:
    """Settings without the relay and the courier: what they would send, tests look at in the tables."""
    values: dict[str, Any] = {
        "database_url": SecretStr(database.url("cairn_app")),
        "public_url": HttpUrl("http://cairn.test"),
        "plaintext_hosts": ("cairn.test",),
        "storage_root": storage,
        "relay_enabled": False,
        "callbacks_enabled": False,
        "attempt_pause_seconds": 0,  # what is lost may be tried again at once; tests of pauses say otherwise
        "secrets_keys": (SecretStr(SEALING_KEY),),
        "audit_keys": (SecretStr(AUDIT_KEY),),
    }
    return DomainSettings(**(values | changes))


@dataclass(frozen=True)
class Domain:
    """The running service and its database."""

    transport: httpx.AsyncBaseTransport
    database: TestDatabase
    service: Service

    def as_(self, client_id: str) -> httpx.AsyncClient:
        """A client with that identity's credential."""
        headers = {"Authorization": f"Bearer secret-{client_id}"}
        return httpx.AsyncClient(transport=self.transport, base_url="http://domain", headers=headers)

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """What the database holds, asked as its administrator."""
        return ask(self.database.url(), query, values)

    async def until_listened(self, channel: str, processes: int = 1) -> None:
        """Until so many processes listen there: what is told before that, nobody hears."""
        await eventually(lambda: self.rows(LISTENING, f'listen "{channel}"') == [(processes,)])


LISTENING = """
select count(*) from pg_stat_activity where datname = current_database() and state = 'idle' and query = %s
"""


@asynccontextmanager
async def running_domain(database: TestDatabase, storage: Path, **changes: Any) -> AsyncIterator[Domain]:
    """The domain's application over the database, started and stopped as a server would."""
    add_clients(database)
    async with another_domain(database, storage, **changes) as running:
        yield running


@asynccontextmanager
async def another_domain(database: TestDatabase, storage: Path, **changes: Any) -> AsyncIterator[Domain]:
    """The same beside one that runs already, with connections of its own."""
    app = create_app(domain_settings(database, storage, **changes))
    async with app.router.lifespan_context(app):
        yield Domain(httpx.ASGITransport(app, raise_app_exceptions=False), database, app.state.service)


def submission(**changes: Any) -> dict[str, Any]:
    """A good submission of a raster by ddh, as the gateway words it."""
    body: dict[str, Any] = {
        "request_id": str(uuid4()),
        "platform_id": "ddh",
        "client_id": "ddh-dev",
        "refs": {"dataset_id": "elevation", "resource_id": "dem"},
        "version_label": "1",
        "data_type": "raster",
        "operation": "ingest",
        "source": "uploads/dem.tif",
    }
    return body | changes


@dataclass(frozen=True)
class Platform:
    """The gateway and the domain behind it."""

    gateway: httpx.AsyncBaseTransport
    domain: Domain

    def as_(self, client_id: str | None) -> httpx.AsyncClient:
        """The gateway, for this client or for anybody."""
        headers = {"X-API-Key": f"secret-{client_id}"} if client_id else {}
        return httpx.AsyncClient(transport=self.gateway, base_url="http://gateway", headers=headers)


@asynccontextmanager
async def running_platform(database: TestDatabase, storage: Path, **issuer: Any) -> AsyncIterator[Platform]:
    """Both applications, the gateway as its own database role, speaking HTTP to the domain without a socket."""
    async with running_domain(database, storage, **issuer) as domain:
        app = create_gateway(gateway_settings(database, **issuer))
        async with app.router.lifespan_context(app):
            made: Gateway = app.state.gateway
            http = httpx.AsyncClient(transport=domain.transport, base_url="http://domain")
            app.state.gateway = replace(made, domain=DomainClient(http, "secret-gateway"))
            yield Platform(httpx.ASGITransport(app, raise_app_exceptions=False), domain)


def gateway_settings(database: TestDatabase, **issuer: Any) -> GatewaySettings:
    return GatewaySettings(
        database_gateway_url=SecretStr(database.url("cairn_gateway")),
        domain_url=HttpUrl("http://domain.test"),
        plaintext_hosts=("domain.test",),
        serving_url=HttpUrl("http://127.0.0.1:9"),
        service_token=SecretStr("secret-gateway"),
        **issuer,
    )
