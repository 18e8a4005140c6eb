"""Every raster has a map: products of many band counts and pixel types, made, drawn and looked at pixel by pixel."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import morecantile
import numpy as np
import psycopg
import pytest
import rasterio
from psycopg.types.json import Jsonb
from rasterio.enums import ColorInterp
from rasterio.warp import Resampling, reproject

from flows.handlers.raster.declarations import CogResult, CreateCogParams, create_cog
from tests.gateway.serving.conftest import Served
from tests.gateway.serving.test_tiles import decoded
from tests.support.rasters import bronze, context_in, write

SIDE = 96
WMQ = morecantile.tms.get("WebMercatorQuad")
# Of each type: its least and greatest value here, and its nodata.
TYPES: dict[str, tuple[float, float, float]] = {
    "uint8": (10, 240, 0), "int8": (-100, 110, -128), "uint16": (100, 6000, 0), "int16": (-900, 4000, -32768),
    "uint32": (10, 3_000_000_000, 0), "int32": (-2_000_000_000, 2_000_000_000, -(2**31)),
    "float32": (0.01, 0.9, -9999.0), "float64": (-1e6, 1e9, float("nan")),
}  # fmt: skip
# What alpha is where nothing is transparent; GDAL takes 1 for as much in other types.
OPAQUE = {"uint8": 255, "uint16": 65_535, "int16": 32_767}
RGB = ("red", "green", "blue")


@dataclass(frozen=True)
class Kind:
    """How many bands there are and what the file says of them; which of them are to be drawn."""

    meanings: tuple[str, ...]
    shown: tuple[int, ...]
    names: tuple[str, ...] = ()

    @property
    def has_alpha(self) -> bool:
        return "alpha" in self.meanings


def untold(count: int) -> tuple[str, ...]:
    return ("gray", *["undefined"] * (count - 1))


SENTINEL = ("B01", "B02", "B03", "B04", "B05", "B06", "B07", "B08", "B8A", "B09", "B10", "B11", "B12")
WORLDVIEW = ("coastal", "blue", "green", "yellow", "red", "red edge", "NIR 1", "NIR 2")
KINDS = {
    "1": Kind(untold(1), (1,)),
    "2": Kind(untold(2), (1,)),
    "2-alpha": Kind(("gray", "alpha"), (1,)),
    "3": Kind(RGB, (1, 2, 3)),
    "4-alpha": Kind((*RGB, "alpha"), (1, 2, 3)),
    "4-nir": Kind((*RGB, "undefined"), (1, 2, 3)),
    "4-named": Kind(untold(4), (3, 2, 1), ("Blue", "Green", "Red", "Near infrared")),
    "5": Kind(untold(5), (1,)),
    "8": Kind(untold(8), (5, 3, 2), WORLDVIEW),
    "13": Kind(untold(13), (4, 3, 2), SENTINEL),
    "256": Kind(untold(256), (1,)),
}
# Every count with every type; of 256 bands, each of which GDAL unpacks all others for, the short ones.
CASES = [(name, dtype) for name in KINDS for dtype in TYPES if name != "256" or dtype in ("uint8", "int16")]
Make = Callable[[str, str], tuple[CogResult, str]]


def pixels_of(kind: Kind, dtype: str) -> Any:
    """A slope in each band, each another one, and a hole in it."""
    low, high, nodata = TYPES[dtype]
    rows, columns = np.mgrid[0:SIDE, 0:SIDE] / (SIDE - 1)
    cube = np.empty((len(kind.meanings), SIDE, SIDE), dtype)
    for number, meaning in enumerate(kind.meanings):
        turn = number * 0.7
        share = (np.sin(turn) * (rows - 0.5) + np.cos(turn) * (columns - 0.5)) / 1.5 + 0.5
        cube[number] = (low + (high - low) * share).astype(dtype)
        if meaning == "alpha":
            cube[number] = OPAQUE.get(dtype, 1)
        cube[number, 24:48, 24:48] = 0 if kind.has_alpha else nodata
    return cube


@pytest.fixture(scope="module")
def made(served: Served) -> Iterator[Make]:
    """Makes products as the workflow does, and serves them."""
    known: dict[str, CogResult] = {}

    def make(name: str, dtype: str) -> tuple[CogResult, str]:
        asset = f"bands-{name}-{dtype}"
        if asset not in known:
            known[asset] = _product(served, asset, KINDS[name], dtype)
            publish(served, asset, known[asset].cog, [band.model_dump() for band in known[asset].bands])
        return known[asset], asset

    yield make
    with psycopg.connect(served.admin_url, autocommit=True) as connection:
        connection.execute("delete from api.products where asset_id like 'bands-%'")


def _product(served: Served, asset: str, kind: Kind, dtype: str) -> CogResult:
    nodata = None if kind.has_alpha else TYPES[dtype][2]
    look = "RGB" if kind.meanings[:3] == RGB else "MINISBLACK"
    path = bronze(served.root, f"up/{asset}.tif")
    write(
        path, pixels_of(kind, dtype), nodata=nodata, photometric=look, interleave="pixel", blockxsize=64, blockysize=64
    )
    with rasterio.open(path, "r+") as raster:
        raster.colorinterp = [ColorInterp[meaning] for meaning in kind.meanings]
        raster.descriptions = kind.names or (None,) * len(kind.meanings)
    return create_cog(CreateCogParams(source=f"up/{asset}.tif"), context_in(served.root, output_prefix=f"b/{asset}"))


def publish(served: Served, asset: str, cog: str, bands: Any) -> None:
    with psycopg.connect(served.admin_url, autocommit=True) as connection:
        connection.execute("delete from api.products where asset_id = %s", [asset])
        connection.execute(
            "insert into api.products values "
            "(%s, 'ddh', 1, 1, 'public', 'approved', true, 'latest_only', %s, null, %s)",
            [asset, cog, None if bands is None else Jsonb(json.loads(json.dumps(bands).replace("NaN", "null")))],
        )


def tile_of(product: CogResult, *, inside: bool = False) -> morecantile.Tile:
    """A tile that shows the whole, or a small one in the middle of it."""
    west, south, east, north = product.bounds_wgs84
    share = 0.75 if inside else 0.5
    return WMQ.tile(west + (east - west) * share, south + (north - south) * (1 - share), 18 if inside else 12)


def path_of(tile: morecantile.Tile) -> str:
    return f"WebMercatorQuad/{tile.z}/{tile.x}/{tile.y}"


def on_tile(cog: Path, tile: morecantile.Tile) -> tuple[Any, Any]:
    """The product's bands and which pixels count, by GDAL's own warper and without ours."""
    box = WMQ.xy_bounds(tile)
    place = rasterio.transform.from_bounds(*box, 256, 256)
    with rasterio.open(cog) as raster:
        data = raster.read().astype("float64")
        valid = np.ones(raster.shape, "uint8")
        if ColorInterp.alpha in raster.colorinterp:
            valid = (data[raster.colorinterp.index(ColorInterp.alpha)] > 0).astype("uint8")
        elif raster.nodata is not None:
            valid = (
                (~(np.isnan(data) if np.isnan(raster.nodata) else data == raster.nodata)).all(axis=0).astype("uint8")
            )
        warped = np.zeros((len(data), 256, 256)), np.zeros((256, 256), "uint8")
        for source, target in zip((np.nan_to_num(data), valid), warped, strict=True):
            reproject(
                source, target, src_transform=raster.transform, src_crs=raster.crs, dst_transform=place,
                dst_crs="EPSG:3857", resampling=Resampling.nearest,
            )  # fmt: skip
        return warped


def expected_range(cog: Path, kind: Kind, dtype: str) -> tuple[float, float]:
    """From 2 to 98 % of all that is drawn, by numpy over every pixel."""
    if dtype == "uint8" and len(kind.shown) == 3:
        return 0.0, 255.0
    with rasterio.open(cog) as raster:
        drawn = [raster.read(number).astype("float64") for number in kind.shown]
        valid = raster.read(raster.count) > 0 if kind.has_alpha else raster.dataset_mask() > 0
    ends = [np.percentile(band[valid & np.isfinite(band)], (2, 98)) for band in drawn]
    return min(low for low, _ in ends), max(high for _, high in ends)


@pytest.mark.parametrize(("name", "dtype"), CASES)
async def test_raster_of_any_bands_is_drawn(
    name: str, dtype: str, made: Make, client: httpx.AsyncClient, served: Served
) -> None:
    kind, (product, asset) = KINDS[name], made(name, dtype)
    cog, tile = served.root / "silver" / product.cog, tile_of(product)
    answer = await client.get(f"/tiles/{asset}/{path_of(tile)}.png")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "image/png"), answer.text[:300]
    image = decoded(answer.content)
    assert (image.dtype, len(image)) == (np.uint8, len(kind.shown) + 1)

    data, valid = on_tile(cog, tile)
    opaque = image[-1] > 0
    assert (opaque == (valid > 0)).mean() > 0.995  # edges may round another way
    assert 100 < opaque.sum() < opaque.size - 100
    low, high = expected_range(cog, kind, dtype)
    both = opaque & (valid > 0)
    for channel, number in zip(image[:-1], kind.shown, strict=True):
        wanted = np.clip((data[number - 1] - low) / (high - low), 0, 1) * 255
        assert np.median(np.abs(channel.astype(float) - wanted)[both]) <= 3
        assert np.ptp(channel[both].astype(int)) > 100  # there is contrast in the data
    await all_pictures_agree(asset, product, kind, client, served)


async def all_pictures_agree(
    asset: str, product: CogResult, kind: Kind, client: httpx.AsyncClient, served: Served
) -> None:
    """The thumbnail that the workflow made is the preview that is drawn now; no tile is in a printer's inks."""
    [shown] = [each for each in product.artifacts if each.role == "thumbnail"]
    thumbnail = decoded((served.root / "silver" / shown.name).read_bytes())
    preview = decoded((await client.get(f"/tiles/{asset}/preview.png")).content)
    assert preview.shape == thumbnail.shape
    both = (preview[-1] > 0) & (thumbnail[-1] > 0)
    assert ((preview[-1] > 0) == (thumbnail[-1] > 0)).all()
    assert np.abs(preview.astype(int) - thumbnail)[:-1][:, both].max() <= 1

    without_ending = await client.get(f"/tiles/{asset}/{path_of(tile_of(product, inside=True))}")
    assert without_ending.status_code == 200
    assert without_ending.headers["content-type"] == "image/jpeg"  # wholly within the data
    assert len(decoded(without_ending.content)) == len(kind.shown)  # four would be the inks of a printer
