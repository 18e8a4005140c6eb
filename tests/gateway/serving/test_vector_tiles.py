"""What a vector tile holds where there is more than it has room for: an even share, told as n of m; else everything."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx
import morecantile
import psycopg
import pytest
from psycopg.types.json import Jsonb

from gateway.serving import vector_tiles
from gateway.serving.vector_tiles import MATCHED, SHOWN, Counted, estimated
from tests.gateway.serving.conftest import Served
from tests.support import mvt

# Parcels side by side, 200 in a row, the rows from south to north: as a land register lists them.
COLUMNS, ROWS = 200, 100
COUNT = COLUMNS * ROWS
WEST, SOUTH, STEP = 14.1, 47.3, 0.001
TMS = morecantile.tms.get("WebMercatorQuad")
WHOLE = TMS.tile(WEST + 0.1, SOUTH + 0.05, 9)  # holds all of them
# The last in a CRS that is turned against the map's: a box around a tile holds much that lies beside it.
SHAPES = {
    "parcels": "st_makeenvelope(x, y, x + {0} * 0.8, y + {0} * 0.8, 4326)",
    "paths": "st_setsrid(st_makeline(st_makepoint(x, y), st_makepoint(x + {0} * 0.8, y + {0} * 0.3)), 4326)",
    "trees": "st_setsrid(st_makepoint(x, y), 4326)",
    "projected": "st_transform(st_makeenvelope(x, y, x + {0} * 0.8, y + {0} * 0.8, 4326), 3995)",
}
FIELDS = """
    select n + 1::bigint as fid, 'field ' || n as name, n as number, (n / 7.0)::float8 as area, {shape} as geom
    from (select n, {west} + (n % {columns}) * {step} as x, {south} + (n / {columns}) * {step} as y
          from generate_series(0, {count} - 1) n) placed
"""
# Few features with much text: each of the first has 20 kB, and one alone has more than a tile may.
WORDY = """
    select n::bigint as fid, case n when 7 then repeat('x', 5000000) else n || repeat('y', 20000) end as name,
        n as number, (n / 7.0)::float8 as area, st_setsrid(st_makepoint(14.1 + n * 0.0001, 47.3), 4326) as geom
    from generate_series(1, 500) n
"""
WITHIN = "select fid from geo.v_c00000000000000000000000 where geom && st_makeenvelope(%s, %s, %s, %s, 4326)"
COLUMN_TYPES = {"name": "text", "number": "bigint", "area": "double precision"}


@pytest.fixture(scope="module", autouse=True)
def crowds(served: Served) -> Iterator[None]:
    place = {"west": WEST, "south": SOUTH, "step": STEP, "columns": COLUMNS, "count": COUNT}
    with psycopg.connect(served.admin_url, autocommit=True) as connection:
        for number, (name, shape) in enumerate(SHAPES.items()):
            _add(connection, name, number, FIELDS.format(shape=shape.format(STEP), **place))
        _add(connection, "wordy", len(SHAPES), WORDY)
        yield
        connection.execute("delete from api.products where table_name is not null")


def _add(connection: psycopg.Connection, name: str, number: int, rows: str) -> None:
    """A table as the loader leaves one, and the row that serves it."""
    table = f"v_c{number:023d}"
    connection.execute(f"create table geo.{table} as {rows}".encode())
    connection.execute(f"create index on geo.{table} using gist (geom)".encode())
    connection.execute(f"create index on geo.{table} (hashint8(fid))".encode())
    connection.execute(f"grant select on geo.{table} to cairn_serving".encode())
    connection.execute(f"analyze geo.{table}".encode())
    layer = {
        "columns": [{"name": each, "title": each, "type": kind} for each, kind in COLUMN_TYPES.items()],
        "crs": "EPSG:3995" if name == "projected" else "EPSG:4326",
        "geometry_type": "Geometry",
        "feature_count": 500 if name == "wordy" else COUNT,
        "bounds_wgs84": [WEST, SOUTH, WEST + 0.2, SOUTH + 0.1],
    }
    connection.execute(
        "insert into api.products (asset_id, platform_id, ordinal, revision, clearance, approval, is_latest, exposure,"
        " table_name, layer) values (%s, 'ddh', 1, 1, 'public', 'approved', true, 'latest_only', %s, %s)",
        (name, table, Jsonb(layer)),
    )


async def asked(client: httpx.AsyncClient, name: str, tile: morecantile.Tile) -> tuple[list[mvt.Feature], Any]:
    answer = await client.get(f"/tiles/{name}/WebMercatorQuad/{tile.z}/{tile.x}/{tile.y}")
    assert answer.status_code == 200, answer.text
    return mvt.features(answer.content), answer


def told(answer: httpx.Response) -> tuple[str, str]:
    return answer.headers["cairn-features-shown"], answer.headers["cairn-features-matched"]


@pytest.mark.parametrize("name", SHAPES)
async def test_crowded_tile_thins_features_evenly_and_counts_them(name: str, client: httpx.AsyncClient) -> None:
    found, answer = await asked(client, name, WHOLE)
    shown, matched = told(answer)
    assert (shown, int(matched.removesuffix(";about"))) == ("10000", COUNT)
    assert len({feature.id for feature in found}) == len(found) == 10_000
    # Of each square of twenty by twenty parcels there are about half.
    squares = Counter(((one.id - 1) % COLUMNS // 20, (one.id - 1) // COLUMNS // 20) for one in found)
    assert len(squares) == 50
    assert all(0.35 < count / 400 < 0.65 for count in squares.values()), squares


async def test_tile_repeats_its_features_and_keeps_them_when_zoomed_in(
    client: httpx.AsyncClient,
) -> None:
    wide, first = await asked(client, "parcels", WHOLE)
    assert (await asked(client, "parcels", WHOLE))[1].content == first.content
    kept, narrow = {one.id for one in wide}, set[int]()
    for tile in TMS.children(WHOLE):
        found, answer = await asked(client, "parcels", tile)
        shown, matched = map(int, told(answer))
        assert shown == len(found) <= matched
        narrow |= {one.id for one in found}
    assert kept <= narrow


@pytest.mark.parametrize("name", ["parcels", "projected"])
async def test_a_tile_with_room_for_all_holds_all(name: str, client: httpx.AsyncClient, served: Served) -> None:
    tile = TMS.tile(WEST + 0.1, SOUTH + 0.05, 12)
    west, south, east, north = TMS.bounds(tile)
    with psycopg.connect(served.admin_url) as connection:
        there = {fid for (fid,) in connection.execute(WITHIN, (west, south, east, north))}
    found, answer = await asked(client, name, tile)
    assert 1000 < len(there) < 10_000
    assert {one.id for one in found} >= there  # and those beside the tile that its edges are drawn with
    assert told(answer) == (str(len(found)), str(len(found)))
    one = found[0]
    assert one.properties == {"name": f"field {one.id - 1}", "number": one.id - 1, "area": (one.id - 1) / 7}


@pytest.mark.parametrize(("name", "kind"), [("parcels", mvt.POLYGON), ("paths", mvt.LINE), ("trees", mvt.POINT)])
async def test_features_smaller_than_a_pixel_are_still_seen(name: str, kind: int, client: httpx.AsyncClient) -> None:
    found, answer = await asked(client, name, TMS.tile(WEST + 0.1, SOUTH + 0.05, 2))
    assert told(answer) == ("10000", str(COUNT))
    assert {one.kind for one in found} == {kind}
    if kind == mvt.POLYGON:
        assert all(mvt.area(one.rings[0]) > 0 for one in found)


async def test_tile_outside_of_the_layer_is_empty(client: httpx.AsyncClient) -> None:
    found, answer = await asked(client, "parcels", morecantile.Tile(0, 0, 9))
    assert (found, answer.content, told(answer)) == ([], b"", ("0", "0"))


async def test_tile_of_long_texts_is_bounded_and_counts_what_it_shows(client: httpx.AsyncClient) -> None:
    """The one that is too long alone leaves room for the others."""
    found, answer = await asked(client, "wordy", WHOLE)
    assert len(answer.content) < vector_tiles.MAX_BYTES
    assert 7 not in {one.id for one in found}
    assert 200 < len(found) < 220
    assert told(answer) == (str(len(found)), "500")
    assert {one.id // 50 for one in found} >= set(range(10))  # from all over the layer


@pytest.mark.parametrize("name", [*SHAPES, "wordy"])
@pytest.mark.parametrize("bound", [30_000, 300_000])
async def test_no_tile_is_larger_than_its_bound(
    name: str, bound: int, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_tiles, "MAX_BYTES", bound)
    found, answer = await asked(client, name, WHOLE)
    assert bound / 4 < len(answer.content) < bound
    assert told(answer)[0] == str(len(found))


async def test_features_beyond_the_counting_limit_are_estimated(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_tiles, "MAX_COUNTED", 12_000)
    _, answer = await asked(client, "parcels", WHOLE)
    shown, matched = told(answer)
    assert shown == "10000"
    assert re.fullmatch(r"[0-9]+;about", matched)
    assert int(matched.removesuffix(";about")) == pytest.approx(COUNT, rel=0.05)


@pytest.mark.parametrize(("count", "last_hash", "about"), [(10_000, -1, 19_998), (10_000, 2**31 - 1, 9_999), (1, 0, 0)])
def test_number_of_features_is_estimated_from_the_density_of_hashes(count: int, last_hash: int, about: int) -> None:
    assert estimated(count, last_hash) == about


def test_count_headers_are_numbers_marked_when_estimated() -> None:
    assert Counted(1, 2).headers == {SHOWN: "1", MATCHED: "2"}
    assert Counted(1, 2, is_exact=False).headers == {SHOWN: "1", MATCHED: "2;about"}


async def test_tilejson_states_how_many_features_a_tile_shows(client: httpx.AsyncClient) -> None:
    document = (await client.get("/tiles/parcels/WebMercatorQuad/tilejson.json")).json()
    assert document["features"] == {
        "total": COUNT,
        "most_in_a_tile": 10_000,
        "most_bytes_in_a_tile": vector_tiles.MAX_BYTES,
        "told_by": ["Cairn-Features-Shown", "Cairn-Features-Matched"],
    }
    assert document["description"].startswith("20,000 features. A tile shows at most 10,000 of them")
    small = (await client.get("/tiles/wordy/WebMercatorQuad/tilejson.json")).json()
    assert (small["features"]["most_in_a_tile"], small["description"]) == (500, "500 features.")


@pytest.mark.parametrize("form", ["geojson", "json", "csv", "ndjson", "geojsonseq"])
async def test_page_of_features_counts_the_matched_ones_in_every_format(form: str, client: httpx.AsyncClient) -> None:
    address = f"/vector/collections/trees/items?f={form}"
    first = await client.get(f"{address}&limit=3")
    assert told(first) == ("3", str(COUNT))
    assert first.links["next"]["url"] == f"http://serving{address}&limit=3&offset=3"
    last = await client.get(f"{address}&limit=3&offset={COUNT - 2}")
    assert told(last) == ("2", str(COUNT))
    assert "next" not in last.links
