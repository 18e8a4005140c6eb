"""Joins the tiles of one raster. Their packed blocks are moved as they are, so every pixel stays. Imports rasterio."""

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

from flows.handlers.context import Context
from flows.handlers.errors import HandlerError
from flows.handlers.raster import cog, pictures
from flows.handlers.raster.assembly import Composition, Picture, compose
from flows.handlers.raster.declarations import CogResult
from flows.handlers.raster.description import store_product
from flows.handlers.raster.inspect import opened
from flows.handlers.raster.merging import merged
from flows.handlers.raster.tile_declarations import MosaicParams, PartResult
from flows.handlers.raster.views import ProductHeader, planned
from flows.storage.readers import chunks


def join(params: MosaicParams, context: Context) -> CogResult:
    """Make the product of all tiles, the one that the direct route would have made."""
    path = context.workdir / "cog.tif"
    with cog.pictures_in(context.workdir) as raster:
        product, paths = _written(params, raster, context)
        made = cog.finish(paths, product, path, cog.THREADS, context)
    return store_product(path, made, merged(params.tiles), params.source, context)


def _written(params: MosaicParams, raster: Path, context: Context) -> tuple[ProductHeader, list[Path]]:
    """Put the tiles' blocks into one file at their places, and those of their overviews each into its own."""
    with opened(params.source, context) as source:
        product = planned(source, params)
        _refuse_gaps(params.tiles, product)
        paths = [pictures.path_of(raster, number) for number in range(product.overviews_of_cells + 1)]
        headers = [path.with_stem(f"{path.stem}-header") for path in paths]
        with pictures.created(headers, product, product.block_sides, source, cog.THREADS) as empty:
            if product.needs_mask:
                for picture in empty:
                    pictures.write_empty_mask(picture)
    with ExitStack() as held:
        wholes = [held.enter_context(compose(*files)) for files in zip(headers, paths, strict=True)]
        for number, tile in enumerate(params.tiles, start=1):
            context.raise_if_stopping()
            _add(tile, wholes, context)
            context.progress(cog.PIXELS_SHARE * number / len(params.tiles), f"tile {number} of {len(params.tiles)}")
    return product, paths


def _add(tile: PartResult, wholes: Sequence[Composition], context: Context) -> None:
    """Move the blocks of a tile's pictures; each picture is half as far from the origin as the one before."""
    with _local(tile.cog, context) as part:
        own = Picture.all_of(part)
        sides, wanted = [picture.side for picture in own], [whole.side for whole in wholes]
        if sides != wanted:
            raise HandlerError(
                f"Tile {tile.id} has pictures in blocks of {sides} pixels and its mosaic takes {wanted}: "
                "the parameters changed after it was made."
            )
        for level, (whole, picture) in enumerate(zip(wholes, own, strict=True)):
            whole.add(picture, (tile.column >> level) // whole.side, (tile.row >> level) // whole.side)


def _refuse_gaps(tiles: Sequence[PartResult], product: ProductHeader) -> None:
    """Tiles that were planned for another grid, or not all of them, make no product."""
    covered = sum(tile.width * tile.height for tile in tiles)
    beyond = any(
        tile.column % product.cell or tile.row % product.cell
        or tile.column + tile.width > product.width or tile.row + tile.height > product.height
        for tile in tiles
    )  # fmt: skip
    if beyond or covered != product.width * product.height or len({tile.id for tile in tiles}) != len(tiles):
        raise HandlerError(
            f"The tiles do not cover {product.width:,} x {product.height:,} pixels exactly once: "
            "the source or the parameters changed after they were made."
        )


@contextmanager
def _local(name: str, context: Context) -> Iterator[BinaryIO]:
    """The part as a file of this machine, fetched for as long as it is needed where it lies elsewhere."""
    with context.storage.runs.reader(name) as part:
        if part.descriptor is not None:
            with os.fdopen(os.dup(part.descriptor), "rb") as file:
                yield file
            return
        with tempfile.TemporaryFile(dir=context.workdir) as copy:
            for chunk in chunks(part):
                context.raise_if_stopping()
                copy.write(chunk)
            copy.flush()
            yield copy
