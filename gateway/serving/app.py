"""The serving process: `uvicorn --factory gateway.serving.app:create_app`. Importing it opens nothing."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from fastapi import FastAPI, Request
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from domain.doorkeeper import Doorkeeper
from gateway.serving import catalog, downloads, layers, problems, tiles
from gateway.serving.access import lookup_of
from gateway.serving.lookup import Lookup
from gateway.serving.settings import ServingSettings

# A downgrade must be effective within 5 seconds, caches included; and one reader's answer is not another's.
_HEADERS: Final = {
    "Cache-Control": "private, max-age=3",
    "Vary": "Authorization, X-API-Key",
    "X-Content-Type-Options": "nosniff",
}


def create_app(settings: ServingSettings | None = None) -> FastAPI:
    """Build the app; its connections open when it starts."""
    settings = settings or ServingSettings()
    stac = catalog.catalog_app()
    features = layers.features_app()
    lifespan = _lifespan(settings, stac, features)
    app = FastAPI(title="Cairn serving", lifespan=lifespan, docs_url=None, redoc_url=None)
    app.state.catalog = stac
    app.state.doorkeeper = stac.state.doorkeeper = features.state.doorkeeper = Doorkeeper(settings.token_verifier())
    app.state.zones = settings.zones()
    for each in (app, stac, features):
        problems.install(each)
    app.include_router(downloads.router)
    app.include_router(tiles.router())
    app.add_api_route("/livez", livez, tags=["health"])
    app.add_api_route("/readyz", readyz, tags=["health"])
    app.mount("/stac", catalog.below_its_mount(stac))
    app.mount("/vector", layers.without_pages(catalog.below_its_mount(features)))
    app.add_middleware(_ResponseHeaders)
    return app


def _lifespan(settings: ServingSettings, stac: FastAPI, features: FastAPI):  # type: ignore[no-untyped-def]
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        lookup = Lookup(settings.database_serving_url.get_secret_value(), settings.serving_pool_size)
        app.state.lookup = stac.state.lookup = features.state.lookup = lookup
        await lookup.open()
        try:
            async with catalog.connected(stac, settings), layers.connected((app, features), settings):
                yield
        finally:
            await lookup.close()

    return lifespan


async def livez() -> dict[str, str]:
    """The process answers."""
    return {"status": "alive"}


async def readyz(request: Request) -> dict[str, str]:
    """The database answers, so that requests can be served."""
    await lookup_of(request).ping()
    return {"status": "ready"}


class _ResponseHeaders:
    """Adds the headers that every answer needs."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        await self._app(scope, receive, send_with_headers)
