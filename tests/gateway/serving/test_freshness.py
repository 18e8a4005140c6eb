"""What caches may keep: public answers by all, others by their reader, neither for longer than a downgrade may take."""

import httpx
import psycopg
import pytest
from psycopg import sql

from gateway.serving.freshness import SHARED_SECONDS, is_known
from gateway.serving.settings import ServingSettings
from tests.gateway.serving.conftest import Served
from tests.gateway.serving.test_tiles import OWNER, REVIEWER, STRANGER, TILE_PATH

DOORS = [TILE_PATH, "info", "WebMercatorQuad/tilejson.json", "data.tif"]


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    ("asset", "headers", "kept_by"),
    [("open", {}, "public"), ("open", OWNER, "public"), ("inner", OWNER, "private"), ("draft", REVIEWER, "private")],
)
async def test_answer_may_be_cached_by_all_or_by_its_reader_by_clearance(
    door: str, asset: str, headers: dict[str, str], kept_by: str, client: httpx.AsyncClient
) -> None:
    answer = await client.get(f"/tiles/{asset}/{door}", headers=headers)
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == f"{kept_by}, max-age={SHARED_SECONDS}"
    assert {"Accept", "Authorization", "Cookie", "X-API-Key"} <= set(answer.headers["vary"].split(", "))


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        (f"/tiles/draft/{TILE_PATH}", {}, 404),
        ("/tiles/open/info?version=9", {}, 404),
        ("/stac/collections/draft", {}, 404),
        ("/tiles/open/info", {"X-API-Key": "of-nobody"}, 401),
        ("/tiles/open/preview?max_size=1000000", {}, 422),
    ],
)
async def test_refusal_may_not_be_cached(
    path: str, headers: dict[str, str], status: int, client: httpx.AsyncClient
) -> None:
    """What is approved a moment later would go on being refused."""
    answer = await client.get(path, headers=headers)
    assert (answer.status_code, answer.headers["cache-control"]) == (status, "no-store")


def test_remembered_and_cached_answers_end_within_five_seconds() -> None:
    longest = max(
        bound.le for bound in ServingSettings.model_fields["serving_memory_seconds"].metadata if hasattr(bound, "le")
    )
    assert longest + SHARED_SECONDS < 5


@pytest.mark.parametrize("door", DOORS)
async def test_answer_that_the_reader_has_is_not_made_again(door: str, client: httpx.AsyncClient) -> None:
    first = await client.get(f"/tiles/open/{door}")
    tag = first.headers["etag"]
    again = await client.get(f"/tiles/open/{door}", headers={"If-None-Match": f'"other", W/{tag}'})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    assert again.headers["cache-control"] == first.headers["cache-control"]
    other = await client.get(f"/tiles/open/{door}", headers={"If-None-Match": '"other"'})
    assert (other.status_code, other.content) == (200, first.content)


async def test_etag_of_a_hidden_answer_reveals_nothing_to_others(client: httpx.AsyncClient) -> None:
    tag = (await client.get(f"/tiles/inner/{TILE_PATH}", headers=OWNER)).headers["etag"]
    for headers in ({}, STRANGER):
        answer = await client.get(f"/tiles/inner/{TILE_PATH}", headers={**headers, "If-None-Match": tag})
        assert (answer.status_code, "etag" in answer.headers) == (404, False)


async def test_tags_tell_versions_and_questions_apart(client: httpx.AsyncClient) -> None:
    paths = [f"/tiles/archive/{door}?version={number}" for door in DOORS for number in (1, 2)]
    paths += [f"/tiles/open/{TILE_PATH}.png", f"/tiles/open/{TILE_PATH}.png?rescale=0,100"]
    tags = [(await client.get(path)).headers["etag"] for path in paths]
    assert len(set(tags)) == len(tags)


@pytest.mark.parametrize("column", ["cog_name", "parquet_name", "table_name"])
async def test_a_revision_that_is_made_again_has_other_tags(
    column: str, client: httpx.AsyncClient, served: Served
) -> None:
    """It keeps its number until it is approved; what it is read from is another file, or another table."""
    before = (await client.get("/tiles/draft/data.tif", headers=REVIEWER)).headers["etag"]
    with psycopg.connect(served.admin_url, autocommit=True) as connection:
        change = sql.SQL("update api.products set {0} = %s where asset_id = 'draft'").format(sql.Identifier(column))
        ((was, other),) = connection.execute(
            sql.SQL(
                "select {0}, (select cog_name from api.products where asset_id = 'inner') "
                "from api.products where asset_id = 'draft'"
            ).format(sql.Identifier(column))
        ).fetchall()
        connection.execute(change, [other])
        try:
            again = await client.get("/tiles/draft/data.tif", headers=REVIEWER | {"If-None-Match": before})
        finally:
            connection.execute(change, [was])
    assert (again.status_code, again.headers["etag"] == before) == (200, False)


async def test_range_with_the_tag_of_another_file_is_answered_whole(client: httpx.AsyncClient) -> None:
    """Whoever goes on with a download names the file it began with."""
    whole = await client.get("/tiles/open/data.tif")
    for tag, status in ((whole.headers["etag"], 206), ('"of another"', 200)):
        part = {"Range": "bytes=0-9", "If-Range": tag}
        answer = await client.get("/tiles/open/data.tif", headers=part)
        assert (answer.status_code, len(answer.content)) == (status, 10 if status == 206 else len(whole.content))


@pytest.mark.parametrize(
    ("given", "known"),
    [(None, False), ("", False), ('"a"', True), ('W/"a"', True), ('"b", "a"', True), ('"ab"', False), ("a", False)],
)
def test_if_none_match_header_of_every_form_is_judged(given: str | None, known: bool) -> None:
    assert is_known(given, '"a"') is known
