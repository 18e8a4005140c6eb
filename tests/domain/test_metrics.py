"""What Prometheus reads: who may, what it says of work that waits, and that nobody's words become labels."""

from pathlib import Path

import httpx
import psycopg
import pytest
from prometheus_client.parser import text_string_to_metric_families
from pydantic import SecretStr

from domain.api import gauges
from domain.api.gauges import DomainGauges
from domain.repositories import outbox
from domain.shared.metrics import Metering, RequestMeter
from tests.support.acts import call, dispatched, submit, time_passes
from tests.support.clock import PATIENCE_SECONDS
from tests.support.cluster import TestDatabase
from tests.support.platform import Domain, running_domain

TOKEN = "0123456789abcdef-watching"
Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


def parsed(text: str) -> Series:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(series: Series, name: str, **labels: str) -> float | None:
    return series.get((name, frozenset(labels.items())))


async def scraped(domain: Domain, monkeypatch: pytest.MonkeyPatch) -> Series:
    """As one would be told who has asked nothing for long."""
    monkeypatch.setattr(gauges, "FRESH_SECONDS", 0.0)
    async with domain.as_("operator") as operator:
        answer = await operator.get("/metrics")
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/plain")
    return parsed(answer.text)


async def test_metrics_token_opens_the_metrics_and_nothing_else(shared_database: TestDatabase, tmp_path: Path) -> None:
    async with (
        running_domain(shared_database, tmp_path, metrics_token=SecretStr(TOKEN)) as domain,
        httpx.AsyncClient(transport=domain.transport, base_url="http://domain") as anybody,
    ):
        for shown, status in ((TOKEN, 200), (TOKEN[:-1], 401), ("secret-operator", 200), ("secret-worker", 403)):
            answer = await anybody.get("/metrics", headers={"Authorization": f"Bearer {shown}"})
            assert answer.status_code == status, shown
        assert (await anybody.get("/metrics")).status_code == 401
        refused = await anybody.get("/api/v1/runs", headers={"Authorization": f"Bearer {TOKEN}"})
        assert refused.status_code == 401


async def test_open_requests_and_waiting_attempts_are_in_the_metrics(
    domain: Domain, monkeypatch: pytest.MonkeyPatch
) -> None:
    await submit(domain)
    await submit(domain, refs={"dataset_id": "d", "resource_id": "other"})
    with psycopg.connect(domain.database.url()) as connection:
        connection.execute("update app.attempts set created_at = created_at - interval '1 hour'")
        connection.execute("insert into app.pool_workers values ('gdal', 'w', clock_timestamp() - interval '70 s')")
    series = await scraped(domain, monkeypatch)
    assert value(series, "cairn_domain_database_up") == 1
    assert value(series, "cairn_requests_open", status="pending") == 2
    assert value(series, "cairn_requests_open", status="processing") == 0
    assert value(series, "cairn_attempts_live", state="ready") == 2
    assert 3600 <= (value(series, "cairn_queue_oldest_seconds", pool="light") or 0) < 3700
    assert 70 <= (value(series, "cairn_pool_beacon_age_seconds", pool="gdal") or 0) < 100
    assert value(series, "cairn_pool_waiting", pool="light") == 2
    assert value(series, "cairn_database_connections", pool="app", kind="most") == 10


async def test_worst_loop_lag_of_a_pools_workers_is_in_the_metrics(
    domain: Domain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers have no door for figures: what they say of themselves goes with their beacons."""
    for worker, lag in (("a", 0.01), ("b", 2.5), ("older", None)):
        told = {"worker": worker} | ({"loop_lag_seconds": lag} if lag is not None else {})
        assert (await call(domain, "worker", "POST", "/pools/light/beacon", told)).is_success
    assert (await call(domain, "worker", "POST", "/pools/gdal/beacon", {"worker": "older"})).is_success
    series = await scraped(domain, monkeypatch)
    assert value(series, "cairn_worker_loop_lag_seconds", pool="light") == 2.5
    assert value(series, "cairn_worker_loop_lag_seconds", pool="gdal") is None
    assert value(series, "cairn_pool_workers", pool="light") == 3
    assert (value(series, "cairn_loop_lag_seconds") or 0) < PATIENCE_SECONDS


async def test_metrics_say_how_long_heartbeats_could_be_heard(domain: Domain, monkeypatch: pytest.MonkeyPatch) -> None:
    time_passes(domain, 5000)
    assert 5000 <= (value(await scraped(domain, monkeypatch), "cairn_listening_seconds") or 0) < 5100
    time_passes(domain, 5000, away=True)
    assert (value(await scraped(domain, monkeypatch), "cairn_listening_seconds") or 0) < 100


async def test_overdue_relay_leases_are_in_the_metrics(domain: Domain, monkeypatch: pytest.MonkeyPatch) -> None:
    await submit(domain)
    assert await outbox.claim(domain.service.database, 1)
    assert value(await scraped(domain, monkeypatch), "cairn_relay_leases_overdue") == 0
    with psycopg.connect(domain.database.url()) as connection:
        connection.execute("update app.attempts set lease_until = clock_timestamp() - interval '1 s'")
    assert value(await scraped(domain, monkeypatch), "cairn_relay_leases_overdue") == 1


async def test_run_held_by_a_pause_is_not_counted_as_late(domain: Domain, monkeypatch: pytest.MonkeyPatch) -> None:
    await submit(domain)
    assert (await call(domain, "operator", "POST", "/pause", {"reason": "maintenance"})).is_success
    with psycopg.connect(domain.database.url()) as connection:
        connection.execute("update app.attempts set created_at = created_at - interval '1 hour'")
    assert value(await scraped(domain, monkeypatch), "cairn_queue_oldest_seconds", pool="light") == 0


async def test_outcomes_of_attempts_are_counted_in_the_metrics(domain: Domain, monkeypatch: pytest.MonkeyPatch) -> None:
    await submit(domain)
    [flow] = await dispatched(domain)
    await flow.start()
    await flow.commit()
    series = await scraped(domain, monkeypatch)
    assert value(series, "cairn_attempts_ended_last_hour", outcome="committed") == 1
    assert value(series, "cairn_attempts_ended_last_hour", outcome="fenced") == 0


async def test_late_callbacks_are_in_the_metrics(domain: Domain, monkeypatch: pytest.MonkeyPatch) -> None:
    request_id = (await submit(domain)).json()["request_id"]
    with psycopg.connect(domain.database.url()) as connection:
        connection.execute("insert into app.callback_endpoints (client_id, url) values ('ddh-dev', 'https://a.test/')")
        connection.execute(
            "insert into app.callbacks (callback_id, request_id, endpoint_id, status, state, next_at)"
            " select gen_random_uuid(), %s, endpoint_id, 'completed', 'ready', clock_timestamp() - interval '90 s'"
            " from app.callback_endpoints",
            [request_id],
        )
    series = await scraped(domain, monkeypatch)
    assert value(series, "cairn_callbacks_open", state="ready") == 1
    assert 90 <= (value(series, "cairn_callback_lag_seconds") or 0) < 120


async def test_metrics_ask_the_database_once_in_ten_seconds(domain: Domain) -> None:
    now = [100.0]
    told = DomainGauges(domain.service.database, 25, 15, clock=lambda: now[0])
    await told.refresh()
    await submit(domain)
    now[0] += 9
    await told.refresh()
    assert _pending(told) == 0
    now[0] += 2
    await told.refresh()
    assert _pending(told) == 1


def _pending(told: DomainGauges) -> float:
    [family] = [family for family in told.metrics() if family.name == "cairn_requests_open"]
    return next(sample.value for sample in family.samples if sample.labels["status"] == "pending")


async def test_old_figures_are_not_shown_without_a_database(domain: Domain, monkeypatch: pytest.MonkeyPatch) -> None:
    told = DomainGauges(domain.service.database, 25, 15)

    async def away(*_: object) -> None:
        raise OSError

    monkeypatch.setattr("domain.repositories.gauges.Gauges._rows", away)
    await told.refresh()
    assert {family.name for family in told.metrics()} == {
        "cairn_domain_database_up",
        "cairn_database_connections",
        "cairn_loop_lag_seconds",
    }


async def test_metrics_label_routes_by_template_and_never_by_path(
    domain: Domain, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with domain.as_("operator") as operator:
        for path in ("/api/v1/runs/0b5c9c1e-0000-4000-8000-000000000000", "/partners-words", "/console/sign-in"):
            await operator.get(path)
        await operator.request("PARTNER", "/livez")
    series = await scraped(domain, monkeypatch)
    counted = {
        (labels["method"], labels["route"], labels["status"])
        for name, pairs in series
        if name == "cairn_http_request_seconds_count"
        for labels in [dict(pairs)]
    }
    assert {("GET", "/api/v1/runs/{run_id}", "4xx"), ("GET", "unmatched", "4xx"), ("other", "/livez", "4xx")} <= counted
    assert [one for one in counted if one[:2] == ("GET", "/console/sign-in")], "pages of the console are counted, too"
    assert "partners-words" not in str(series)
    assert "PARTNER" not in str(series)


async def test_failed_and_abandoned_requests_are_counted() -> None:
    async def fails(_scope: object, _receive: object, _send: object) -> None:
        raise ValueError("out of order")

    async def tells_nothing(_scope: object, _receive: object, _send: object) -> None:
        return

    async def nobody(_message: object) -> None:
        return

    metering = Metering()
    with pytest.raises(ValueError, match="out of order"):
        await RequestMeter(fails, metering)({"type": "http", "path": "/", "method": "GET"}, None, nobody)
    await RequestMeter(tells_nothing, metering)({"type": "http", "path": "/", "method": "GET"}, None, nobody)
    series = parsed(metering.text().decode())
    for status in ("5xx", "none"):
        count = "cairn_http_request_seconds_count"
        assert value(series, count, method="GET", route="unmatched", status=status) == 1
