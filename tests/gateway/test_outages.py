"""A part that is away: writes say when to come again, reads go on, nothing answers with a fault of ours."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import httpx
import pytest

from gateway.domain_client.client import DomainClient
from tests.gateway.world import BODY, Known, call, processed
from tests.support.platform import Platform

REASON = {"reason": "not this one"}


@pytest.fixture
async def orphaned(platform: Platform) -> AsyncIterator[tuple[Platform, Known]]:
    """A gateway whose domain has gone away, after it had taken something in."""
    known = await processed(platform)
    app = platform.gateway.app  # type: ignore[attr-defined]
    async with httpx.AsyncClient(base_url="http://127.0.0.1:9") as nobody:
        app.state.gateway = replace(app.state.gateway, domain=DomainClient(nobody, "secret-gateway"))
        yield platform, known


async def test_reads_go_on_and_writes_are_answered_503_while_the_domain_is_away(
    orphaned: tuple[Platform, Known],
) -> None:
    platform, known = orphaned
    asset = f"/api/assets/{known.asset_id}"
    reads = [
        f"/api/platform/status/{known.request_id}",
        "/api/assets",
        asset,
        f"{asset}/versions",
        f"{asset}/versions/0",
    ]
    for path in reads:
        assert (await call(platform, "ddh-dev", "GET", path)).status_code == 200, path
    for path in ("/jobs", f"/job/{known.run_id}", "/stats"):
        assert (await call(platform, "operator", "GET", f"/api/status{path}")).status_code == 200, path
    about = {"request_id": known.request_id}
    writes: list[tuple[str, str, dict[str, Any]]] = [
        ("POST", "/api/platform/submit", {"json": BODY}),
        ("POST", "/api/gateway/submit/batch", {"json": {"submissions": [{"submission": BODY}] * 3}}),
        ("POST", "/api/platform/approve", {"json": about | {"clearance_level": "ouo"}}),
        ("POST", "/api/platform/reject", {"json": about | REASON}),
        ("POST", "/api/platform/unpublish", {"json": about | REASON}),
        ("POST", "/api/platform/cancel", {"json": about}),
        ("POST", f"{asset}/clearance", {"json": {"clearance_level": "ouo", **REASON}}),
        ("DELETE", asset, {"params": REASON}),
        ("DELETE", f"{asset}/versions/0", {"params": REASON}),
    ]
    for method, path, more in writes:
        answer = await call(platform, "ddh-reviewer", method, path, **more)
        assert (answer.status_code, answer.json()["code"]) == (503, "temporarily-unavailable"), path
        assert int(answer.headers["retry-after"]) > 0
    health = await call(platform, None, "GET", "/api/gateway/health")
    assert (health.status_code, health.json()["domain"]) == (503, "unavailable")


async def test_gateway_without_its_database_answers_503_with_retry_after(platform: Platform) -> None:
    known = await processed(platform)
    app = platform.gateway.app  # type: ignore[attr-defined]
    await app.state.gateway.queries.pool.close()
    for path in (f"/api/platform/status/{known.request_id}", "/api/readyz"):
        answer = await call(platform, "ddh-dev", "GET", path)
        assert (answer.status_code, answer.json()["code"]) == (503, "temporarily-unavailable")
        assert answer.headers["retry-after"] == "2"


async def test_a_reading_that_takes_too_long_is_ended(platform: Platform) -> None:
    """The role's own limit: two seconds for a statement."""
    app = platform.gateway.app  # type: ignore[attr-defined]
    with pytest.raises(Exception, match="cannot be read right now"):
        await app.state.gateway.queries.rows("*", dict, "select pg_sleep(5) as slept", {})


async def test_unstorable_text_is_answered_422(platform: Platform) -> None:
    known = await processed(platform)
    body = {"request_id": known.request_id, "clearance_level": "ouo", "comment": "a\0b"}
    answer = await call(platform, "reviewer", "POST", "/api/platform/approve", json=body)
    assert (answer.status_code, answer.json()["code"]) == (422, "malformed-request")
    nul = await call(platform, "ddh-dev", "GET", "/api/assets", params={"ref": "a\0=b"})
    assert (nul.status_code, nul.json()["code"]) == (422, "malformed-request")
    for content in (b'{"dataset_id": "\\ud800"}', b'{"source": 1e999}', b"\xff", b'{"a": ' + b"9" * 5000 + b"}"):
        bad = await call(platform, "ddh-dev", "POST", "/api/platform/submit", content=content)
        assert 400 <= bad.status_code < 500, content[:30]
