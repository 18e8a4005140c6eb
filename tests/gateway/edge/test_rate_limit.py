"""Who calls too often waits, and nobody else does."""

from dataclasses import replace

import psycopg
import pytest

from domain.rules.rates import Buckets
from gateway.edge.rate_limit import Rates
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


async def test_clients_of_one_platform_share_a_second_rate(strict: Platform) -> None:
    assert await statuses(strict, "ddh-dev", 10) == [404] * 10
    assert await statuses(strict, "ddh-reviewer", 6) == [404] * 5 + [429]
    assert await statuses(strict, "arcgis-dev", 1) == [404]


async def test_calls_to_every_route_count_towards_one_rate(strict: Platform) -> None:
    for _ in range(10):
        await call(strict, "ddh-dev", "POST", "/api/platform/submit", json={})
    for method, path in (
        ("POST", "/api/platform/submit"),
        ("GET", "/api/assets"),
        ("POST", "/api/gateway/submit/batch"),
    ):
        answer = await call(strict, "ddh-dev", method, path, json={"submissions": [{"submission": {}}]})
        assert answer.status_code == 429, path


async def test_caller_that_must_still_wait_is_refused_without_a_database_query(strict: Platform) -> None:
    """And whoever was withdrawn meanwhile is not let in for having been known."""
    app, now = strict.gateway.app, [0.0]  # type: ignore[attr-defined]
    made = app.state.gateway
    limited = replace(made, rates=Rates(Buckets(1, 1, clock=lambda: now[0]), Buckets(1, 9, clock=lambda: now[0])))
    blind = replace(limited, queries=replace(made.queries, pool=None))
    app.state.gateway = limited
    assert await statuses(strict, "ddh-dev", 2) == [404, 429]
    app.state.gateway = blind
    assert await statuses(strict, "ddh-dev", 3) == [429] * 3
    assert await statuses(strict, "arcgis-dev", 1) == [500]  # the control: who is not remembered is looked up
    app.state.gateway, now[0] = limited, 5.0
    assert await statuses(strict, "ddh-dev", 2) == [404, 429]
    with psycopg.connect(strict.domain.database.url()) as connection:
        connection.execute("update app.clients set secret_hash = 'another' where client_id = 'ddh-dev'")
    now[0] = 10.0
    assert await statuses(strict, "ddh-dev", 2) == [401, 401]
