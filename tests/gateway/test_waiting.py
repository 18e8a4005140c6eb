"""Status that is waited for: the answer comes with the change, nothing is sent twice, nobody asks in circles."""

import asyncio
import time

import pytest

from gateway.queries import Queries
from tests.gateway.world import call, failed, finish, processed, start, submitted
from tests.support.platform import Platform


async def test_the_answer_comes_when_the_status_changes(platform: Platform) -> None:
    known = await submitted(platform)
    path = f"/api/platform/status/{known.request_id}?wait=20"
    for act, becomes in ((start, "processing"), (finish, "completed")):
        waiting = asyncio.create_task(call(platform, "ddh-dev", "GET", path))
        await asyncio.sleep(0.3)
        assert not waiting.done()
        began = time.monotonic()
        await act(platform, known)
        answer = await waiting
        assert answer.json()["status"] == becomes
        assert time.monotonic() - began < 5


async def test_a_wait_without_news_ends_and_asks_the_database_twice(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = await submitted(platform)
    asked = 0
    request = Queries.request

    async def counted(self: Queries, *arguments: object) -> object:
        nonlocal asked
        asked += 1
        return await request(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Queries, "request", counted)
    began = time.monotonic()
    answer = await call(platform, "ddh-dev", "GET", f"/api/platform/status/{known.request_id}?wait=2")
    assert 1.9 < time.monotonic() - began < 6
    assert (answer.json()["status"], answer.headers["retry-after"], asked) == ("pending", "2", 2)


async def test_what_has_ended_is_not_waited_for(platform: Platform) -> None:
    began = time.monotonic()
    for known in (await processed(platform), await failed(platform, dataset_id="another")):
        answer = await call(platform, "ddh-dev", "GET", f"/api/platform/status/{known.request_id}?wait=30")
        assert answer.json()["status"] in {"completed", "failed"}
        assert "retry-after" not in answer.headers
    assert time.monotonic() - began < 20


async def test_what_is_known_is_not_sent_again(platform: Platform) -> None:
    known = await submitted(platform)
    path = f"/api/platform/status/{known.request_id}"
    first = await call(platform, "ddh-dev", "GET", path)
    tag = {"If-None-Match": first.headers["etag"]}
    again = await call(platform, "ddh-dev", "GET", path, headers=tag)
    assert (again.status_code, again.content) == (304, b"")
    assert first.headers["cache-control"] == "private, no-cache"
    await start(platform, known)
    changed = await call(platform, "ddh-dev", "GET", f"{path}?wait=30", headers=tag)  # news already: no wait
    assert (changed.status_code, changed.json()["status"]) == (200, "processing")


@pytest.mark.parametrize("wait", ["31", "-1", "soon"])
async def test_a_wait_that_cannot_be_is_refused(platform: Platform, wait: str) -> None:
    known = await submitted(platform)
    answer = await call(platform, "ddh-dev", "GET", f"/api/platform/status/{known.request_id}?wait={wait}")
    assert (answer.status_code, answer.json()["code"]) == (422, "malformed-request")


async def test_a_notice_that_is_none_wakes_nobody_and_harms_nobody(platform: Platform) -> None:
    """The gateway's role may notify: whoever had it could send anything on any channel."""
    known = await submitted(platform)
    path = f"/api/platform/status/{known.request_id}?wait=20"
    waiting = asyncio.create_task(call(platform, "ddh-dev", "GET", path))
    for channel in ("cairn_requests", "cairn_fenced"):
        platform.domain.rows("select pg_notify(%s, 'no id at all, 17')", channel)
    await asyncio.sleep(0.5)
    await start(platform, known)
    assert (await waiting).json()["status"] == "processing"


async def test_a_gateway_that_stops_lets_those_who_wait_go(platform: Platform) -> None:
    known = await submitted(platform)
    path = f"/api/platform/status/{known.request_id}?wait=30"
    waiting = asyncio.create_task(call(platform, "ddh-dev", "GET", path))
    await asyncio.sleep(0.5)
    began = time.monotonic()
    platform.gateway.app.state.gateway.notices.close()  # type: ignore[attr-defined]
    assert (await waiting).json()["status"] == "pending"
    late = await call(platform, "ddh-dev", "GET", path)
    assert (late.status_code, late.json()["status"]) == (200, "pending")
    assert time.monotonic() - began < 5
