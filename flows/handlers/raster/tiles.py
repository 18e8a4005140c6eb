"""Makes a raster tile by tile: the scheme, one tile, several. Imports rasterio.

A tile takes one thread: the processes that work on different tiles are what keeps the processors busy.
"""

import json
from pathlib import Path

import rasterio

from flows.handlers.context import Context
from flows.handlers.errors import InvalidInput
from flows.handlers.raster import choices, cog, grid, tiling
from flows.handlers.raster.assembly import Assembled, assemble
from flows.handlers.raster.declarations import MakingParams
from flows.handlers.raster.description import artifact, facts_of, statistics_of, thumbnail_of, within_a_turn
from flows.handlers.raster.inspect import bounds_wgs84, known_crs, opened
from flows.handlers.raster.pictures import Written
from flows.handlers.raster.tile_declarations import (
    ProcessTileBatchParams,
    ProcessTileBatchResult,
    ProcessTileParams,
    Tile,
    TileOptions,
    TileResult,
    TilingSchemeParams,
    TilingSchemeResult,
)
from flows.handlers.raster.views import ProductHeader, planned
from flows.settings import TryLimits

THREADS = 1
_MEGABYTE = 1024**2


def scheme(params: TilingSchemeParams, context: Context) -> TilingSchemeResult:
    """Plan the tiles from the source's header alone."""
    with opened(params.source, context) as source:
        product = planned(source, params)
    side = tiling.side(params.tile_pixels, product.cell)
    count = tiling.count(product.width, product.height, side)
    if count > tiling.MOST_TILES:
        raise InvalidInput(
            f"{params.source!r} would make {count:,} tiles of {side:,} pixels; at most {tiling.MOST_TILES:,} are made. "
            "Choose larger `tile_pixels`."
        )
    limit = min(params.memory_limit_mb * _MEGABYTE, TryLimits().memory_here)
    decision = tiling.decide(product.size_bytes, limit, count)
    places = tiling.places(product.width, product.height, side)
    return TilingSchemeResult(
        tiles=[_tile(place, side, product, params) for place in places],
        tile_count=count,
        crs=product.crs,
        width=product.width,
        height=product.height,
        decoded_mb=product.size_bytes / _MEGABYTE,
        estimated_memory_mb=choices.memory_bytes(product.cell, product.bands, cog.THREADS) / _MEGABYTE,
        route="tiled" if decision.is_tiled else "direct",
        reason=decision.reason,
    )


def _tile(place: grid.Place, side: int, product: ProductHeader, params: MakingParams) -> Tile:
    column, row, width, height = place
    transform = product.part(*place).transform
    bounds = bounds_wgs84(known_crs(product.crs), grid.bounds(transform[:6], width, height), params.source)
    return Tile(
        id=tiling.name(place, side), column=column, row=row, width=width, height=height,
        bounds_wgs84=within_a_turn(bounds),
    )  # fmt: skip


def process(params: ProcessTileParams, context: Context) -> TileResult:
    """Make one tile: a product of its own, or a part of a mosaic."""
    return _make_tile(params.tile, params, context)


def process_batch(params: ProcessTileBatchParams, context: Context) -> ProcessTileBatchResult:
    """Make tile after tile. What is finished is noted, and not made again by the next try."""
    notes = {str(key): str(name) for key, name in (context.checkpoint.load() or {}).items()}
    results = list[TileResult]()
    for number, tile in enumerate(params.tiles, start=1):
        if tile.id not in notes:
            made = _make_tile(tile, params, context)
            notes[tile.id] = context.output_name(f"notes/{tile.id}.json")
            context.storage.runs.write_bytes(notes[tile.id], made.model_dump_json().encode())
            context.checkpoint.save(dict(notes))
        results.append(TileResult.model_validate(json.loads(context.storage.runs.read_bytes(notes[tile.id]))))
        context.progress(number / len(params.tiles), f"tile {number} of {len(params.tiles)}")
    return ProcessTileBatchResult(
        tiles=results, artifacts=[artifact for result in results for artifact in result.artifacts]
    )


def _make_tile(tile: Tile, options: TileOptions, context: Context) -> TileResult:
    path = context.workdir / "tile.tif"
    with cog.pictures_in(context.workdir) as raster:
        place = (tile.column, tile.row, tile.width, tile.height)
        product, seen = cog.write_raster(options, raster, place, THREADS, context, is_part=options.is_part)
        if options.is_part:
            made = assemble(seen.paths, path, context)
        else:
            made = cog.finish(seen.paths, product, path, THREADS, context)
    return _store_tile(path, made, seen, tile, options, context)


def _store_tile(
    path: Path, made: Assembled, seen: Written, tile: Tile, options: TileOptions, context: Context
) -> TileResult:
    folder, store = ("parts", context.storage.runs) if options.is_part else ("tiles", context.storage.silver)
    name = context.output_name(f"{folder}/{tile.id}.tif")
    with rasterio.open(path, driver="GTiff") as raster:
        statistics = statistics_of(raster, seen.tallies)
        facts = facts_of(raster, statistics, options.source, outlined=not options.is_part)
        picture = f"{folder}/{tile.id}.png"
        is_shown = not options.is_part and not seen.is_empty
        shown = [thumbnail_of(raster, statistics, context.output_name(picture), context)] if is_shown else []
    store.put_file(name, path, context.check)
    return TileResult(
        **vars(facts),
        id=tile.id,
        column=tile.column,
        row=tile.row,
        cog=name,
        is_empty=seen.is_empty,
        artifacts=[] if options.is_part else [artifact("tile", name, path, made, facts), *shown],
    )
