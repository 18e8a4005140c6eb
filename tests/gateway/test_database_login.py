"""Logging in to the database: by tokens, asked for at every new connection, and so that a dead server is noticed."""

import os
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import psycopg
import pytest
from fastapi import FastAPI
from psycopg import sql
from pydantic import SecretStr, ValidationError
from sqlalchemy import text

from domain.db import Database
from domain.shared import database_address
from domain.shared.database_address import SCOPE, DatabaseAddress
from domain.shared.notices import REQUEST_CHANNEL, Notices
from gateway.reads.queries import reading_pool
from gateway.serving import catalog, layers
from gateway.serving.lookup import Lookup
from gateway.serving.lookup_cache import LookupCache
from gateway.serving.pools import pool_options
from gateway.serving.settings import ServingSettings
from tests.support.cluster import TestDatabase

ROLE = "token_holder"


@dataclass
class StandIn:
    """Stands in for azure-identity, whose issuer cannot be had here. Each token is another, and works until the next:
    PostgreSQL itself, which knows nothing of Entra here, is told of it as the role's password.
    """

    database: TestDatabase
    asked: list[str] = field(default_factory=list)

    def get_token(self, *scopes: str) -> Any:
        assert scopes == (SCOPE,)
        token = f"token-{len(self.asked)}"
        with psycopg.connect(self.database.url(), autocommit=True) as connection:
            change = sql.SQL("alter role {} password {}")
            connection.execute(change.format(sql.Identifier(ROLE), sql.Literal(token)))
        self.asked.append(token)
        return SimpleNamespace(token=token)


@pytest.fixture
def credential(database: TestDatabase) -> Iterator[StandIn]:
    with psycopg.connect(database.url(), autocommit=True) as connection:
        connection.execute(f"create role {ROLE} login password 'none'".encode())
        connection.execute(f"grant pgstac_read to {ROLE}".encode())
    yield StandIn(database)
    with psycopg.connect(database.url(), autocommit=True) as connection:
        connection.execute(f"drop role {ROLE}".encode())


@pytest.fixture
def address(database: TestDatabase, credential: StandIn) -> DatabaseAddress:
    return DatabaseAddress(url_of(database), credential)


def url_of(database: TestDatabase) -> str:
    parts = urlsplit(database.url())
    return urlunsplit(parts._replace(netloc=f"{ROLE}@127.0.0.1:{parts.port}"))


async def test_database_login_without_a_token_is_refused(database: TestDatabase, credential: StandIn) -> None:
    with pytest.raises(psycopg.OperationalError, match="password"):
        await DatabaseAddress(url_of(database)).connect()
    assert credential.asked == []


async def test_each_connection_of_the_domain_has_a_token_of_its_own(
    address: DatabaseAddress, credential: StandIn
) -> None:
    database = Database(address, pool_size=2)
    try:
        async with database.engine.connect() as one, database.engine.connect() as other:
            for connection in (one, other):
                assert (await connection.execute(text("select current_user"))).scalar() == ROLE
        assert credential.asked == ["token-0", "token-1"]
        async with database.engine.connect() as again:
            assert (await again.execute(text("select 1"))).scalar() == 1
        assert len(credential.asked) == 2, "a connection that is open goes on"
    finally:
        await database.close()


async def test_each_connection_of_the_gateways_pool_has_a_token_of_its_own(
    address: DatabaseAddress, credential: StandIn
) -> None:
    async with reading_pool(address, size=2) as pool, pool.connection() as one, pool.connection() as other:
        for connection in (one, other):
            assert (await (await connection.execute("select current_user")).fetchone()) == (ROLE,)
    assert len(credential.asked) == 2


@pytest.mark.parametrize("room", ["gateway", "serving"])
async def test_pooled_connection_is_used_again(address: DatabaseAddress, credential: StandIn, room: str) -> None:
    """To log in takes longer than most of what is asked."""
    lookup = Lookup(address, 1, LookupCache(0, 1))
    async with reading_pool(address, size=1) if room == "gateway" else lookup._pool as pool:
        backends = set()
        for _ in range(3):
            async with pool.connection() as connection:
                backends.add(connection.info.backend_pid)
    assert len(backends) == 1
    assert len(credential.asked) == 1


async def test_listening_connection_logs_in_with_a_token(address: DatabaseAddress, credential: StandIn) -> None:
    async with await Notices(address, REQUEST_CHANNEL).address.connect(autocommit=True) as connection:
        await connection.execute("listen cairn_requests")
    assert len(credential.asked) == 1


async def test_pools_of_serving_log_in_with_tokens(
    database: TestDatabase, credential: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_address, "machine", lambda: credential)
    settings = ServingSettings(
        database_serving_url=SecretStr(url_of(database)), storage_root=tmp_path, database_auth="entra"
    )
    lookup = Lookup(settings.address(settings.database_serving_url), 1, LookupCache(0, 1))
    await lookup.open()
    await lookup.close()
    app = FastAPI()
    async with layers.connected((app,), settings):
        assert await app.state.pool.fetchval("select current_user") == ROLE
    async with catalog.connected(app, settings):
        assert await app.state.readpool.fetchval("select current_user") == ROLE
        assert await app.state.readpool.fetchval("show search_path") == "pgstac,public"
        assert await app.state.readpool.fetchval("show default_transaction_read_only") == "on"
    assert len(credential.asked) == 3


@pytest.mark.parametrize(
    "connected", [lambda app, settings: layers.connected((app,), settings), catalog.connected], ids=["layers", "stac"]
)
async def test_libraries_of_serving_use_tls_where_the_url_asks_for_it(
    connected: Callable[[FastAPI, ServingSettings], Any], database: TestDatabase, tmp_path: Path
) -> None:
    """The test cluster speaks none: whoever insists is not served, and nothing is said in the clear instead."""
    url = database.url("cairn_serving")
    plain = ServingSettings(database_serving_url=SecretStr(url), storage_root=tmp_path)
    async with connected(FastAPI(), plain):
        pass
    strict = ServingSettings(database_serving_url=SecretStr(f"{url}?sslmode=require"), storage_root=tmp_path)
    with pytest.raises((ConnectionError, asyncpg.PostgresError), match="SSL"):
        async with connected(FastAPI(), strict):
            pass


@pytest.mark.parametrize(
    ("place", "host", "port"),
    [("db.example", ["db.example"], [5432]), ("[::1]:6432", ["::1"], [6432]), ("a:1,b:2", ["a", "b"], [1, 2])],
)
def test_libraries_of_serving_are_given_host_port_and_role_of_the_url(
    place: str, host: list[str], port: list[int]
) -> None:
    told = pool_options(DatabaseAddress(f"postgresql://role:p%40ss@{place}/cairn?sslmode=verify-full"), 3)
    assert (told["host"], told["port"], told["database"]) == (host, port, "cairn")
    assert (told["user"], told["password"], told["dsn"]) == ("role", "p@ss", "postgresql:///?sslmode=verify-full")


def test_password_is_read_from_the_url_by_default(tmp_path: Path) -> None:
    url = SecretStr("postgresql://role:hidden@127.0.0.1/cairn")
    settings = ServingSettings(database_serving_url=url, storage_root=tmp_path)
    assert settings.address(url) == DatabaseAddress(url.get_secret_value())
    assert "hidden" not in repr(settings.address(url))
    with pytest.raises(ValidationError, match="database_auth"):
        ServingSettings(database_serving_url=url, storage_root=tmp_path, database_auth="kerberos")


def test_azure_credential_is_created_without_a_network_call(monkeypatch: pytest.MonkeyPatch) -> None:
    database_address.machine.cache_clear()
    made = database_address.machine()
    assert type(made).__module__.startswith("azure.identity")
    assert database_address.machine() is made
    database_address.machine.cache_clear()
    monkeypatch.setitem(__import__("sys").modules, "azure.identity", None)
    with pytest.raises(ValueError, match=r"install cairn-platform\[entra\]"):
        database_address.machine()


def silence_of(connection: psycopg.AsyncConnection[Any]) -> tuple[int, ...]:
    """What the kernel was told of silence on this connection, each in seconds but the count."""
    with socket.socket(fileno=os.dup(connection.fileno())) as wire:
        assert wire.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        names = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        alive = [wire.getsockopt(socket.IPPROTO_TCP, name) for name in names]
        return (*alive, wire.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) // 1000)


async def test_every_connection_has_timeouts_for_a_silent_server(database: TestDatabase, tmp_path: Path) -> None:
    """Listeners and each service's pools, by the address that all of them open connections with."""
    address = DatabaseAddress(database.url())
    found = []
    async with await address.connect() as listener:
        found.append(silence_of(listener))
    ours = Database(address, pool_size=1)
    async with ours.engine.connect() as pooled:
        driven = (await pooled.get_raw_connection()).driver_connection
        assert isinstance(driven, psycopg.AsyncConnection)
        found.append(silence_of(driven))
    await ours.close()
    async with reading_pool(address, size=1) as pool, pool.connection() as reading:
        found.append(silence_of(reading))
    lookup = Lookup(address, 1, LookupCache(0, 1))
    await lookup.open()
    async with lookup._pool.connection() as looking:
        found.append(silence_of(looking))
    await lookup.close()
    assert found == [(10, 5, 3, 20)] * 4


async def test_timeouts_in_the_url_win_over_the_defaults(database: TestDatabase) -> None:
    told = f"{database.url()}?keepalives_idle=60&tcp_user_timeout=90000"
    async with await DatabaseAddress(told).connect() as connection:
        assert silence_of(connection) == (60, 5, 3, 90)
