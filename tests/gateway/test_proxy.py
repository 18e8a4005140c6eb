"""Operators reach what is listed, and the listed service learns nothing of ours."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from gateway.forwarding.proxy_rules import ProxyTarget
from tests.support.cluster import TestDatabase
from tests.support.platform import Platform, running_platform
from tests.support.receiver import Receiver, Reply, running_receiver


@pytest.fixture
async def inside() -> AsyncIterator[Receiver]:
    """An internal service."""
    async with running_receiver() as running:
        running.reply = lambda _request: Reply(200, {"content-type": "text/plain", "x-pages": "3"}, b"from inside")
        yield running


@pytest.fixture
async def platform(database: TestDatabase, tmp_path: Path, inside: Receiver) -> AsyncIterator[Platform]:
    url = inside.url.removesuffix("/hook")
    paths: dict[str, Any] = {"paths": ["runs/*", "logs/**"], "timeout_seconds": 0.5}
    targets: dict[str, dict[str, Any]] = {
        "engine": {"url": f"{url}/api", "authorization": "Basic abc", "health": "well", "methods": ["GET", "POST"]},
        "silent": {"url": "http://127.0.0.1:9"},
        "deaf": {"url": "http://127.0.0.1:9", "health": "well"},
    }
    settings = {name: ProxyTarget.model_validate(paths | target) for name, target in targets.items()}
    async with running_platform(database, tmp_path) as running:
        state = running.gateway.app.state  # type: ignore[attr-defined]
        state.gateway.settings.proxy_targets.update(settings)
        yield running


async def call(
    platform: Platform, path: str, by: str | None = "operator", method: str = "GET", **more: Any
) -> httpx.Response:
    async with platform.as_(by) as caller:
        return await caller.request(method, f"/api/proxy/{path}", **more)


async def test_call_is_forwarded_and_its_answer_returned(platform: Platform, inside: Receiver) -> None:
    answer = await call(platform, "engine/runs/42?limit=2&limit=3", headers={"X-Trace": "t"})
    assert (answer.status_code, answer.text, answer.headers["x-pages"]) == (200, "from inside", "3")
    [seen] = inside.received
    assert (seen.path, seen.headers["x-trace"]) == ("/api/runs/42?limit=2&limit=3", "t")
    await call(platform, "engine/logs/a/b", method="POST", content=b"text", headers={"content-type": "text/plain"})
    assert (inside.received[1].path, inside.received[1].body) == ("/api/logs/a/b", b"text")


async def test_forwarded_call_carries_no_credential_or_internal_header(platform: Platform, inside: Receiver) -> None:
    claims = {
        "Authorization": "Bearer secret-operator",
        "Cookie": "session=1",
        "Forwarded": "for=1.2.3.4",
        "X-Forwarded-For": "1.2.3.4",
        "X-Internal-Role": "admin",
        "X-Platform-Id": "ddh",
        "X-Listed": "1",
        "Connection": "close, X-Listed",
        "Proxy-Authorization": "Basic abc",
        "TE": "trailers",
    }
    await call(platform, "engine/runs/42", headers=claims)
    [seen] = inside.received
    assert seen.headers["authorization"] == "Basic abc"
    assert seen.headers.keys() <= {"host", "accept", "accept-encoding", "user-agent", "authorization", "connection"}
    assert "secret-operator" not in str(seen)


async def test_answer_is_returned_without_internal_headers(platform: Platform, inside: Receiver) -> None:
    """A redirect is told and not followed, and not where to."""
    leaks = {"location": "http://10.0.0.1/admin", "set-cookie": "a=b", "server": "inner", "x-internal-node": "7"}
    inside.reply = lambda _request: Reply(302, leaks)
    answer = await call(platform, "engine/runs/42")
    assert answer.status_code == 302
    assert not answer.headers.keys() & leaks.keys()
    assert len(inside.received) == 1


async def test_a_cookie_of_one_operators_call_is_not_shown_with_the_next(platform: Platform, inside: Receiver) -> None:
    inside.reply = lambda _request: Reply(200, {"set-cookie": "session=of-the-first; Path=/"})
    for by in ("operator", "admin"):
        assert (await call(platform, "engine/runs/42", by)).status_code == 200
    assert len(inside.received) == 2
    assert all("cookie" not in seen.headers for seen in inside.received)


STRANGE = (
    "engine/admin", "engine/runs", "engine/runs/1/2", "engine/runs/%2e%2e", "engine/logs/a/%2e%2e/%2e%2e/admin",
    "engine/logs/..%2f..%2fadmin", "engine//runs/1", "other/runs/1", "engine/logs/a%5cb", "engine/logs/a%00b",
)  # fmt: skip


async def test_path_that_is_not_listed_is_answered_404(platform: Platform, inside: Receiver) -> None:
    for path in STRANGE:
        answer = await call(platform, path)
        assert (answer.status_code, answer.json()["code"]) == (404, "not-found"), path
    assert inside.received == []


async def test_method_that_is_not_listed_is_answered_405(platform: Platform, inside: Receiver) -> None:
    answer = await call(platform, "engine/runs/1", method="DELETE")
    assert (answer.status_code, answer.json()["detail"]) == (405, "engine may be asked with GET, POST only.")
    assert answer.headers["allow"] == "GET, POST"
    assert inside.received == []


async def test_proxy_call_by_a_client_that_is_no_operator_is_refused(platform: Platform, inside: Receiver) -> None:
    for by, status in {None: 401, "ddh-dev": 403, "reviewer": 403, "worker": 403}.items():
        assert (await call(platform, "engine/runs/1", by)).status_code == status
        assert (await call(platform, "health", by)).status_code == status
    assert inside.received == []
    assert (await call(platform, "engine/runs/1", "admin")).status_code == 200


async def test_service_that_is_away_or_slow_is_answered_503(platform: Platform, inside: Receiver) -> None:
    away = await call(platform, "silent/runs/1")
    inside.reply = lambda _request: Reply(200, delay_seconds=5)
    slow = await call(platform, "engine/runs/1")
    for answer in (away, slow):
        assert (answer.status_code, answer.json()["code"]) == (503, "temporarily-unavailable")
        assert int(answer.headers["retry-after"]) > 0
        assert "127.0.0.1" not in answer.text


async def test_health_asks_every_service(platform: Platform, inside: Receiver) -> None:
    told = (await call(platform, "health")).json()["targets"]
    assert told == {
        "engine": {"status": "ok", "answered": 200},
        "silent": {"status": "unknown", "answered": None},
        "deaf": {"status": "unavailable", "answered": None},
    }
    assert [(seen.path, seen.headers["authorization"]) for seen in inside.received] == [("/api/well", "Basic abc")]
    inside.reply = lambda _request: Reply(500)
    assert (await call(platform, "health")).json()["targets"]["engine"] == {"status": "unwell", "answered": 500}


async def test_a_large_answer_passes_whole(platform: Platform, inside: Receiver) -> None:
    """That it passes while it is made is seen over a socket, in `test_streams`."""
    inside.reply = lambda _request: Reply(200, {"content-type": "application/octet-stream"}, b"x" * 32_000_000)
    state = platform.gateway.app.state  # type: ignore[attr-defined]
    state.gateway.settings.proxy_targets["engine"].authorization = SecretStr("Basic other")
    answer = await call(platform, "engine/logs/all")
    assert len(answer.content) == 32_000_000
    assert inside.received[0].headers["authorization"] == "Basic other"
