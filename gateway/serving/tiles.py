"""Tiles and their kin: TiTiler over the one product that the URL names. No other file can be asked for."""

import re
from collections.abc import Callable, Coroutine
from typing import Annotated, Any, Final

import attr
from fastapi import APIRouter, Depends, Request, Response
from fastapi.routing import APIRoute
from rio_tiler.io import Reader
from starlette.datastructures import QueryParams
from titiler.core.dependencies import BidxParams, ImageRenderingParams
from titiler.core.factory import TilerFactory

from gateway.serving import layers, parameters
from gateway.serving.access import lookup_of, readable_product
from gateway.serving.lookup import Product
from gateway.serving.problems import invalid
from gateway.serving.sources import Source, Sources

PREFIX: Final = "/tiles/{asset_id}"
MAX_PIXELS: Final = 2048
MAX_BANDS: Final = 8
_USUAL_TILE: Final = 512  # no smaller than a tile whose size is not asked for
_SIZES: Final = {"tilesize", "buffer", "padding", "max_size", "width", "height", "histogram_bins"}
_PARTS_OF_A_SIDE: Final = ("tilesize", "buffer", "padding")
_FORMATS_OF_VALUES: Final = {"tif", "tiff", "npy", "pngraw"}
_EPSG: Final = re.compile(r"EPSG:[0-9]{4,6}", re.IGNORECASE)


@attr.s
class ProductReader(Reader):
    """A reader of the one raster that it is given, through a handle that is lent to it."""

    def __attrs_post_init__(self) -> None:
        source: Source = self.input  # type: ignore[assignment]  # whatever the path dependency gives
        self.dataset = self._ctx_stack.enter_context(source.opened())
        super().__attrs_post_init__()  # type: ignore[no-untyped-call]


class LayerFound(Exception):
    """The address names a vector layer where a raster was looked for."""

    def __init__(self, product: Product) -> None:
        super().__init__(product.item_id)
        self.product = product


class _ByKind(APIRoute):
    """A raster's route. Where the asset turns out to be a vector layer, the layer answers at the same address."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        of_raster = super().get_route_handler()

        async def answer(request: Request) -> Response:
            try:
                return await of_raster(request)
            except LayerFound as found:
                return await layers.answer(request, found.product)

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
        router=_Router(dependencies=[Depends(_within_limits)], route_class=_ByKind),
        router_prefix=PREFIX,
        reader=ProductReader,
        path_dependency=_source,
        reader_dependency=parameters.READER,
        layer_dependency=parameters.BANDS,
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
    if len(request.query_params.getlist("bidx")) > MAX_BANDS:
        raise invalid(f"bidx may be given up to {MAX_BANDS} times.")
    if _widest_tile(request.query_params) > MAX_PIXELS:
        raise invalid(f"tilesize, with twice the buffer and twice the padding, must be a number up to {MAX_PIXELS}.")


def _is_size(value: str) -> bool:
    try:
        return 0 < float(value) <= MAX_PIXELS
    except ValueError:
        return False


def _widest_tile(given: QueryParams) -> float:
    """The side of what is read for a tile, in pixels; where a size is given twice, the larger counts."""
    tile, buffer, padding = (max(map(float, given.getlist(name)), default=0) for name in _PARTS_OF_A_SIDE)
    return (tile or _USUAL_TILE) + 2 * buffer + 2 * padding


async def _source(request: Request, product: Annotated[Product, Depends(readable_product)]) -> Source:
    """The raster that the URL names. Where it names a vector layer, the layer answers."""
    if product.cog_name is None and product.table_name is not None:
        raise LayerFound(product)
    sources: Sources = request.app.state.sources
    return await sources.of(product, lookup_of(request))


async def _environment(source: Annotated[Source, Depends(_source)]) -> dict[str, Any]:
    """GDAL may read this product and nothing else."""
    return dict(source.environment)


async def _no_algorithm() -> None:
    """TiTiler may transform pixels by named algorithms; we show them as they are."""


async def _rendering(
    request: Request,
    source: Annotated[Source, Depends(_source)],
    bands: Annotated[BidxParams, Depends(parameters.BANDS)],
    given: Annotated[ImageRenderingParams, Depends(parameters.RENDERING)],
) -> ImageRenderingParams:
    """Stretch what is not bytes over the range its statistics name, unless the reader wants it otherwise.

    Formats for computing keep the values as they are, and so do colours that are given value by value.
    """
    pictured = request.path_params.get("format") not in _FORMATS_OF_VALUES
    if given.rescale is None and pictured and "colormap" not in request.query_params:
        given.rescale = stored_range(source.bands, bands.indexes)  # type: ignore[assignment]
    return given


def stored_range(bands: list[dict[str, Any]], indexes: list[int] | None) -> list[tuple[float, float]] | None:
    """One range for all shown bands, so that their colours keep their proportions.

    None where they are bytes, or numbers of a palette's colours: those are categories and mean nothing in between.
    """
    shown = [band for number, band in enumerate(bands, start=1) if indexes is None or number in indexes]
    shown = [band for band in shown if band.get("meaning") != "alpha"]
    if not shown or any(band["dtype"] == "uint8" or band.get("meaning") == "palette" for band in shown):
        return None
    lowest, highest = min(band["minimum"] for band in shown), max(band["maximum"] for band in shown)
    return [(lowest, highest if highest > lowest else lowest + 1)]
