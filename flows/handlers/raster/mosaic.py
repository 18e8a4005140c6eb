"""Joins the tiles of one raster. Their packed blocks are moved as they are, so every pixel stays. Imports rasterio."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from flows.context import Context
from flows.errors import HandlerError
from flows.handlers.raster import cog, pictures
from flows.handlers.raster.assembly import compose
from flows.handlers.raster.declarations import BandStatistics, CogResult
from flows.handlers.raster.description import kept
from flows.handlers.raster.inspect import opened
from flows.handlers.raster.statistics import merged
from flows.handlers.raster.tile_declarations import MosaicParams, PartResult
from flows.handlers.raster.views import Product, planned


def join(params: MosaicParams, context: Context) -> CogResult:
    """Make the product of all tiles, the one that the direct route would have made."""
    path = context.workdir / "cog.tif"
    with cog.pictures_in(context.workdir) as raster:
        product = _written(params, raster, context)
        made = cog.finish(raster, product, path, cog.THREADS, context)
    return kept(path, made, _statistics(params.tiles), params.source, context)


def _written(params: MosaicParams, path: Path, context: Context) -> Product:
    """Put the tiles' blocks into one file at their places."""
    header = path.with_name("header.tif")
    with opened(params.source, context) as source:
        product = planned(source, params)
        _refuse_gaps(params.tiles, product)
        with pictures.created(header, product, source, cog.THREADS) as picture:
            if product.needs_mask:
                pictures.write_empty_mask(picture)
    with compose(header, path) as whole:
        for number, tile in enumerate(params.tiles, start=1):
            context.raise_if_stopping()
            with _local(tile.cog, context) as part:
                whole.add(part, tile.column // product.block, tile.row // product.block)
            context.progress(cog.PIXELS_SHARE * number / len(params.tiles), f"tile {number} of {len(params.tiles)}")
    header.unlink()
    return product


def _refuse_gaps(tiles: Sequence[PartResult], product: Product) -> None:
    """Tiles that were planned for another grid, or not all of them, make no product."""
    covered = sum(tile.width * tile.height for tile in tiles)
    beyond = any(
        tile.column % product.block or tile.row % product.block
        or tile.column + tile.width > product.width or tile.row + tile.height > product.height
        for tile in tiles
    )  # fmt: skip
    if beyond or covered != product.width * product.height or len({tile.id for tile in tiles}) != len(tiles):
        raise HandlerError(
            f"The tiles do not cover {product.width:,} x {product.height:,} pixels exactly once: "
            "the source or the parameters changed after they were made."
        )


@contextmanager
def _local(name: str, context: Context) -> Iterator[Path]:
    """The part as a file of this machine, fetched for as long as it is needed where it lies elsewhere."""
    readable = context.storage.runs.readable_path(name)
    if "://" not in readable:
        yield Path(readable)
        return
    path = context.workdir / "part.tif"
    with path.open("wb") as file:
        for chunk in context.storage.runs.chunks(name):
            file.write(chunk)
    try:
        yield path
    finally:
        path.unlink()


def _statistics(tiles: Sequence[PartResult]) -> list[BandStatistics]:
    bands = range(len(tiles[0].bands))
    return [merged([(tile.width * tile.height, tile.bands[band]) for tile in tiles]) for band in bands]
