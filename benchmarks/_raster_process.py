"""One process of the raster benchmark: says that it is ready, waits for a line, does one step of a workflow.

Arguments: the folder of the zones, what to do, and its parameters as JSON. Knows handlers, and no Prefect.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
from rasterio.transform import from_origin
from rasterio.windows import Window

from flows.handlers.context import Context
from flows.handlers.raster import cog, mosaic, tiles
from flows.handlers.raster.declarations import CreateCogParams
from flows.handlers.raster.tile_declarations import MosaicParams, ProcessTileParams, TilingSchemeParams
from flows.storage import Zones

NAME = "bench/source.tif"
SOURCE_CRS = "EPSG:32633"
TILE_PIXELS = 2048
STRIPE = 512


def main() -> None:
    """Obey."""
    root, what, given = Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
    workdir = root / f"work-{what}-{given.get('share', 0)}"
    workdir.mkdir(exist_ok=True)
    context = Context(run_id="bench", node_id=what, storage=Zones.local(root), workdir=workdir, output_prefix="bench")
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    {"cog": _cog, "tiles": _tiles, "mosaic": _mosaic, "source": _source}[what](root, given, context)


def _source(root: Path, given: dict[str, Any], context: Context) -> None:
    """A picture with soft shapes and a little noise, as cameras make it; plain tiles, no overviews."""
    path, size = root / "bronze" / NAME, given["size"]
    path.parent.mkdir(parents=True)
    dice = np.random.default_rng(7)
    profile = {"driver": "GTiff", "width": size, "height": size, "count": 3, "dtype": "uint8", "nodata": 0}
    place = {"crs": SOURCE_CRS, "transform": from_origin(500_000, 5_300_000, 10, 10)}
    layout = {"tiled": True, "blockxsize": STRIPE, "blockysize": STRIPE, "interleave": "pixel"}
    columns = np.arange(size)[None, :]
    with rasterio.open(path, "w", **profile, **place, **layout) as raster:
        for row in range(0, size, STRIPE):
            rows = np.arange(row, row + STRIPE)[:, None]
            light = 110 + 60 * np.sin(columns / 700) * np.cos(rows / 900) + 25 * np.sin(columns / 37 + rows / 53)
            noisy = [light + 10 * band + dice.normal(0, 2, light.shape) for band in range(3)]
            raster.write(np.clip(noisy, 1, 255).astype("uint8"), window=Window(0, row, size, STRIPE))


def _cog(root: Path, given: dict[str, Any], context: Context) -> None:
    cog.create(CreateCogParams(**given), context)


def _tiles(root: Path, given: dict[str, Any], context: Context) -> None:
    """This process's share of all tiles."""
    share, shares = given.pop("share"), given.pop("shares")
    planned = tiles.scheme(TilingSchemeParams(tile_pixels=TILE_PIXELS, **given), context)
    for tile in planned.tiles[share::shares]:
        made = tiles.process(ProcessTileParams(tile=tile, is_part=True, **given), context)
        (root / f"part-{made.id}.json").write_text(made.model_dump_json())


def _mosaic(root: Path, given: dict[str, Any], context: Context) -> None:
    parts = [json.loads(path.read_text()) for path in sorted(root.glob("part-*.json"))]
    mosaic.join(MosaicParams(tiles=parts, **given), context)


if __name__ == "__main__":
    main()
