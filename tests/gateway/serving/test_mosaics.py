"""Tiled rasters served as one: the pixels of the direct route, through the same doors, and no others' files."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import morecantile
import numpy as np
import psycopg
import pytest
import rasterio
from hypothesis import given
from hypothesis import strategies as st
from psycopg.types.json import Jsonb

from deployments import sample
from domain.rules.publication import Holdings, collection
from domain.rules.rendering import rendering_of
from flows.handlers.raster.declarations import CogResult, CreateCogParams, create_cog
from flows.handlers.raster.merging import merged
from flows.handlers.raster.tile_declarations import (
    ProcessTileParams,
    TileResult,
    TilingSchemeParams,
    generate_tiling_scheme,
    process_tile,
)
from flows.handlers.stac.declarations import RegisterItemsParams
from flows.handlers.stac.staging import register_items
from gateway.serving.mosaics import Grid, NoMosaic, Part, grid_of, mosaic, parts_of, smaller_pictures
from tests.gateway.serving.conftest import Served
from tests.gateway.serving.test_tiles import OWNER, STRANGER, decoded
from tests.support.rasters import bronze, context_in, write

SIZE = 1400
SMALL = {"block_size": 128}
WMQ = morecantile.tms.get("WebMercatorQuad")
ROW = """
insert into api.products values (%s, 'ddh', 0, 1, %s, 'approved', true, 'latest_only', null, null, null, null)
"""
SCENES: dict[str, Any] = {
    "heights": (sample.pixels(1, SIZE), {"nodata": 0}),
    "levels": (sample.pixels(4, SIZE).astype("int16"), {"nodata": 0}),
    "spectra": (
        np.stack([sample.pixels(seed, SIZE) // seed for seed in (5, 4, 3, 2, 1)]).astype("int16"),
        {"nodata": 0},
    ),
    "colours": (np.stack([sample.pixels(seed, SIZE) % 250 for seed in (1, 2, 3)]).astype("uint8"), {}),
}

# What the numbers of a scene stand for, where the file says it.
MEANINGS: dict[str, dict[str, Any]] = {
    "levels": {"scales": (0.25,), "offsets": (-12.5,), "units": ("metre",), "descriptions": ("water & level",)},
    "spectra": {"descriptions": ("Blue", "Green", "Red", "Near infrared", "SWIR")},
}


def describe(path: Path, **meanings: Any) -> None:
    with rasterio.open(path, "r+") as raster:
        for name, values in meanings.items():
            setattr(raster, name, values)


def made_tiles(root: Path, name: str, asset_id: str, attempt: int = 1) -> list[TileResult]:
    """The file's tiles, as a run of this asset makes them."""
    context, source = context_in(root, output_prefix=f"assets/{asset_id}/0-r1/a{attempt}"), f"up/{name}.tif"
    planned = generate_tiling_scheme(TilingSchemeParams(source=source, tile_pixels=512, **SMALL), context)
    return [process_tile(ProcessTileParams(source=source, tile=tile, **SMALL), context) for tile in planned.tiles]


@pytest.fixture(scope="module", autouse=True)
def scenes(served: Served) -> Iterator[dict[str, CogResult]]:
    """Each scene as one product and as tiles; the tiles are what is served."""
    direct = {}
    with pytest.MonkeyPatch.context() as patch, psycopg.connect(served.admin_url, autocommit=True) as connection:
        patch.setattr("flows.handlers.raster.choices.LARGEST_CELL", 256)
        for name, (pixels, profile) in SCENES.items():
            describe(write(bronze(served.root, f"up/{name}.tif"), pixels, **profile), **MEANINGS.get(name, {}))
            context = context_in(served.root, output_prefix=f"direct/{name}")
            direct[name] = create_cog(CreateCogParams(source=f"up/{name}.tif", **SMALL), context)
            _add(served, connection, name, made_tiles(served.root, name, name))
        yield direct
        connection.execute("delete from api.products where asset_id = any(%s)", [list(SCENES)])
        connection.execute("truncate api.descriptions, api.served_in_parts")


def _add(served: Served, connection: psycopg.Connection, name: str, tiles: list[TileResult]) -> None:
    facts = {"asset_id": name, "version_ordinal": 0, "revision": 1, "version_label": "1", "request_id": "r"}
    context = context_in(served.root, output_prefix=f"items/{name}", facts=facts)
    items = register_items(RegisterItemsParams(collection_id=name, tiles=tiles, source=f"up/{name}.tif"), context)
    connection.execute(ROW.encode(), [name, "ouo" if name == "colours" else "public"])
    connection.execute("insert into api.served_in_parts values (%s, 0, 1)", [name])
    connection.execute("insert into api.descriptions values (%s, 0, 1, 'stac_items', %s)", [name, items.items])
    described = Jsonb(collection(name, {}, "Hub", Holdings()))
    connection.execute("select pgstac.create_collection(%s)", [described])


@pytest.mark.parametrize("name", SCENES)
@pytest.mark.parametrize("zoom", [10, 12, 14])
async def test_tiles_of_the_parts_are_tiles_of_the_whole(
    name: str, zoom: int, scenes: dict[str, CogResult], client: httpx.AsyncClient, served: Served
) -> None:
    west, south, east, north = scenes[name].bounds_wgs84
    tile = WMQ.tile((west + east) / 2, (south + north) / 2, zoom)
    path = f"/tiles/{name}/WebMercatorQuad/{tile.z}/{tile.x}/{tile.y}.tif?version=0"
    answer = await client.get(path, headers=OWNER)
    assert answer.status_code == 200, answer.text
    pixels = decoded(answer.content)
    expected = _directly(served.root / "silver" / scenes[name].cog, tile)
    off = np.abs(pixels[: len(expected)].astype("float64") - expected)
    if zoom == 14:
        assert (off == 0).mean() > 0.999
    else:  # of smaller pictures, each part made its own edges
        assert off.mean() < 0.03 * expected.max()


async def test_parts_that_are_made_again_are_seen_at_once(client: httpx.AsyncClient, served: Served) -> None:
    """A revision keeps its number until it is approved; neither its document nor an open file may outlive its parts."""
    ask = "update api.descriptions set name = %s where asset_id = 'heights' and role = 'stac_items'"
    row, column = sample.pick_pixel(1, SIZE)
    lon, lat = sample.lonlat_of(row, column)
    point = f"/tiles/heights/point/{lon},{lat}"
    before = await client.get(point)
    write(bronze(served.root, "up/again.tif"), sample.pixels(2, SIZE), nodata=0)
    facts = {"asset_id": "heights", "version_ordinal": 0, "revision": 1, "version_label": "1", "request_id": "r"}
    context = context_in(served.root, output_prefix="items/again", facts=facts)
    tiles = made_tiles(served.root, "again", "heights", attempt=2)
    made = register_items(RegisterItemsParams(collection_id="heights", tiles=tiles, source="up/again.tif"), context)
    with psycopg.connect(served.admin_url, autocommit=True) as connection:
        ((was,),) = connection.execute("select name from api.descriptions where asset_id = 'heights'").fetchall()
        connection.execute(ask, [made.items])
        try:
            again = await client.get(point, headers={"If-None-Match": before.headers["etag"]})
        finally:
            connection.execute(ask, [was])
    assert before.json()["values"] == [sample.value_at(1, row, column)]
    assert (again.status_code, again.json()["values"]) == (200, [sample.value_at(2, row, column)])


async def test_item_that_names_another_assets_files_is_not_served(client: httpx.AsyncClient, served: Served) -> None:
    """The items of a run that was taken over: they name another tenant's tiles as their own."""
    facts = {"asset_id": "heights", "version_ordinal": 0, "revision": 1, "version_label": "1", "request_id": "r"}
    ask = "update api.descriptions set name = %s where asset_id = 'heights' and role = 'stac_items'"
    statuses = []
    with psycopg.connect(served.admin_url, autocommit=True) as connection:
        ((was,),) = connection.execute("select name from api.descriptions where asset_id = 'heights'").fetchall()
        try:
            for owner in ("heights", "colours"):
                context = context_in(served.root, output_prefix=f"items/of-{owner}", facts=facts)
                tiles = made_tiles(served.root, "heights", owner, attempt=3)
                params = RegisterItemsParams(collection_id="heights", tiles=tiles, source="up/heights.tif")
                connection.execute(ask, [register_items(params, context).items])
                statuses.append((await client.get("/tiles/heights/info")).status_code)
        finally:
            connection.execute(ask, [was])
    assert statuses == [200, 404]


def _directly(cog: Path, tile: morecantile.Tile) -> Any:
    from rio_tiler.io import Reader

    with Reader(str(cog)) as reader:
        return reader.tile(tile.x, tile.y, tile.z, tilesize=256).data


async def test_mosaic_answers_at_every_address_of_a_raster(client: httpx.AsyncClient, served: Served) -> None:
    row, column = sample.pick_pixel(1, SIZE)
    lon, lat = sample.lonlat_of(row, column)
    point = await client.get(f"/tiles/heights/point/{lon},{lat}")
    assert point.json()["values"] == [sample.value_at(1, row, column)]
    doors = ("info", "statistics", "preview/64x64.png", "WebMercatorQuad/tilejson.json", "info.geojson")
    bodies = []
    for door in doors:
        answer = await client.get(f"/tiles/heights/{door}")
        assert answer.status_code == 200, door
        bodies.append(answer.content)
    assert not [body for body in bodies if str(served.root).encode() in body]


async def test_mosaic_keeps_scale_offset_and_names_of_the_whole(
    scenes: dict[str, CogResult], client: httpx.AsyncClient, served: Served
) -> None:
    row, column = sample.pick_pixel(4, SIZE)
    lon, lat = sample.lonlat_of(row, column)
    with rasterio.open(served.root / "silver" / scenes["levels"].cog) as whole:
        assert (whole.scales, whole.offsets, whole.units) == ((0.25,), (-12.5,), ("metre",))
    told = (await client.get("/tiles/levels/info")).json()
    assert (told["scales"], told["offsets"]) == ([0.25], [-12.5])
    assert told["band_descriptions"] == [["b1", "water & level"]]
    stored = (await client.get(f"/tiles/levels/point/{lon},{lat}")).json()["values"]
    meant = (await client.get(f"/tiles/levels/point/{lon},{lat}?unscale=true")).json()["values"]
    assert stored == [sample.value_at(4, row, column)]
    assert meant == [stored[0] * 0.25 - 12.5]
    raw, scaled = [
        (await client.get("/tiles/levels/statistics", params=asked)).json()["b1"] for asked in ({}, {"unscale": "true"})
    ]
    assert scaled["max"] == pytest.approx(raw["max"] * 0.25 - 12.5)


async def test_heights_are_stretched_over_the_range_of_all_parts(client: httpx.AsyncClient) -> None:
    answer = await client.get("/tiles/heights/preview/256x256.png")
    image = decoded(answer.content)
    seen = image[0][image[-1] > 0]
    assert (image.dtype, int(seen.min()) < 30, int(seen.max()) > 220) == (np.uint8, True, True)


async def test_parts_are_drawn_as_the_whole_with_one_stretch(
    scenes: dict[str, CogResult], client: httpx.AsyncClient, served: Served
) -> None:
    """Of five bands the three that are called by colours; each part alone would have a range of its own."""
    whole = scenes["spectra"]
    bands = [band.model_dump() for band in whole.bands]
    values = ("whole", whole.cog, Jsonb(bands))
    with psycopg.connect(served.admin_url, autocommit=True) as connection:
        row = (
            "insert into api.products values (%s, 'ddh', 0, 1, 'public', 'approved', true, 'latest_only', %s, null, %s)"
        )
        connection.execute(row.encode(), values)
        pictures = [
            decoded((await client.get(f"/tiles/{asset}/preview/200x200.png")).content).astype(int)
            for asset in ("spectra", "whole")
        ]
        connection.execute("delete from api.products where asset_id = 'whole'")
    parts, direct = pictures
    assert parts.shape == direct.shape == (4, 200, 200)
    both = (parts[-1] > 0) & (direct[-1] > 0)
    assert np.abs(parts - direct)[:-1][:, both].mean() < 8
    shown = rendering_of(bands)
    assert shown.bands == (3, 2, 1)


def test_percentiles_of_all_parts_are_about_those_of_the_whole(scenes: dict[str, CogResult], served: Served) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("flows.handlers.raster.choices.LARGEST_CELL", 256)
        tiles = made_tiles(served.root, "spectra", "spectra", attempt=4)
    for band, exact in zip(merged(tiles), scenes["spectra"].bands, strict=True):
        spread = exact.maximum - exact.minimum
        assert band.percentile_2 == pytest.approx(exact.percentile_2, abs=0.08 * spread)
        assert band.percentile_98 == pytest.approx(exact.percentile_98, abs=0.08 * spread)


async def test_hidden_mosaic_is_answered_like_a_hidden_raster(client: httpx.AsyncClient) -> None:
    absent = await client.get("/tiles/nobody/info", headers=STRANGER)
    for headers in ({}, STRANGER):
        answer = await client.get("/tiles/colours/info", headers=headers)
        assert (answer.status_code, answer.content) == (404, absent.content)
    assert (await client.get("/tiles/colours/info", headers=OWNER)).status_code == 200


# --- the arithmetic ---

PIXEL = 1 / 1024


@given(st.integers(1, 6), st.integers(1, 6), st.integers(-170, 100), st.data())
def test_every_part_of_a_grid_lies_at_its_place(columns: int, rows: int, west: int, data: st.DataObject) -> None:
    places = [(column, row) for column in range(columns) for row in range(rows)]
    kept = data.draw(st.lists(st.sampled_from(places), min_size=1, unique=True))
    parts = [
        Part(f"{column}-{row}", Grid(west + column * 64 * PIXEL, 10 - row * 64 * PIXEL, PIXEL, -PIXEL, 64, 64))
        for column, row in kept
    ]
    grid = grid_of(parts)
    spans = [max(place) - min(place) + 1 for place in zip(*kept, strict=True)]
    assert (grid.width, grid.height) == (spans[0] * 64, spans[1] * 64)
    assert grid.left == west + min(column for column, _ in kept) * 64 * PIXEL


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [Part("a", Grid(0, 0, PIXEL, -PIXEL, 64, 64)), Part("b", Grid(64.4 * PIXEL, 0, PIXEL, -PIXEL, 64, 64))],
        [Part("a", Grid(0, 0, PIXEL, -PIXEL, 64, 64)), Part("b", Grid(64 * PIXEL, 0, PIXEL * 2, -PIXEL, 64, 64))],
    ],
)
def test_parts_without_a_common_grid_are_refused(parts: list[Part]) -> None:
    with pytest.raises(NoMosaic):
        grid_of(parts)


def test_only_files_of_the_silver_zone_are_parts() -> None:
    said = {"proj:transform": [1, 0, 0, 0, -1, 0], "proj:shape": [1, 1]}
    for href in ("https://elsewhere.test/a.tif", "/etc/passwd", "cairn://bronze/a.tif", "/vsicurl/https://x"):
        with pytest.raises(NoMosaic):
            parts_of([{"properties": said, "assets": {"data": {"href": href}}}])


def test_band_name_is_escaped_in_the_mosaic(tmp_path: Path) -> None:
    """A file may be called anything."""
    name = "a<SourceFilename>&b.tif"
    write(tmp_path / name, np.ones((64, 64), "uint8"), tiled=False, nodata=0)
    said = {"proj:transform": [1, 0, 0, 0, -1, 0], "proj:shape": [64, 64]}
    line = json.dumps({"properties": said, "assets": {"data": {"href": f"cairn://silver/{name}"}}}).encode()
    made = mosaic([line], lambda named: str(tmp_path / named), lambda named: rasterio.open(tmp_path / named))
    with rasterio.open(made.document([1]), driver="VRT") as whole:
        assert whole.read(1).sum() == 64 * 64


def test_parts_in_blocks_of_other_sizes_are_one_raster(tmp_path: Path) -> None:
    """A tile that one block would span has smaller blocks than the tile beside it; one of them is the sample."""
    pixels, lines = sample.pixels(6, 1500), list[bytes]()
    for name, column, block in (("left", 0, 512), ("right", 1024, 256)):
        own = pixels[:, column : column + 1024]
        write(tmp_path / name, own, nodata=0, blockxsize=block, blockysize=block)
        said = {"proj:transform": [1, 0, column, 0, -1, 0], "proj:shape": [*own.shape]}
        href = {"data": {"href": f"cairn://silver/{name}"}}
        lines.append(json.dumps({"properties": said, "assets": href}).encode())
    for order in (lines, lines[::-1]):
        made = mosaic(order, lambda named: str(tmp_path / named), lambda named: rasterio.open(tmp_path / named))
        with rasterio.open(made.document([1]), driver="VRT") as whole:
            np.testing.assert_array_equal(whole.read(1), pixels)


@pytest.mark.parametrize(("side", "factors"), [(100, []), (256, [2]), (1024, [2, 4, 8]), (1023, [2, 4])])
def test_overviews_of_a_mosaic_follow_from_its_parts(side: int, factors: list[int]) -> None:
    parts = [Part("a", Grid(0, 0, PIXEL, -PIXEL, side, side))]
    assert smaller_pictures(grid_of(parts)) == factors
