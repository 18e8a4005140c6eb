"""Status that is waited for: the answer comes with the change, nothing is sent twice, nobody asks in circles."""

import asyncio
import time

import httpx
import pytest

from domain.shared.notices import REQUEST_CHANNEL
from gateway.reads.queries import Queries
from tests.gateway.world import Known, call, failed, finish, processed, start, submitted
from tests.support.clock import eventually
from tests.support.platform import Platform

LONGEST = 30  # seconds that anybody may wait: an answer within them was not waited out


async def waiting_for(platform: Platform, known: Known) -> "asyncio.Task[httpx.Response]":
    """Somebody who waits for news of the request, as long as one may."""
    await platform.domain.until_listened(REQUEST_CHANNEL)
    path = f"/api/platform/status/{known.request_id}?wait={LONGEST}"
    waiting = asyncio.create_task(call(platform, "ddh-dev", "GET", path))
    await eventually(lambda: platform.gateway.app.state.gateway.notices._waiting)  # type: ignore[attr-defined]
    return waiting


async def test_held_status_call_is_answered_when_the_status_changes(platform: Platform) -> None:
    known = await submitted(platform)
    for act, becomes in ((start, "processing"), (finish, "completed")):
        began = time.monotonic()
        waiting = await waiting_for(platform, known)
        assert not waiting.done()
        await act(platform, known)
        answer = await waiting
        assert answer.json()["status"] == becomes
        assert time.monotonic() - began < LONGEST


async def test_held_status_call_without_news_ends_after_two_queries(
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
    answer = await call(platform, "ddh-dev", "GET", f"/api/platform/status/{known.request_id}?wait=1")
    assert 0.9 < time.monotonic() - began < LONGEST
    assert (answer.json()["status"], answer.headers["retry-after"], asked) == ("pending", "2", 2)


async def test_status_of_an_ended_request_is_answered_at_once(platform: Platform) -> None:
    for known in (await processed(platform), await failed(platform, dataset_id="another")):
        began = time.monotonic()
        answer = await call(platform, "ddh-dev", "GET", f"/api/platform/status/{known.request_id}?wait=30")
        assert answer.json()["status"] in {"completed", "failed"}
        assert "retry-after" not in answer.headers
        assert time.monotonic() - began < LONGEST


async def test_known_status_is_answered_304(platform: Platform) -> None:
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
async def test_senseless_wait_parameter_is_refused(platform: Platform, wait: str) -> None:
    known = await submitted(platform)
    answer = await call(platform, "ddh-dev", "GET", f"/api/platform/status/{known.request_id}?wait={wait}")
    assert (answer.status_code, answer.json()["code"]) == (422, "malformed-request")


async def test_malformed_notice_wakes_nobody(platform: Platform) -> None:
    """The gateway's role may notify: whoever had it could send anything on any channel."""
    known = await submitted(platform)
    waiting = await waiting_for(platform, known)
    for channel in ("cairn_requests", "cairn_fenced"):
        platform.domain.rows("select pg_notify(%s, 'no id at all, 17')", channel)
    await start(platform, known)
    assert (await waiting).json()["status"] == "processing"


async def test_stopping_gateway_answers_held_status_calls(platform: Platform) -> None:
    known = await submitted(platform)
    path = f"/api/platform/status/{known.request_id}?wait={LONGEST}"
    began = time.monotonic()
    waiting = await waiting_for(platform, known)
    platform.gateway.app.state.gateway.notices.close()  # type: ignore[attr-defined]
    assert (await waiting).json()["status"] == "pending"
    assert time.monotonic() - began < LONGEST
    began = time.monotonic()
    late = await call(platform, "ddh-dev", "GET", path)
    assert (late.status_code, late.json()["status"]) == (200, "pending")
    assert time.monotonic() - began < LONGEST
