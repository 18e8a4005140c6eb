"""Who calls too often waits, and nobody else does."""

from dataclasses import replace

import pytest

from domain.rules.rates import Buckets
from gateway.rates import Rates
from tests.gateway.world import call
from tests.support.platform import Platform

STATUS = "/api/platform/status/00000000-0000-4000-8000-000000000000"


@pytest.fixture
async def strict(platform: Platform) -> Platform:
    """A client may call ten times at once, its platform fifteen times, and both once a minute after that."""
    app = platform.gateway.app  # type: ignore[attr-defined]
    rates = Rates(Buckets(1 / 60, 10), Buckets(1 / 60, 15))
    app.state.gateway = replace(app.state.gateway, rates=rates)
    return platform


async def statuses(platform: Platform, client_id: str, calls: int) -> list[int]:
    return [(await call(platform, client_id, "GET", STATUS)).status_code for _ in range(calls)]


async def test_a_client_over_its_rate_waits_and_others_do_not(strict: Platform) -> None:
    assert await statuses(strict, "ddh-dev", 12) == [404] * 10 + [429] * 2
    refused = await call(strict, "ddh-dev", "GET", STATUS)
    assert refused.json()["code"] == "too-many-calls"
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    assert await statuses(strict, "arcgis-dev", 3) == [404] * 3
    assert await statuses(strict, "reviewer", 3) == [404] * 3


async def test_the_clients_of_a_platform_share_one_more(strict: Platform) -> None:
    assert await statuses(strict, "ddh-dev", 10) == [404] * 10
    assert await statuses(strict, "ddh-reviewer", 6) == [404] * 5 + [429]
    assert await statuses(strict, "arcgis-dev", 1) == [404]


async def test_every_way_in_is_counted(strict: Platform) -> None:
    for _ in range(10):
        await call(strict, "ddh-dev", "POST", "/api/platform/submit", json={})
    for method, path in (
        ("POST", "/api/platform/submit"),
        ("GET", "/api/assets"),
        ("POST", "/api/gateway/submit/batch"),
    ):
        answer = await call(strict, "ddh-dev", method, path, json={"submissions": [{"submission": {}}]})
        assert answer.status_code == 429, path
