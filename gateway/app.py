"""The gateway: `uvicorn --factory gateway.app:create_app`."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
from fastapi import FastAPI
from psycopg_pool import AsyncConnectionPool

from domain import logs
from domain.contracts import rendering
from domain.doorkeeper import Doorkeeper
from gateway.blueprints import console, front_door, platform, probes
from gateway.domain_client import DomainClient
from gateway.limits import BodyLimit
from gateway.queries import Queries
from gateway.settings import GatewaySettings, settings
from gateway.state import Gateway


def create_app(configured: GatewaySettings | None = None) -> FastAPI:
    """The application. Nothing is opened before it starts."""
    config = configured or settings()
    if configured is None:
        logs.configure("gateway")

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        pool = AsyncConnectionPool(config.database_gateway_url.get_secret_value(), min_size=1, max_size=8, open=False)
        domain = httpx.AsyncClient(base_url=str(config.domain_url), timeout=config.domain_timeout_seconds)
        serving = httpx.AsyncClient(base_url=str(config.serving_url), timeout=30.0)
        pages = console.pages_client(str(config.domain_url))
        async with pool, domain, serving, pages:
            client = DomainClient(domain, config.service_token.get_secret_value())
            app.state.gateway = Gateway(
                config, Queries(pool), client, serving, pages, Doorkeeper(config.token_verifier())
            )
            yield

    app = FastAPI(title="Cairn", version="1", lifespan=lifespan)
    rendering.install(app)
    app.add_middleware(logs.LogContext)
    app.add_middleware(BodyLimit, max_bytes=config.max_body_bytes)
    for blueprint in (probes, platform, console, front_door):
        app.include_router(blueprint.router)
    return app
