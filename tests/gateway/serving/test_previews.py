"""What waits for its review: staff see its item, files and pixels as they would be published, nobody else anything."""

import asyncio
from pathlib import Path

import pytest

from tests.support.acts import call, decide
from tests.support.clock import eventually
from tests.support.cluster import TestDatabase
from tests.support.library import Library, library
from tests.support.stac import judge_item


async def answers(made: Library, client_id: str | None, *paths: str) -> list[int]:
    async with made.reader(client_id) as reader:
        return [(await reader.get(path)).status_code for path in paths]


@pytest.mark.parametrize("is_first", [True, False])
async def test_staff_see_a_staged_item_as_it_would_be_published(
    is_first: bool, shared_database: TestDatabase, tmp_path: Path
) -> None:
    async with library(shared_database, tmp_path) as made:
        asset_id, revision = await made.raster("staged"), 1
        if not is_first:
            assert (await decide(made.domain, asset_id, 0, "approve", clearance_level="public")).status_code == 200
            await made.raster("staged", source="up/better.tif")
            revision = 2
        path = f"/stac/collections/{asset_id}/items/{asset_id}-0-r{revision}"
        async with made.reader("reviewer") as reviewer:
            answer = await reviewer.get(path)
            assert answer.status_code == 200, answer.text
            staged = answer.json()
            judge_item(staged)
            assert "cairn://" not in answer.text
            files = [asset["href"] for asset in staged["assets"].values()]
            assert all(href.startswith(f"http://serving/tiles/{asset_id}/") for href in files)
            for href in files:
                assert (await reviewer.get(href)).status_code == 200, href
        for hidden_from in (None, "ddh-dev", "arcgis-dev", "worker"):
            assert await answers(made, hidden_from, path, f"{path}-0") == [404, 404]
        assert (await decide(made.domain, asset_id, 0, "approve", revision=revision)).status_code == 200
        async with made.reader("reviewer") as reviewer:
            published = (await reviewer.get(path)).json()
        assert published["properties"] == staged["properties"]
        assert set(published["assets"]) == set(staged["assets"])


async def test_rejected_revision_is_answered_404_to_everybody(shared_database: TestDatabase, tmp_path: Path) -> None:
    async with library(shared_database, tmp_path) as made:
        asset_id = await made.raster("rejected")
        paths = (f"/stac/collections/{asset_id}/items/{asset_id}-0-r1", f"/tiles/{asset_id}/info?version=0")
        assert await answers(made, "reviewer", *paths) == [200, 200]
        await decide(made.domain, asset_id, 0, "reject")
        assert await answers(made, "reviewer", *paths) == [404, 404]


async def test_decision_ends_every_remembered_answer(shared_database: TestDatabase, tmp_path: Path) -> None:
    """With the memory on: each answer is asked for before the decision, so that it would be remembered."""
    async with library(shared_database, tmp_path) as made:
        asset_id = await made.raster("seen")
        paths = (f"/tiles/{asset_id}/info", f"/stac/collections/{asset_id}")
        for verb, status in (("approve", 200), ("unpublish", 404), ("approve", 200)):
            body = {"clearance_level": "public"} if verb == "approve" else {}
            await answers(made, None, *paths)
            assert (await decide(made.domain, asset_id, 0, verb, **body)).status_code == 200
            await made.heard()
            assert await answers(made, None, *paths) == [status, status]


async def test_ended_approval_serves_nothing_even_before_the_sweep(
    shared_database: TestDatabase, tmp_path: Path
) -> None:
    async with library(shared_database, tmp_path) as made:
        asset_id = await made.raster("ended")
        await decide(made.domain, asset_id, 0, "approve", clearance_level="public")
        assert await answers(made, None, f"/tiles/{asset_id}/info") == [200]
        made.domain.rows("update app.revisions set approved_until = now() - interval '1 s' returning 1")
        made.memory.forget()
        assert await answers(made, None, f"/tiles/{asset_id}/info", f"/stac/collections/{asset_id}") == [404, 404]


LISTENERS = """
select pid from pg_stat_activity where application_name = 'cairn-serving-news' and datname = current_database()
    and state = 'idle' and starts_with(query, 'listen')
"""


async def test_serving_forgets_its_answers_after_its_listening_connection_was_cut(
    shared_database: TestDatabase, tmp_path: Path
) -> None:
    async with library(shared_database, tmp_path) as made:
        await _until_somebody_listens(made, other_than=0)  # who begins to listen forgets what was before
        await answers(made, None, "/stac/collections")
        assert made.memory._kept
        [(listener,)] = made.domain.rows(LISTENERS)
        made.domain.rows("select pg_terminate_backend(%s)", listener)
        await made.heard()  # what was told meanwhile is not known, so nothing is
        await _until_somebody_listens(made, other_than=listener)
        await answers(made, None, "/stac/collections")
        assert made.memory._kept
        assert (await call(made.domain, "operator", "POST", "/commands/cache.invalidate", {})).status_code == 200
        await made.heard()


async def _until_somebody_listens(made: Library, other_than: int) -> None:
    def listens() -> bool:
        return any(pid != other_than for (pid,) in made.domain.rows(LISTENERS)) and not made.memory._kept

    await eventually(listens)
    await asyncio.sleep(0.1)  # for serving to read that it is heard
