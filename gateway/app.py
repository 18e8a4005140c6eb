"""The gateway: `uvicorn --factory gateway.app:create_app`."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from domain.contracts import rendering
from domain.shared import logs
from domain.shared.authentication import Authentication
from domain.shared.background import in_background
from domain.shared.last_uses import LastUses
from domain.shared.metrics import Metering, RequestMeter
from domain.shared.notices import REQUEST_CHANNEL, Notices
from domain.shared.request_bodies import Bodies, BodyBudget, BodyRules
from domain.shared.signals import on_stop
from gateway.blueprints import (
    admin,
    assets,
    batches,
    console,
    decisions,
    front_door,
    metrics,
    ogc,
    platform,
    probes,
    proxy,
    status,
)
from gateway.documents import documents
from gateway.domain_client.client import DomainClient
from gateway.domain_client.http_wire import QuickWire
from gateway.edge.body_limit import judge_of
from gateway.edge.cross_origin import CrossOrigin
from gateway.edge.entrance import CONSOLE, Entrance, admit
from gateway.edge.public_address import PublicAddress
from gateway.edge.slow_refusals import SlowRefusals
from gateway.edge.stream_slots import Streams
from gateway.forwarding.clients import forwarding_client
from gateway.reads.queries import Queries, reading_pool
from gateway.settings import GatewaySettings, settings
from gateway.state import Gateway

MEGABYTE = 1024**2
TARGET_CONNECTIONS = 100  # to operators' internal services
CONSOLE_BYTES = 64_000  # as the domain takes: four times its longest form


def create_app(configured: GatewaySettings | None = None) -> FastAPI:
    """The application. Nothing is opened before it starts."""
    config = configured or settings()
    if configured is None:
        logs.configure("gateway")

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        address = config.address(config.database_gateway_url)
        pool = reading_pool(address, size=8)
        domain = QuickWire(str(config.domain_url), config.domain_timeout_seconds)
        serving = forwarding_client(
            str(config.serving_url), timeout_seconds=30.0, most_connections=config.streams_at_once
        )
        targets = forwarding_client(most_connections=TARGET_CONNECTIONS, trust_env=False)
        app.state.metering.add(metrics.of_pool(pool, "gateway"))
        notices = Notices(address, REQUEST_CHANNEL)
        if configured is None:  # a server's own start
            on_stop(notices.close)
        pages = console.pages_client(str(config.domain_url), config.console_streams_at_once)
        authentication = Authentication(config.token_verifier())
        uses = LastUses(address, authentication.seen, config.last_used_seconds)
        async with pool, domain, serving, targets, pages, in_background(notices.run(), uses.tell()):
            client = DomainClient(domain, config.service_token.get_secret_value())
            app.state.gateway = Gateway(
                config,
                Queries(pool),
                client,
                serving,
                targets,
                pages,
                authentication,
                config.rates(),
                config.readers(),
                config.visitors(),
                notices,
                Streams(config.streams_at_once, config.streams_per_address),
                Streams(config.console_streams_at_once, config.console_streams_per_address),
                config.batch_turns(),
            )
            try:
                yield
            finally:
                notices.close()  # whoever still waits is let go

    app = FastAPI(title="Cairn", version="1", lifespan=lifespan, openapi_url=None)
    rendering.install(app)
    _surround(app, config)
    for blueprint in (probes, metrics, platform, decisions, batches, assets, ogc, status, admin, proxy, console):
        app.include_router(blueprint.router)
    app.include_router(front_door.router, include_in_schema=False)
    app.include_router(documents(app))
    return app


def _surround(app: FastAPI, config: GatewaySettings) -> None:
    """Put around the application what each request passes; what is added last is passed first."""
    app.add_middleware(logs.LogContext)
    rules = BodyRules(
        config.max_body_bytes, {CONSOLE: min(CONSOLE_BYTES, config.max_body_bytes)}, judge_of(config.max_body_depth)
    )
    app.add_middleware(Bodies, rules=rules, room=BodyBudget(config.bodies_mb * MEGABYTE), admit=admit)
    app.add_middleware(Entrance)
    app.add_middleware(CrossOrigin)
    if config.public_url is not None:
        app.add_middleware(PublicAddress, url=config.public_url, spared="/console")
    app.state.metering = Metering()
    app.add_middleware(RequestMeter, metering=app.state.metering)
    app.add_middleware(SlowRefusals, per_second=config.refusals_per_second)
