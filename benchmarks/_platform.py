"""Domain, gateway and serving as applications in this process, over one database: what a measurement asks things of."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI
from pydantic import HttpUrl, SecretStr

from domain.app import create_app as create_domain
from domain.contracts.console import SESSION_COOKIE
from domain.db import Database
from domain.settings import DomainSettings
from domain.state import Service
from gateway.app import create_app as create_gateway
from gateway.domain_client.client import DomainClient
from gateway.serving.app import create_app as create_serving
from gateway.serving.lookup import Lookup
from gateway.serving.settings import ServingSettings
from gateway.settings import GatewaySettings

UNLIMITED = 1_000_000.0
Url = Callable[[str], str]  # of the database, as this role


@dataclass(frozen=True)
class MeasuredPlatform:
    """The three, and whoever asks them. A client's secret is `secret-` and its id."""

    url: Url
    apps: dict[str, FastAPI]

    @property
    def service(self) -> Service:
        service: Service = self.apps["domain"].state.service
        return service

    @property
    def database(self) -> Database:
        return self.service.database

    @property
    def lookup(self) -> Lookup:
        lookup: Lookup = self.apps["serving"].state.lookup
        return lookup

    async def ask(self, room: str, who: str, path: str, *, method: str = "GET", body: Any = None) -> httpx.Response:
        """Send one caller's request without a socket; at the console as a signed-in person."""
        headers = {"Authorization": f"Bearer secret-{who}", "If-Match": "*"} if room != "console" else {}
        cookies = {SESSION_COOKIE: "session"} if room == "console" else {}
        app = self.apps["domain" if room == "console" else room]
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(
            transport=transport, base_url=f"http://{room}", headers=headers, cookies=cookies
        ) as http:
            return await http.request(method, path, json=body)


async def publish(url: Url, storage: Path) -> None:
    """Have the domain publish its workflows, as at each of its starts."""
    async with _started(_domain(url, storage)):
        pass


@asynccontextmanager
async def running(url: Url, storage: Path) -> AsyncIterator[MeasuredPlatform]:
    """Run the three applications as servers would during the block."""
    domain, gateway, serving = _domain(url, storage), _gateway(url), _serving(url, storage)
    async with AsyncExitStack() as stack:
        for app in (domain, gateway, serving):
            await stack.enter_async_context(_started(app))
        transport = httpx.ASGITransport(domain, raise_app_exceptions=False)
        http = await stack.enter_async_context(httpx.AsyncClient(transport=transport, base_url="http://domain"))
        made = gateway.state.gateway
        gateway.state.gateway = replace(made, domain=DomainClient(http, "secret-gateway"))
        yield MeasuredPlatform(url, {"domain": domain, "gateway": gateway, "serving": serving})


@asynccontextmanager
async def _started(app: FastAPI) -> AsyncIterator[None]:
    async with app.router.lifespan_context(app):
        yield


def _domain(url: Url, storage: Path) -> FastAPI:
    """Without its loops: what they do is asked for."""
    settings = DomainSettings(
        database_url=SecretStr(url("cairn_app")),
        public_url=HttpUrl("https://bench.test"),
        storage_root=storage,
        relay_enabled=False,
        callbacks_enabled=False,
        open_requests_per_platform=int(UNLIMITED),
        quota_cache_seconds=0,
        development=True,  # without keys
    )
    return create_domain(settings)


def _gateway(url: Url) -> FastAPI:
    settings = GatewaySettings(
        database_gateway_url=SecretStr(url("cairn_gateway")),
        domain_url=HttpUrl("https://domain.test"),
        serving_url=HttpUrl("http://127.0.0.1:9"),
        service_token=SecretStr("secret-gateway"),
        client_calls_per_second=UNLIMITED,
        client_calls_burst=UNLIMITED,
        platform_calls_per_second=UNLIMITED,
        platform_calls_burst=UNLIMITED,
        development=True,
    )
    return create_gateway(settings)


def _serving(url: Url, storage: Path) -> FastAPI:
    """Make a serving application that remembers nothing, since its questions are measured."""
    address = SecretStr(url("cairn_serving"))
    return create_serving(
        ServingSettings(database_serving_url=address, storage_root=storage, serving_memory_seconds=0, development=True)
    )
