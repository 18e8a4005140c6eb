"""Searches by place, by a client that is not ours: what lies there is found and nothing else, upgraded or new."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import psycopg
import pystac_client
import pytest
from pystac_client.item_search import ItemSearch
from shapely import box, from_wkt
from shapely.geometry import mapping
from shapely.geometry.base import BaseGeometry

from domain.migrations import downgrade, upgrade
from tests.support.acts import decide
from tests.support.cluster import TestDatabase
from tests.support.console import Assembly
from tests.support.tiled import TILES, tile, tiled

Asked = Callable[[str, str, BaseGeometry], ItemSearch]
PLACES = {
    "some": box(11.1, 41.1, 12.9, 42.2),
    "slanted": from_wkt("POLYGON ((10.2 40.1, 17.8 47.3, 17.8 46.9, 10.9 40.1, 10.2 40.1))"),
    "point": from_wkt("POINT (13.25 43.75)"),
    "all": box(5, 35, 25, 55),
    "outside": box(-20, -20, -10, -10),
    "beside": box(18.1, 40, 19, 48),
}
# A point or a line has no box of its own, so it is asked for by its bounds.
ASKED: dict[str, Asked] = {
    "bbox": lambda url, method, place: _searched(url, method, bbox=place.bounds),
    "bbox with heights": lambda url, method, place: _searched(url, method, bbox=_with_heights(place)),
    "intersects": lambda url, method, place: _searched(url, method, intersects=mapping(place)),
    "s_intersects": lambda url, method, place: _searched(url, method, filter=_condition(method, place)),
}
BY_BOX = {"bbox", "bbox with heights"}


def _searched(url: str, method: str, **asked: Any) -> ItemSearch:
    return pystac_client.Client.open(f"{url}/stac/").search(method=method, limit=100, **asked)


def _with_heights(place: BaseGeometry) -> tuple[float, ...]:
    west, south, east, north = place.bounds
    return west, south, -50.0, east, north, 9000.0


def _condition(method: str, place: BaseGeometry) -> Any:
    if method == "GET":
        return f"S_INTERSECTS(geometry, {place.wkt})"
    return {"op": "s_intersects", "args": [{"property": "geometry"}, mapping(place)]}


def lying_in(place: BaseGeometry) -> set[str]:
    """The tiles there, by arithmetic that is not the database's."""
    made = [tile(number, "assets/a/0-r1/a1") for number in range(TILES)]
    return {each.id for each in made if box(*each.bounds_wgs84).intersects(place)}


async def found(asked: Callable[[], ItemSearch]) -> list[str]:
    """The tiles that the client reads, through all pages; beside the server, which works in this loop."""
    ids = await asyncio.to_thread(lambda: [item.id for item in asked().items()])
    return [name for item_id in ids if (name := item_id.partition("-r1-")[2])]


@pytest.fixture(scope="module")
async def asset_id(assembly: Assembly) -> str:
    """A public version of 250 tiles; and beside it one in the same place that the public may not know of."""
    made = [await tiled(assembly.domain, assembly.storage)]
    refs = {"dataset_id": "hidden", "resource_id": "dem"}
    made.append(await tiled(assembly.domain, assembly.storage, refs=refs, source="uploads/hidden.tif"))
    for each, level in zip(made, ("public", "ouo"), strict=True):
        answer = await decide(assembly.domain, each, 0, "approve", clearance_level=level)
        assert answer.status_code == 200, answer.text
    return made[0]


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("way", ASKED)
async def test_search_by_place_finds_exactly_the_items_that_lie_there(
    assembly: Assembly, asset_id: str, way: str, method: str, place: BaseGeometry
) -> None:
    ids = await found(partial(ASKED[way], assembly.url, method, place))
    assert sorted(ids) == sorted(lying_in(box(*place.bounds) if way in BY_BOX else place))


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
async def test_a_collections_items_are_found_by_box(assembly: Assembly, asset_id: str, place: BaseGeometry) -> None:
    url = f"{assembly.url}/stac/collections/{asset_id}/items"
    ids = await found(lambda: ItemSearch(url, method="GET", bbox=place.bounds, limit=100))
    assert sorted(ids) == sorted(lying_in(box(*place.bounds)))


@pytest.mark.parametrize("west", [170, 12, -160])
async def test_box_across_the_antimeridian_finds_items_on_both_sides(
    assembly: Assembly, asset_id: str, west: float
) -> None:
    """A box's west may be east of its east. The tiles lie between 10 and 18 degrees east."""
    ids = await found(partial(_searched, assembly.url, "GET", bbox=(west, 40, -170, 48)))
    assert sorted(ids) == sorted(lying_in(box(west, 40, 180, 48)) | lying_in(box(-180, 40, -170, 48)))


def as_stored_before(database: TestDatabase) -> None:
    """The schema before this, and geometries as releases before this left them: without an SRID."""
    downgrade(database.url(), "0020")
    with psycopg.connect(database.url(), options="-c search_path=pgstac,public") as connection:
        connection.execute("update pgstac.items set geometry = st_setsrid(geometry, 0)")


async def test_items_that_were_stored_before_the_upgrade_are_found_after_it(assembly: Assembly, asset_id: str) -> None:
    database, place = assembly.domain.database, PLACES["some"]
    as_stored_before(database)
    try:
        before = await assembly.ask(None, "GET", "/stac/search", params={"bbox": "11.1,41.1,12.9,42.2"})
    finally:
        upgrade(database.url())
    assert (before.status_code, before.json()["code"]) == (500, "internal")
    for asked in ASKED.values():
        ids = await found(partial(asked, assembly.url, "POST", place))
        assert sorted(ids) == sorted(lying_in(place))
