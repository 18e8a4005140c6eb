"""Serves tiles and pictures by TiTiler, over the one product that the URL names."""

import math
import re
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from typing import Annotated, Any, Final

import attr
import numpy as np
from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.routing import APIRoute
from rio_tiler.io import Reader
from rio_tiler.models import ImageData
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import QueryParams
from titiler.core.dependencies import BidxParams, ImageRenderingParams
from titiler.core.factory import TilerFactory
from titiler.core.utils import render_image

from domain.rules.rendering import Range
from gateway.forwarding.reading_headers import COST, cost_of_pixels, written
from gateway.serving import layers, parameters, picture_limits, problems
from gateway.serving.access import lookup_of, readable_product
from gateway.serving.drawing_orders import Order
from gateway.serving.drawing_processes import HeavyPictures
from gateway.serving.freshness import tell_later
from gateway.serving.handles import Handles
from gateway.serving.large_answers import reader_of
from gateway.serving.lookup import Product
from gateway.serving.memory_budget import MemoryBudget
from gateway.serving.problems import invalid
from gateway.serving.sources import OPEN_SECONDS, Handed, Source, Sources

PREFIX: Final = "/tiles/{asset_id}"
MAX_PIXELS: Final = 2048
_USUAL_TILE: Final = 512  # no smaller than a tile whose size is not asked for
_SIZES: Final = {"tilesize", "buffer", "padding", "max_size", "width", "height", "histogram_bins"}
_PARTS_OF_A_SIDE: Final = ("tilesize", "buffer", "padding")
_FORMATS_OF_ALL_BANDS: Final = {"tif", "tiff", "npy"}
_FORMATS_OF_VALUES: Final = _FORMATS_OF_ALL_BANDS | {"pngraw"}
_PICTURES: Final = {"tile", "preview"}
_FILES_APART: Final = 4  # that whoever draws heavy pictures keeps open
_COLORMAPS: Final = {"colormap", "colormap_name"}
_STRETCHES: Final = {"rescale", "colormap"}
_EPSG: Final = re.compile(r"EPSG:[0-9]{4,6}", re.IGNORECASE)


@attr.s
class ProductReader(Reader):
    """TiTiler's reader for the one raster that it is given, by a lent handle."""

    def __attrs_post_init__(self) -> None:
        source: Source | Handed = self.input  # type: ignore[assignment]  # whatever the path dependency gives
        self.dataset = self._ctx_stack.enter_context(source.opened())
        super().__attrs_post_init__()  # type: ignore[no-untyped-call]


class LayerFound(Exception):
    """The address names a vector layer where a raster was looked for."""

    def __init__(self, product: Product) -> None:
        super().__init__(product.item_id)
        self.product = product


class HeavyFound(Exception):
    """The picture takes so long to draw that tiles of others would have to wait."""

    def __init__(self, reading: "Reading") -> None:
        super().__init__()
        self.reading = reading


class _RouteByKind(APIRoute):
    """A raster's route at which a vector layer answers too, where the asset is one.

    Where the picture turns out to be a heavy one, it is drawn apart.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        of_raster = super().get_route_handler()

        async def answer(request: Request) -> Response:
            try:
                return await of_raster(request)
            except LayerFound as found:
                return await layers.answer(request, found.product)
            except HeavyFound as found:
                return await _draw_in_other_process(request, found.reading)

        return answer


class _Router(APIRouter):
    """Registers reading routes only, and tiles directly below the asset: /{tms}/{z}/{x}/{y}."""

    def add_api_route(self, path: str, endpoint: Any, **options: Any) -> None:
        if options.get("methods") != ["GET"]:
            return
        super().add_api_route(path.removeprefix("/tiles"), endpoint, **options)


class _Tiler(TilerFactory):
    """TiTiler's endpoints, less those that list, draw maps or take a geometry."""

    def register_routes(self) -> None:
        for register in (self.info, self.statistics, self.tile, self.tilejson, self.point, self.preview):
            register()  # type: ignore[no-untyped-call]


def router() -> APIRouter:
    """The routes below /tiles/{asset_id}."""
    tiler = _Tiler(
        router=_Router(
            dependencies=[Depends(_within_limits), Depends(_within_memory, scope="function")], route_class=_RouteByKind
        ),
        router_prefix=PREFIX,
        reader=ProductReader,
        render_func=_render,
        path_dependency=_read_source,
        reader_dependency=parameters.READER,
        layer_dependency=_read_bands,  # type: ignore[arg-type]
        dataset_dependency=parameters.DATASET,
        tile_dependency=parameters.TILE,
        colormap_dependency=parameters.COLORMAP,
        process_dependency=_no_algorithm,  # type: ignore[arg-type]  # the framework awaits it
        render_dependency=_rendering,  # type: ignore[arg-type]  # any callable that gives one will do
        environment_dependency=_environment,  # type: ignore[arg-type]
    )
    tiles = APIRouter(tags=["tiles"])
    tiles.include_router(tiler.router, prefix=PREFIX)
    return tiles


def drawing_app() -> FastAPI:
    """Return the same routes for the drawing process, whose caller has judged access, limits and turns."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    app.state.handles = Handles(_FILES_APART, OPEN_SECONDS)
    app.include_router(router())
    app.dependency_overrides = {_reading: _handed_reading, _stretch: _handed_stretch, _within_memory: _do_nothing}
    problems.install(app)
    return app


async def _within_limits(request: Request) -> None:
    """Refuse sizes that exhaust memory, and any CRS but an EPSG code, before a library sees them.

    The library reads a CRS that looks like a URL from the network.
    """
    given = [*request.query_params.multi_items(), *request.path_params.items()]
    for name, value in given:
        if name.endswith("crs") and not _EPSG.fullmatch(value):
            raise invalid(f"{name} must be an EPSG code such as EPSG:3857.")
        if name in _SIZES and not _is_size(value):
            raise invalid(f"{name} must be a number up to {MAX_PIXELS}.")
    if len(request.query_params.getlist("bidx")) > picture_limits.MAX_BANDS:
        raise invalid(f"bidx may be given up to {picture_limits.MAX_BANDS} times.")
    if _widest_tile(request.query_params) > MAX_PIXELS:
        raise invalid(f"tilesize, with twice the buffer and twice the padding, must be a number up to {MAX_PIXELS}.")


def _is_size(value: str) -> bool:
    try:
        return 0 < float(value) <= MAX_PIXELS
    except ValueError:
        return False


def _widest_tile(given: QueryParams) -> float:
    """Return the side in pixels of what is read for a tile; of two given sizes the larger."""
    tile, buffer, padding = (max(map(float, given.getlist(name)), default=0) for name in _PARTS_OF_A_SIDE)
    return (tile or _USUAL_TILE) + 2 * buffer + 2 * padding


async def _source(request: Request, product: Annotated[Product, Depends(readable_product)]) -> Source:
    """Return the raster that the URL names, or raise where it names a vector layer."""
    if product.cog_name is None and product.table_name is not None:
        raise LayerFound(product)
    sources: Sources = request.app.state.sources
    return await sources.of(product, lookup_of(request))


@dataclass(frozen=True)
class Reading:
    """What a request reads: a raster, some bands of it, and its memory. `numbers` are the product's."""

    source: Source | Handed
    numbers: list[int]
    indexes: list[int]
    size_bytes: int
    is_heavy: bool


async def _reading(
    request: Request,
    source: Annotated[Source, Depends(_source)],
    named: Annotated[BidxParams, Depends(parameters.BANDS)],
) -> Reading:
    """Decide what is read before anything is; without named bands, those that are drawn by default."""
    header, what = source.header, _address_kind(request)
    picture_limits.refuse_strangers(named.indexes, header)
    if what in _PICTURES and request.path_params.get("format") not in _FORMATS_OF_ALL_BANDS:
        has_colormap = not _COLORMAPS.isdisjoint(request.query_params)
        numbers = picture_limits.bands_of_picture(source.bands, named.indexes, has_colormap=has_colormap)
    else:
        numbers = list(named.indexes or header.data or header.all)
    size = _size(request, what, source)
    budget: MemoryBudget = request.app.state.budget
    needed = picture_limits.refuse_too_much(len(numbers), header.dtypes[0], size, budget.one_bytes)
    cost = written(cost_of_pixels(size.pixels * len(numbers)))
    tell_later(request, lambda: {COST: cost})
    is_heavy = picture_limits.is_heavy(len(numbers), size)
    if what not in _PICTURES:  # nothing is reprojected
        return Reading(source.legible(), numbers, numbers, needed, is_heavy)
    narrowed = source.narrowed(numbers)
    return Reading(narrowed, numbers, numbers if narrowed is source else _renumbered(numbers), needed, is_heavy)


def _renumbered(numbers: list[int]) -> list[int]:
    return list(range(1, len(numbers) + 1))


def _address_kind(request: Request) -> str:
    """Return which address of the asset is asked: `tile`, or the address's first word."""
    return "tile" if "z" in request.path_params else re.split(r"[/.]", request.url.path.removeprefix("/tiles/"))[1]


def _size(request: Request, what: str, source: Source) -> picture_limits.Size:
    if what == "tile":
        side = math.ceil(_widest_tile(request.query_params))
        return picture_limits.Size(side, side)
    if what not in {"preview", "statistics"}:
        return picture_limits.Size(1, 1)
    given = [*request.query_params.multi_items(), *request.path_params.items()]
    sides: dict[str, int] = {}
    for name, value in given:
        if name in {"width", "height", "max_size"}:
            sides[name] = max(sides.get(name, 0), math.ceil(float(value)))
    return picture_limits.size_of_preview(sides, source.header, is_reprojected="dst_crs" in request.query_params)


async def _within_memory(request: Request, reading: Annotated[Reading, Depends(_reading)]) -> AsyncIterator[None]:
    """Hold memory for the reading beside others'; a heavy one is raised to be drawn elsewhere."""
    if reading.is_heavy:
        raise HeavyFound(reading)
    budget: MemoryBudget = request.app.state.budget
    async with budget.share(reading.size_bytes, reader_of(request.scope)):
        yield


async def _draw_in_other_process(request: Request, reading: Reading) -> Response:
    """Draw the picture in the drawing process, at the reader's turn and with memory for it."""
    heavy: HeavyPictures = request.app.state.heavy
    budget: MemoryBudget = request.app.state.budget
    name, driver = await run_in_threadpool(reading.source.named)  # documents of many parts take their time
    order = Order(
        path=request.scope["path"],
        query=request.scope["query_string"].decode("latin-1"),
        name=name,
        driver=driver,
        environment=dict(reading.source.environment),
        indexes=reading.indexes,
        stretch=await _stretch(request, reading),
    )
    reader = reader_of(request.scope)
    async with heavy.turns.place(reader), budget.share(reading.size_bytes, reader):
        head, body = await heavy.draw(order)
    return Response(body, head.status, head.headers)


async def _handed_reading(request: Request) -> Reading:
    order: Order = request.state.order
    source = Handed(order.name, order.driver, order.environment, request.app.state.handles)
    return Reading(source, order.indexes, order.indexes, 0, is_heavy=True)


async def _handed_stretch(request: Request) -> Range | None:
    order: Order = request.state.order
    return order.stretch


async def _do_nothing() -> None:
    """Do nothing: the process that hands the picture over has judged it."""


async def _read_source(reading: Annotated[Reading, Depends(_reading)]) -> Source | Handed:
    return reading.source


async def _read_bands(reading: Annotated[Reading, Depends(_reading)]) -> BidxParams:
    return BidxParams(indexes=reading.indexes)


async def _environment(reading: Annotated[Reading, Depends(_reading)]) -> dict[str, Any]:
    """GDAL may read this product and nothing else."""
    return dict(reading.source.environment)


async def _no_algorithm() -> None:
    """TiTiler may transform pixels by named algorithms; we show them as they are."""


async def _stretch(request: Request, reading: Annotated[Reading, Depends(_reading)]) -> Range | None:
    """Return the values over which the picture is stretched, unless the reader gives some.

    Formats for computing keep the values as they are, and so do colours that are given value by value.
    """
    pictured = request.path_params.get("format") not in _FORMATS_OF_VALUES
    if not pictured or _address_kind(request) not in _PICTURES or not _STRETCHES.isdisjoint(request.query_params):
        return None
    assert isinstance(reading.source, Source)  # noqa: S101 - what is handed brings its stretch
    sources: Sources = request.app.state.sources
    return await sources.range_of(reading.source, reading.numbers)


async def _rendering(
    stretch: Annotated[Range | None, Depends(_stretch)],
    given: Annotated[ImageRenderingParams, Depends(parameters.RENDERING)],
) -> ImageRenderingParams:
    """Combine the reader's rendering with the raster's default stretch."""
    if given.rescale is None and stretch is not None:
        given.rescale = [stretch]  # type: ignore[list-item]
    return given


def _render(image: ImageData, **options: Any) -> tuple[bytes, str]:
    """TiTiler's picture. It keeps stretched values in the pixels' own type, and 255 is more than int8 can hold.

    What lies under the mask is told by nodata, which a byte cannot hold either, and which is not looked at.
    """
    if options.get("rescale"):
        values = image.array.data.astype("int16") if image.array.dtype == "int8" else image.array.data
        image.array = np.ma.MaskedArray(values, image.array.mask)
    return render_image(image, **options)
