"""The serving process: `uvicorn --factory gateway.serving.app:create_app`. Importing it opens nothing."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request

from domain.shared import logs
from domain.shared.authentication import Authentication
from domain.shared.background import in_background
from domain.shared.last_uses import LastUses
from domain.shared.metrics import METRICS_PATH, Metering, RequestMeter
from domain.shared.readiness import Ready
from domain.shared.request_bodies import Bodies, BodyBudget, BodyRules, Scope, Sender
from gateway.edge.cross_origin import CrossOrigin
from gateway.edge.public_address import PublicAddress
from gateway.serving import catalog, downloads, layers, metrics, problems, tiles
from gateway.serving.compression import HeadAsGet, TextCompression
from gateway.serving.drawing_processes import HeavyPictures
from gateway.serving.freshness import ResponseHeaders
from gateway.serving.handles import Handles
from gateway.serving.large_answers import Answers, Whole, answer_pace, answer_shares
from gateway.serving.links import Links
from gateway.serving.lookup import Lookup
from gateway.serving.lookup_cache import LookupCache
from gateway.serving.memory_budget import MemoryBudget
from gateway.serving.news import News
from gateway.serving.settings import ServingSettings
from gateway.serving.sources import OPEN_SECONDS, Sources

MEGABYTE = 1024**2
BODY_BYTES = 4 * MEGABYTE  # searches: the gateway lets fewer through
BODIES_BYTES = 64 * MEGABYTE


def create_app(settings: ServingSettings | None = None) -> FastAPI:
    """Build the app; its connections open when it starts."""
    if settings is None:  # a server's own start
        logs.configure("serving")
        settings = ServingSettings()
    stac = catalog.catalog_app()
    features = layers.features_app()
    lifespan = _lifespan(settings, stac, features)
    app = FastAPI(title="Cairn serving", lifespan=lifespan, docs_url=None, redoc_url=None)
    app.state.catalog, app.state.features = stac, features
    app.state.authentication = stac.state.authentication = features.state.authentication = Authentication(
        settings.token_verifier()
    )
    app.state.links = Links([key.get_secret_value() for key in settings.link_keys], settings.link_seconds)
    app.state.zones = stac.state.zones = settings.zones()
    app.state.budget = features.state.budget = MemoryBudget(
        settings.serving_pixels_mb * MEGABYTE,
        settings.serving_request_mb * MEGABYTE,
        settings.serving_patience_seconds,
        settings.serving_requests_at_a_time,
    )
    app.state.heavy = HeavyPictures(
        settings.serving_drawing_processes,
        2 * settings.serving_request_mb * MEGABYTE,
        settings.serving_drawing_niceness,
        settings.serving_drawing_seconds,
        settings.serving_patience_seconds,
    )
    app.state.sources = Sources(app.state.zones, Handles(settings.serving_open_files, OPEN_SECONDS))
    for each in (app, stac, features):
        problems.install(each)
        each.add_middleware(TextCompression)
        each.add_middleware(HeadAsGet)  # around it: what HEAD is told is what GET is told
    app.include_router(downloads.router)
    app.include_router(tiles.router())
    app.add_api_route("/livez", livez, tags=["health"])
    app.add_api_route("/readyz", readyz, tags=["health"])
    app.add_api_route(METRICS_PATH, metrics.metrics, include_in_schema=False)
    app.mount("/stac", catalog.below_its_mount(stac))
    app.mount("/vector", Whole(layers.without_pages(catalog.below_its_mount(features))))
    app.add_middleware(ResponseHeaders)
    app.add_middleware(CrossOrigin)
    app.add_middleware(
        Bodies, rules=BodyRules(BODY_BYTES, {}), room=BodyBudget(BODIES_BYTES, is_shared=False), admit=_anybody
    )
    app.add_middleware(
        Answers,
        shares=answer_shares(settings.serving_answers_mb * MEGABYTE),
        pace=answer_pace(settings.serving_answer_mb_per_second * MEGABYTE),
    )
    if settings.public_url is not None:
        app.add_middleware(PublicAddress, url=settings.public_url)
    _meter(app, settings, {"/stac": stac, "/vector": features})
    return app


def _lifespan(settings: ServingSettings, stac: FastAPI, features: FastAPI):  # type: ignore[no-untyped-def]
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        address = settings.address(settings.database_serving_url)
        memory = LookupCache(settings.serving_memory_seconds, settings.serving_memory_entries)
        lookup = Lookup(address, settings.serving_pool_size, memory)
        app.state.lookup = stac.state.lookup = features.state.lookup = lookup
        app.state.ready = Ready(lookup.ping)
        caches: dict[str, metrics.Cache] = {"memory": memory, "open_files": app.state.sources.handles}
        app.state.metering.add(metrics.of_caches(caches))
        app.state.metering.add(metrics.of_pools(lookup, features))
        uses = LastUses(address, app.state.authentication.seen, settings.last_used_seconds)
        await lookup.open()
        try:
            async with (
                catalog.connected(stac, settings),
                layers.connected((app, features), settings),
                in_background(News(address, memory.forget).run(), uses.tell()),
            ):
                yield
        finally:
            await lookup.close()
            app.state.sources.handles.close()
            app.state.heavy.close()

    return lifespan


def _meter(app: FastAPI, settings: ServingSettings, mounted: dict[str, FastAPI]) -> None:
    """Count the answers of the app and of what is mounted in it."""
    app.state.metering, app.state.metrics_token = Metering(), settings.metrics_token
    app.add_middleware(RequestMeter, metering=app.state.metering, mounts=mounted)
    for prefix, each in mounted.items():
        each.add_middleware(RequestMeter, metering=app.state.metering, prefix=prefix)


async def _anybody(_scope: Scope) -> Sender:
    """Admit every sender of a search: the gateway knows and limits them."""
    return Sender("gateway", is_known=True)


async def livez() -> dict[str, str]:
    """The process answers."""
    return {"status": "alive"}


async def readyz(request: Request) -> dict[str, str]:
    """The database answers, so that requests can be served. Why it does not, if it does not, is logged."""
    try:
        await request.app.state.ready.check()
    except (*problems.DATABASE_ERRORS, TimeoutError) as error:
        problems.of_database(error)
        raise problems.NOT_READY from None
    return {"status": "ready"}
