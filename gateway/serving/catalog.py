"""The STAC API over pgSTAC, cut down to what the reader may know of. Reads only; the domain writes the catalogue."""

import re
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, Final

import orjson
from fastapi import Depends, FastAPI, Request
from stac_fastapi.pgstac.app import instantiate_api
from stac_fastapi.pgstac.config import ServerSettings, Settings
from stac_fastapi.pgstac.core import CoreCrudClient
from stac_fastapi.pgstac.db import con_init, get_connection
from stac_fastapi.pgstac.models.extensions import Extensions
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.serving.access import ASSET_ID, identity_of, is_readable, lookup_of
from gateway.serving.lookup import Among, Product
from gateway.serving.places import settle
from gateway.serving.pools import opened, pool_options
from gateway.serving.previews import staged_item
from gateway.serving.problems import CANNOT_SEARCH, NOT_FOUND
from gateway.serving.settings import ServingSettings

# Collection search pages inside of the database, where the rule is not known; all other extensions are harmless.
_EXTENSIONS: Final = ["query", "sort", "fields", "filter", "pagination"]
MOST_ITEMS: Final = 1000  # of a page: whoever asks for more is told where it goes on
# No item has this id: item ids end in a version and a revision.
_NOTHING: Final = "-"


async def readable_products(request: Request, among: Among = None) -> list[Product]:
    """Return the products that this reader may read, of these assets or of all, by one query."""
    identity = await identity_of(request)
    return [product for product in await lookup_of(request).products(among) if is_readable(product, identity)]


@dataclass(frozen=True)
class ReadableItems:
    """The items that a reader may read: whole revisions by id, parts by their revision."""

    wholes: frozenset[str]
    in_parts: frozenset[tuple[str, str]]  # collection, revision's item id

    def includes(self, item_id: str) -> bool:
        return item_id in self.wholes or any(item_id.startswith(f"{whole}-") for _, whole in self.in_parts)

    def condition(self) -> dict[str, Any]:
        """Return the rule as a filter for the database, since parts are too many to list."""
        own = {"property": "id"}
        listed = {"op": "in", "args": [own, sorted(self.wholes) or [_NOTHING]]}
        parts = [
            {
                "op": "and",
                "args": [
                    {"op": "=", "args": [{"property": "collection"}, collection]},
                    {"op": "like", "args": [own, f"{_literal(whole)}-%"]},
                ],
            }
            for collection, whole in sorted(self.in_parts)
        ]
        return {"op": "or", "args": [listed, *parts]}


def _literal(text: str) -> str:
    """Return a pattern that matches this text alone."""
    return re.sub(r"([\\%_])", r"\\\1", text)


async def readable_items(request: Request, among: Among = None) -> ReadableItems:
    """Return the items that this reader may find, of these assets or of all."""
    products = await readable_products(request, among)
    parted = await lookup_of(request).in_parts(among) if products else set()
    return ReadableItems(
        frozenset(product.item_id for product in products),
        frozenset((product.asset_id, product.item_id) for product in products if product.item_id in parted),
    )


async def _require_readable(request: Request, collection_id: str) -> None:
    """Answer 404 for a collection that the reader may not know of, as for a missing one."""
    if not await readable_products(request, _possible_assets({collection_id})):
        raise NOT_FOUND


def _assets_asked_for(search_request: Any) -> Among:
    """The assets whose items are asked for: collections are named after them, and items' ids begin with them."""
    if search_request.collections:
        return _possible_assets(search_request.collections)
    if search_request.ids:
        return _possible_assets(each.partition("-")[0] for each in search_request.ids)
    return None


def _possible_assets(named: Iterable[str]) -> frozenset[str]:
    """Return those of the names that can be an asset's."""
    return frozenset(each for each in named if ASSET_ID.fullmatch(each))


class ReadableCatalog(CoreCrudClient):  # type: ignore[misc]
    """The library's client, which first narrows every question to the reader's items."""

    async def _search_base(self, search_request: Any, request: Request) -> Any:
        settle(search_request)
        search_request.limit = min(search_request.limit or MOST_ITEMS, MOST_ITEMS)
        allowed = await readable_items(request, _assets_asked_for(search_request))
        if search_request.token and not allowed.includes(_page_start(search_request.token)):
            raise CANNOT_SEARCH
        if search_request.ids is not None:
            search_request.ids = sorted(filter(allowed.includes, search_request.ids)) or [_NOTHING]
        elif allowed.in_parts:
            _narrow(search_request, allowed.condition())
        else:
            search_request.ids = sorted(allowed.wholes) or [_NOTHING]
        return await super()._search_base(search_request, request)

    async def get_search(self, *given: Any, **named: Any) -> Any:
        with _readers_json():
            return await super().get_search(*given, **named)

    async def item_collection(self, *given: Any, **named: Any) -> Any:
        with _readers_json():
            return await super().item_collection(*given, **named)

    async def landing_page(self, **options: Any) -> Any:
        page = await super().landing_page(**options)
        page["links"] = [link for link in page["links"] if link["rel"] != "service-doc"]
        return page

    async def get_item(self, item_id: str, collection_id: str, request: Request, **options: Any) -> Any:
        if (staged := await staged_item(request, collection_id, item_id)) is not None:
            return staged
        await _require_readable(request, collection_id)
        return await super().get_item(item_id, collection_id, request, **options)

    async def all_collections(self, request: Request, **options: Any) -> Any:
        allowed = {product.asset_id for product in await readable_products(request)}
        found = await super().all_collections(request, **options)
        found["collections"] = [collection for collection in found["collections"] if collection["id"] in allowed]
        found["numberMatched"] = found["numberReturned"] = len(found["collections"])
        return found


@contextmanager
def _readers_json() -> Iterator[None]:
    """Refuse malformed JSON in an address's parameters, which the library lets pass."""
    try:
        yield
    except orjson.JSONDecodeError:
        raise CANNOT_SEARCH from None


def _narrow(search_request: Any, condition: dict[str, Any]) -> None:
    """Restrict the search to what meets the condition besides its own filter."""
    if search_request.filter_expr is None:
        search_request.filter_expr = condition
    elif search_request.filter_lang in {None, "cql2-json"}:
        search_request.filter_expr = {"op": "and", "args": [search_request.filter_expr, condition]}
    else:
        raise CANNOT_SEARCH
    search_request.filter_lang = "cql2-json"


def _page_start(token: str) -> str:
    """The item that a page starts from: direction, collection and item, the latter two in hexadecimal.

    pgSTAC takes any item for it, so a token made up by the reader would tell whether a hidden item is there.
    """
    try:
        return bytes.fromhex(token.rpartition(":")[2]).decode()
    except ValueError:
        return ""


def catalog_app() -> FastAPI:
    """The STAC API as an app to be mounted. Whoever mounts it also runs `connected`."""
    settings = Settings(
        stac_fastapi_title="Cairn catalogue",
        stac_fastapi_description="Approved products, as far as you may read them.",
        stac_fastapi_landing_id="cairn",
        stac_fastapi_version="1.0.0",
        enabled_extensions=_EXTENSIONS,
        docs_url="",  # no page: it would load other sites' script where the console is signed in
    )
    extensions = Extensions(settings=settings)
    api = instantiate_api(ReadableCatalog, extensions, lifespan=_no_lifespan, settings=settings)
    api.client.landing_page_id = settings.stac_fastapi_landing_id
    below = ("", "/queryables", "/items")
    scopes = [{"path": f"/collections/{{collection_id}}{path}", "method": "GET", "type": "http"} for path in below]
    api.add_route_dependencies(scopes, [Depends(_require_readable)])
    app: FastAPI = api.app
    _name_the_page_it_lacks(app)
    return app


def _name_the_page_it_lacks(app: FastAPI) -> None:
    """Give the library's landing page the documentation address without which it fails; we leave it out later."""
    described = next(route for route in app.routes if isinstance(route, Route) and route.name == "openapi")
    app.add_route(described.path, described.endpoint, name="swagger_ui_html", include_in_schema=False)


def below_its_mount(app: FastAPI) -> ASGIApp:
    """Let the catalogue's links begin where it is mounted; the framework makes them from the outermost app."""

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, "app_root_path": scope.get("root_path", ""), "router": app.router}, receive, send)

    return call


@asynccontextmanager
async def connected(app: FastAPI, settings: ServingSettings) -> AsyncIterator[None]:
    """Keep the catalogue's own pool open; the library speaks asyncpg."""
    address = settings.address(settings.database_serving_url)
    read_only = {"default_transaction_read_only": "on", "pgstac.readonly": "true"}
    of_library = ServerSettings(application_name="cairn-serving", **read_only).model_dump()
    options = pool_options(address, settings.serving_pool_size, **of_library)
    async with opened(options, con_init) as pool:
        app.state.readpool, app.state.get_connection = pool, get_connection
        yield


@asynccontextmanager
async def _no_lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Do nothing: a mounted app's lifespan never runs."""
    yield
