"""Streams of marks: they tell that a page is old, to whoever may see the page, and to nobody else."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from tests.support.acts import call, decide, dispatched
from tests.support.console import Assembly
from tests.support.signing_in import at_the_console, form_token

PATIENCE_SECONDS = 10.0


async def marks(answer: httpx.Response) -> AsyncIterator[str]:
    """What a stream tells: marks, and in the end that the session is gone."""
    kind = "mark"
    async for line in answer.aiter_lines():
        if line.startswith("event: "):
            kind = line.removeprefix("event: ")
        elif line.startswith("data:"):
            yield line.removeprefix("data: ") if kind == "mark" else kind


async def following(told: AsyncIterator[str]) -> str:
    return await asyncio.wait_for(anext(told), PATIENCE_SECONDS)


async def mark(http: httpx.AsyncClient, about: str) -> str:
    """What a page about this would be told first."""
    async with http.stream("GET", f"/console/live/{about}") as answer:
        return await following(marks(answer))


async def test_each_change_of_a_version_changes_its_mark(assembly: Assembly) -> None:
    asset_id = await assembly.submit("marks", "up/marks.tif", dataset_id="marks")
    async with at_the_console(assembly, "reviewer") as http:
        page = (await http.get(f"/console/versions/{asset_id}/0")).text
        async with http.stream("GET", f"/console/live/version/{asset_id}/0") as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            told = marks(answer)
            seen = [await following(told)]
            assert f'data-mark="{seen[0]}"' in page  # the page knows that it is up to date
            flow, _ = await assembly.started()
            seen.append(await following(told))
            for fraction in (0.25, 0.5):
                await flow.beat({"node_id": "validate", "state": "running", "fraction": fraction})
                seen.append(await following(told))
            await flow.commit()
            seen.append(await following(told))
    assert len(set(seen)) == len(seen) == 5


async def test_approval_that_expires_changes_the_mark_of_its_version(assembly: Assembly) -> None:
    assembly.require(2)
    asset_id = await assembly.waiting("ends")
    soon = (datetime.now(UTC) + timedelta(seconds=3)).isoformat()
    given = await decide(assembly.domain, asset_id, 0, "approve", expires_at=soon)
    assert given.json()["approvals"] == 1, given.text
    page = f"/console/versions/{asset_id}/0"
    async with at_the_console(assembly, "reviewer") as http:
        assert "1 of 2 approvals" in (await http.get(page)).text
        before = await mark(http, "queue")
        async with http.stream("GET", f"/console/live/version/{asset_id}/0") as answer:
            told = marks(answer)
            assert await following(told) != await following(told)
        assert await mark(http, "queue") != before
        assert "0 of 2 approvals" in (await http.get(page)).text
        assert "0 of 2 approvals" in (await http.get("/console/?q=ends")).text
    assembly.require(1)


async def test_change_of_another_asset_leaves_the_mark_of_a_version(assembly: Assembly) -> None:
    asset_id = await assembly.submit("quiet", "up/quiet.tif", dataset_id="quiet")
    await assembly.started()
    about = f"version/{asset_id}/0"
    async with at_the_console(assembly, "reviewer") as http:
        before = await mark(http, about)
        await assembly.submit("loud", "up/loud.tif", dataset_id="loud")
        await assembly.started()
        assert await mark(http, about) == before


async def test_a_stream_ends_with_its_session(assembly: Assembly) -> None:
    async with at_the_console(assembly, "operator") as http:
        token = await form_token(http)
        async with http.stream("GET", "/console/live/queue") as answer:
            told = marks(answer)
            await following(told)
            copy = httpx.AsyncClient(base_url=assembly.url, headers=dict(http.headers), cookies=dict(http.cookies))
            async with copy:
                await copy.post("/console/sign-out", data={"form_token": token})
            heard = await following(told)
            while heard != "gone":
                heard = await following(told)


async def test_stream_without_a_session_or_about_an_unknown_page_is_refused(assembly: Assembly) -> None:
    async with at_the_console(assembly, None) as http:
        assert (await http.get("/console/live/queue")).status_code == 401
    async with at_the_console(assembly, "reviewer") as http:
        for about in ("secrets", "version/0/x", "version/0/99999999999", "queue/0/-1"):
            assert (await http.get(f"/console/live/{about}")).status_code == 404


WEBHOOK = """
    with told as (
        insert into app.callback_endpoints (client_id, url) values ('ddh-dev', 'https://told.test/')
        returning endpoint_id
    ), made as (
        insert into app.callbacks (callback_id, request_id, endpoint_id, status, state)
        select gen_random_uuid(), request_id, endpoint_id, 'completed', 'sending' from app.requests, told
        where asset_id = %s returning callback_id
    )
    select callback_id from made
"""
TRY = "insert into app.callback_deliveries (callback_id, status_code, duration_ms) values (%s, 500, 1) returning 1"


@pytest.mark.parametrize("change", ["clearance", "exposure"])
async def test_change_of_clearance_or_exposure_changes_the_mark_of_the_queue(assembly: Assembly, change: str) -> None:
    wanted = {"clearance": {"clearance_level": "ouo", "reason": "agreed"}, "exposure": {"exposure": "all_versions"}}
    asset_id = await assembly.waiting(f"listed-{change}")
    async with at_the_console(assembly, "reviewer") as http:
        before = await mark(http, "queue")
        assert await mark(http, "queue") == before
        headers = {"If-Match": (await call(assembly.domain, "reviewer", "GET", f"/assets/{asset_id}")).headers["etag"]}
        path = f"/assets/{asset_id}/{change}"
        answer = await call(assembly.domain, "reviewer", "POST", path, wanted[change], headers=headers)
        assert answer.status_code == 200, answer.text
        assert await mark(http, "queue") != before


async def test_each_try_of_a_callback_changes_the_mark_of_its_version(assembly: Assembly) -> None:
    asset_id = await assembly.waiting("told")
    [(callback_id,)] = assembly.domain.rows(WEBHOOK, asset_id)
    async with at_the_console(assembly, "reviewer") as http:
        seen = [await mark(http, f"version/{asset_id}/0")]
        for _ in range(2):
            assert assembly.domain.rows(TRY, callback_id)
            seen.append(await mark(http, f"version/{asset_id}/0"))
        assert len(set(seen)) == 3
        assert "callback failed" in (await http.get(f"/console/versions/{asset_id}/0")).text


async def test_changed_approval_rules_of_a_platform_change_the_mark_of_a_version(assembly: Assembly) -> None:
    asset_id = await assembly.waiting("asked")
    async with at_the_console(assembly, "reviewer") as http:
        before = await mark(http, f"version/{asset_id}/0")
        assembly.require(2)
        asked = await mark(http, f"version/{asset_id}/0")
        assert "0 of 2 approvals" in (await http.get(f"/console/versions/{asset_id}/0")).text
        assembly.require(1, days=9)
        assert len({before, asked, await mark(http, f"version/{asset_id}/0")}) == 3
        assembly.require(1)


async def test_start_and_end_of_an_export_change_the_mark_of_its_version(assembly: Assembly) -> None:
    asset_id = await assembly.processed("out", "up/out.tif", 41, dataset_id="out")
    domain, page = assembly.domain, f"/console/versions/{asset_id}/0"
    async with at_the_console(assembly, "reviewer") as http:
        approved = await decide(domain, asset_id, 0, "approve", clearance_level="public")
        assert approved.status_code == 200, approved.text
        [(destination,)] = domain.rows("select destination from app.exports where asset_id = %s", asset_id)
        [flow] = await dispatched(domain)
        assert (await flow.start()).status_code == 200
        before = await mark(http, f"version/{asset_id}/0")
        [(sha256,)] = domain.rows("select sha256 from app.artifacts where asset_id = %s and role = 'cog'", asset_id)
        copy = {"role": "cog", "zone": "external", "name": f"{destination}/data.tif", "media_type": "image/tiff"}
        committed = await flow.commit({}, artifacts=[copy | {"sha256": sha256, "size_bytes": 1}])
        assert committed.status_code == 200, committed.text
        assert f"{destination}/data.tif" in (await http.get(page)).text
        out = await mark(http, f"version/{asset_id}/0")
        taken = "update app.exports set withdrawn_at = now() where asset_id = %s returning 1"
        assert domain.rows(taken, asset_id)
        assert len({before, out, await mark(http, f"version/{asset_id}/0")}) == 3
