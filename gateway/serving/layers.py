"""Vector layers: features by tipg and tiles as MVT, from the one table that the address's version names.

tipg knows its tables from a list made at its start; here each request gets the one table that its reader may read, and
no answer names it. What tipg offers beyond that (filters in a language with function calls, pages of HTML) is not.
"""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any, Final

import morecantile
import orjson
import tipg.factory
from fastapi import Depends, FastAPI, Path, Request, Response
from morecantile.errors import InvalidIdentifier
from pydantic import BaseModel
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Receive, Scope, Send
from tipg.collections import Collection, CollectionList, Column
from tipg.factory import OGCFeaturesFactory
from tipg.model import Landing, Link
from tipg.resources.enums import MediaType

from domain.rules import csv_text
from gateway.forwarding.reading_headers import COST, cost_of_bytes, written
from gateway.serving.access import Version, identity_of, is_readable, lookup_of, readable_product
from gateway.serving.freshness import tell_later
from gateway.serving.large_answers import making, reader_of
from gateway.serving.lookup import Product
from gateway.serving.memory_budget import MemoryBudget
from gateway.serving.pools import opened, pool_options
from gateway.serving.problems import NOT_FOUND, invalid
from gateway.serving.settings import ServingSettings
from gateway.serving.vector_tiles import (
    LAYER_IN_TILE,
    MATCHED,
    MAX_BYTES,
    MAX_FEATURES,
    SHOWN,
    LayerCollection,
    PageRoom,
)

MVT: Final = "application/vnd.mapbox-vector-tile"
MAX_ZOOM: Final = 24
PAGE_BYTES: Final = 64 * 1024**2  # of memory: some 250,000 corners, or 20,000 points
_TILE_FORMATS: Final = (None, "pbf", "mvt")
_NUMBER: Final = r"-?[0-9]{1,3}(\.[0-9]{1,20})?"
_MOMENT: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{8,15}(Z|[+-][0-9]{2}:[0-9]{2})"
# How a parameter must look before a library reads it; its own faults would be faults of the server's.
_FORMS: Final = {
    "bbox": re.compile(rf"{_NUMBER}(,{_NUMBER}){{3}}"),
    "datetime": re.compile(rf"{_MOMENT}|({_MOMENT}|\.\.)/({_MOMENT}|\.\.)"),
    "ids": re.compile(r"[0-9]{1,18}(,[0-9]{1,18})*"),
    "simplify": re.compile(_NUMBER),
    "f": re.compile(r"json|geojson|geojsonseq|ndjson|csv|schemajson"),
}
_NOT_OFFERED: Final = frozenset({"filter", "filter-lang", "geom-column", "datetime-column"})


class _Column(BaseModel):
    name: str
    title: str
    type: str


class _Facts(BaseModel):
    """What the register knows of a table."""

    columns: list[_Column]
    crs: str
    geometry_type: str
    feature_count: int
    bounds_wgs84: tuple[float, float, float, float]


def collection_of(product: Product) -> LayerCollection:
    """The layer as tipg sees a collection: named after its asset, its properties as the table has them."""
    facts = _Facts.model_validate(product.layer)
    shape = Column(
        name="geom",
        type="geometry",
        geometry_type=facts.geometry_type,
        srid=int(facts.crs.removeprefix("EPSG:")),
        bounds=list(facts.bounds_wgs84),
    )
    # Bytes have no form in JSON.
    columns = [Column(name=each.name, type=each.type, description=each.title) for each in facts.columns]
    shown = [column for column in columns if column.type != "bytea"]
    return LayerCollection(
        type="Table",
        id=product.asset_id,
        schema="geo",
        table=str(product.table_name),
        title=product.asset_id,
        description=f"Version {product.ordinal}, {facts.feature_count:,} features",
        table_columns=[*shown, shape],
        properties=shown,
        id_column=Column(name="fid", type="bigint"),
        geometry_column=shape,
        datetime_column=next((column for column in shown if column.is_datetime), None),
    )


# --- features, below /vector ---


async def readable_layer(
    request: Request,
    collectionId: Annotated[str, Path(description="The asset's id")],  # noqa: N803 - the library's name for it
    version: Version = "latest",
) -> LayerCollection:
    """The layer that the address names, if this reader may have it. What it tells of a page goes into the headers."""
    product = await readable_product(request, collectionId, version)
    if product.table_name is None:
        raise NOT_FOUND
    layer, taken = collection_of(product), list[int]()
    budget: MemoryBudget = request.app.state.budget

    async def enter(size_bytes: int) -> None:
        # A connection is held meanwhile, of which there are few: no turn is waited for.
        share = budget.share(size_bytes, reader_of(request.scope), patience_seconds=0)
        await making(request.scope).enter_async_context(share)
        taken.append(size_bytes)

    layer.read_within(PageRoom(PAGE_BYTES, budget.one_bytes, enter))
    tell_later(request, lambda: _count_headers(request, layer) | {COST: written(cost_of_bytes(sum(taken)))})
    return layer


def _count_headers(request: Request, layer: LayerCollection) -> dict[str, str]:
    """Return headers with the number of features and the next page, since not every format has a place for them."""
    if layer.counted is None:
        return {}
    following = request.url.include_query_params(offset=layer.next_offset)
    return layer.counted.headers | ({"Link": f'<{following}>; rel="next"'} if layer.next_offset else {})


async def readable_layers(request: Request) -> CollectionList:
    """The latest version of every layer that this reader may know of."""
    identity = await identity_of(request)
    products = [each for each in await lookup_of(request).products() if each.table_name and each.is_latest]
    found: list[Collection] = [collection_of(each) for each in products if is_readable(each, identity)]
    return CollectionList(collections=found, matched=len(found), next=None, prev=None)


def checked_query(request: Request) -> None:
    """Refuse parameters that are not offered or are malformed."""
    for name, value in request.query_params.multi_items():
        if name.lower() in _NOT_OFFERED:
            raise invalid(f"{name} is not offered here: ask by bbox, ids, datetime or the value of a property.")
        form = _FORMS.get(name)
        if form is not None and not form.fullmatch(value):
            raise invalid(f"{name} is not valid.")


# The library writes senders' words into CSV as they are, and fails at an answer without features.
tipg.factory.create_csv_rows = csv_text.lines  # type: ignore[assignment]


class _Features(OGCFeaturesFactory):
    """tipg's endpoints. Its landing page would lead to a page of HTML that is not offered."""

    def _landing_route(self) -> None:
        @self.router.get("/", response_model_exclude_none=True, tags=["OGC Common"])
        def landing(request: Request) -> Landing:
            """What there is below."""
            own = [
                Link(title="Landing Page", href=self.url_for(request, "landing"), type=MediaType.json, rel="self"),
                Link(
                    title="the API definition (JSON)",
                    href=str(request.url_for("openapi")),
                    type=MediaType.openapi30_json,
                    rel="service-desc",
                ),
                Link(
                    title="Conformance",
                    href=self.url_for(request, "conformance"),
                    type=MediaType.json,
                    rel="conformance",
                ),
            ]
            return Landing(title=self.title, links=[*own, *self.links(request)])


def features_app() -> FastAPI:
    """OGC API - Features, as an app to be mounted."""
    app = FastAPI(title="Cairn vector layers", openapi_url="/api", docs_url=None, redoc_url=None)
    factory = _Features(
        collection_dependency=readable_layer,  # type: ignore[arg-type]  # the framework awaits it
        collections_dependency=readable_layers,  # type: ignore[arg-type]
        title="Cairn vector layers",
    )
    app.include_router(factory.router, dependencies=[Depends(checked_query)])
    return app


def without_pages(app: ASGIApp) -> ASGIApp:
    """Keep the library from answering with HTML, which would be made of senders' words."""

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = MutableHeaders(raw=list(scope["headers"]))
            if "html" in headers.get("accept", "") or "*" in headers.get("accept", "*"):
                headers["accept"] = "application/geo+json, application/json;q=0.9, application/schema+json;q=0.8"
            scope = {**scope, "headers": headers.raw}
        await app(scope, receive, send)

    return call


# --- tiles, below /tiles ---


async def answer(request: Request, product: Product) -> Response:
    """Answer for a layer where a raster would answer with pixels."""
    given = request.path_params
    if {"z", "x", "y"} <= given.keys() and given.get("format") in _TILE_FORMATS:
        return await _tile(request, product)
    if request.url.path.endswith("/tilejson.json"):
        return _tilejson(request, product)
    raise NOT_FOUND


async def _tile(request: Request, product: Product) -> Response:
    tms, place = _requested_grid(request), _requested_tile(request)
    async with request.app.state.pool.acquire() as connection:
        tile = await collection_of(product).tile(connection, tms, place)
    return Response(tile.content, media_type=MVT, headers=tile.counted.headers)


def _requested_grid(request: Request) -> morecantile.TileMatrixSet:
    try:
        return morecantile.tms.get(request.path_params["tileMatrixSetId"])
    except InvalidIdentifier:
        raise NOT_FOUND from None


def _requested_tile(request: Request) -> morecantile.Tile:
    numbers = [str(request.path_params[name]) for name in ("x", "y", "z")]
    if not all(re.fullmatch("[0-9]{1,9}", number) for number in numbers) or int(numbers[2]) > MAX_ZOOM:
        raise NOT_FOUND
    return morecantile.Tile(*map(int, numbers))


def _tilejson(request: Request, product: Product) -> Response:
    """Return where the tiles are and what is in them."""
    _requested_grid(request)
    layer, features = collection_of(product), _Facts.model_validate(product.layer).feature_count
    base = str(request.url.replace(query="")).removesuffix("/tilejson.json").rstrip("?")
    query = f"?{request.url.query}" if request.url.query else ""
    fields = {column.name: column.description or column.name for column in layer.properties}
    content = {
        "tilejson": "3.0.0",
        "name": product.asset_id,
        "description": _described(features),
        "version": "1.0.0",
        "scheme": "xyz",
        "tiles": [f"{base}/{{z}}/{{x}}/{{y}}{query}"],
        "minzoom": 0,
        "maxzoom": MAX_ZOOM,
        "bounds": layer.bounds,
        "vector_layers": [{"id": LAYER_IN_TILE, "fields": fields}],
        "features": {
            "total": features,
            "most_in_a_tile": min(features, MAX_FEATURES),
            "most_bytes_in_a_tile": MAX_BYTES,
            "told_by": [SHOWN, MATCHED],
        },
    }
    return Response(orjson.dumps(content), media_type="application/json")


def _described(features: int) -> str:
    if features <= MAX_FEATURES:
        return f"{features:,} features."
    return (
        f"{features:,} features. A tile shows at most {MAX_FEATURES:,} of them, spread evenly, and says in its headers "
        f"{SHOWN} and {MATCHED} how many of how many. Zoom in for the rest."
    )


# --- the library's own connections ---


@asynccontextmanager
async def connected(apps: tuple[FastAPI, ...], settings: ServingSettings) -> AsyncIterator[None]:
    """Keep a pool open for tipg, which speaks asyncpg."""
    address = settings.address(settings.database_serving_url)
    read_only = {"default_transaction_read_only": "on", "jit": "off"}
    options = pool_options(address, settings.serving_pool_size, **read_only)
    async with opened(options, _with_json) as pool:
        for app in apps:
            app.state.pool = pool
        yield


async def _with_json(connection: Any) -> None:
    await connection.set_type_codec("json", encoder=orjson.dumps, decoder=orjson.loads, schema="pg_catalog")
