"""Describes a finished product and puts it where readers look. Imports rasterio."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
from affine import Affine
from rasterio.crs import CRS
from rasterio.io import DatasetReader

from domain.contracts.artifacts import Artifact, Bounds
from domain.rules.rendering import HIGHEST_PERCENT, LOWEST_PERCENT, rendering_of
from flows.handlers.context import Context
from flows.handlers.raster import footprint, grid, thumbnail
from flows.handlers.raster.assembly import Assembled
from flows.handlers.raster.declarations import COG_MEDIA_TYPE, BandStatistics, CogResult, ProductFacts
from flows.handlers.raster.inspect import bounds_wgs84, sha256_of
from flows.handlers.raster.statistics import BandTally


def store_product(
    path: Path, made: Assembled, statistics: Sequence[BandStatistics], source: str, context: Context
) -> CogResult:
    """Describe the product from the product itself, while it goes into the silver zone; its thumbnail follows."""
    name = context.output_name("cog.tif")
    with ThreadPoolExecutor(1, "store") as beside:
        stored = beside.submit(context.storage.silver.put_file, name, path, context.check)
        with rasterio.open(path, driver="GTiff") as raster:
            facts = facts_of(raster, statistics, source)
            shown = thumbnail_of(raster, statistics, context.output_name("thumbnail.png"), context)
        stored.result()
    cog = artifact("cog", name, path, made, facts)
    context.progress(1.0, "stored")
    return CogResult(cog=name, **vars(facts), artifacts=[cog, shown])


def facts_of(
    raster: DatasetReader, statistics: Sequence[BandStatistics], source: str, *, outlined: bool = True
) -> ProductFacts:
    """Return what the product's header and a small picture of it say."""
    crs = CRS.from_epsg(raster.crs.to_epsg())
    bounds = tuple(raster.bounds)
    return ProductFacts(
        crs=f"EPSG:{crs.to_epsg()}",
        bounds_native=bounds,
        bounds_wgs84=within_a_turn(bounds_wgs84(crs, bounds, source)),
        width=raster.width,
        height=raster.height,
        transform=list(raster.transform[:6]),
        bands=list(statistics),
        footprint_wgs84=_outline(raster, crs) if outlined else None,
    )


def within_a_turn(bounds: Bounds) -> Bounds:
    """Return west and east within 180 degrees: a box that goes on beyond ends at a negative east."""
    west, south, east, north = bounds
    if east - west >= 360:
        return -180.0, south, 180.0, north
    turned = [longitude - 360 if longitude > 180 else longitude for longitude in (west, east)]
    return (west, south, east, north) if turned == [west, east] else (turned[0], south, turned[1], north)


def statistics_of(raster: DatasetReader, tallies: Sequence[BandTally]) -> list[BandStatistics]:
    """What was counted, with what the header says of each band. A band without one valid pixel has zeros."""
    return [
        BandStatistics(
            dtype=raster.dtypes[band],
            nodata=raster.nodata,
            minimum=tally.minimum if tally.valid else 0.0,
            maximum=tally.maximum if tally.valid else 0.0,
            mean=tally.mean,
            stddev=tally.stddev,
            valid_percent=tally.valid_percent,
            percentile_2=tally.percentile(LOWEST_PERCENT),
            percentile_98=tally.percentile(HIGHEST_PERCENT),
            scale=raster.scales[band],
            offset=raster.offsets[band],
            unit=raster.units[band],
            description=raster.descriptions[band],
            meaning=raster.colorinterp[band].name,
        )
        for band, tally in enumerate(tallies)
    ]


def artifact(role: str, name: str, path: Path, made: Assembled, facts: ProductFacts) -> Artifact:
    return Artifact(
        role=role,
        zone="silver",
        name=name,
        media_type=COG_MEDIA_TYPE,
        sha256=made.sha256,
        size_bytes=made.size_bytes,
        bbox=facts.bounds_wgs84,
    )


def _outline(raster: DatasetReader, crs: CRS) -> footprint.Coordinates | None:
    height, width = grid.shrunk(raster.width, raster.height, footprint.LONGEST_SIDE)
    place = raster.transform @ Affine.scale(raster.width / width, raster.height / height)
    return footprint.outline(raster.dataset_mask(out_shape=(height, width)), place, crs)


def thumbnail_of(raster: DatasetReader, statistics: Sequence[BandStatistics], name: str, context: Context) -> Artifact:
    """Put a small picture of the raster into the silver zone."""
    shape = grid.shrunk(raster.width, raster.height, thumbnail.LONGEST_SIDE)
    rendering = rendering_of([band.model_dump() for band in statistics])
    pixels: np.ndarray[Any, Any] = raster.read(rendering.bands, out_shape=(len(rendering.bands), *shape))
    path = context.workdir / "thumbnail.png"
    thumbnail.write(raster, rendering, pixels, raster.dataset_mask(out_shape=shape), path)
    context.storage.silver.put_file(name, path, context.check)
    shown = Artifact(
        role="thumbnail",
        zone="silver",
        name=name,
        media_type=thumbnail.MEDIA_TYPE,
        sha256=sha256_of(path, context),
        size_bytes=path.stat().st_size,
    )
    with suppress(FileNotFoundError):
        path.unlink()
    return shown
