"""Figures for operators: right on a small day that was made by hand, and by indexes on a large store."""

import json
import os
from typing import Any

import psycopg
import pytest

from domain.repositories import pools, run_metrics, statistics
from tests.support.lives import completed, failed, submitted
from tests.support.platform import Domain

STORED = int(os.environ.get("CAIRN_TEST_STORED_REQUESTS", "20000"))


async def stats(domain: Domain, window: str = "24h") -> Any:
    async with domain.as_("operator") as operator:
        answer = await operator.get("/api/v1/stats", params={"window": window})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_statistics_of_a_day_made_by_hand_are_right(domain: Domain) -> None:
    refs = [{"dataset_id": "a", "resource_id": str(number)} for number in range(5)]
    requests = [await submitted(domain, refs=ref) for ref in refs]
    for request_id in requests[:3]:
        await completed(domain, request_id)
    await failed(domain, requests[3])
    asset_id = domain.rows("select asset_id from app.assets where refs ->> 'resource_id' = '0'")[0][0]
    async with domain.as_("reviewer") as reviewer:
        decision = {"revision": 1, "clearance_level": "ouo"}
        assert (await reviewer.post(f"/api/v1/assets/{asset_id}/versions/0/approve", json=decision)).status_code == 200
    domain.rows("update app.workflow_definitions set plan = plan || '{\"sla_seconds\": 3600}' returning 1")
    domain.rows(
        "update app.requests set finished_at = created_at + interval '10 s' where status = 'completed' returning 1"
    )
    # The waiting one was made two hours ago; the others were all started an hour ago, except one just now.
    domain.rows("update app.runs set created_at = now() - interval '2 hours', started_at = case when state = 'pending'"
                " then null when request_id = %s then now() - interval '1 minute' else now() - interval '1 hour' end,"
                " finished_at = case when state <> 'pending' then now() end returning 1", requests[0])  # fmt: skip
    domain.rows("update app.attempts set state = 'fenced' where state = 'ready' returning 1")
    domain.rows("insert into app.attempts (run_id, number, token, state, created_at)"
                " select run_id, n, n || run_id::text, case when n = 13 then 'ready' else 'fenced' end,"
                " date_trunc('hour', now()) - interval '50 minutes'"
                " from app.runs, generate_series(2, 13) n where request_id = %s returning 1", requests[4])  # fmt: skip
    shown = await stats(domain)
    totals = shown["totals"]
    assert (totals["received"], totals["completed"], totals["failed"], totals["open"]) == (5, 3, 1, 1)
    assert totals["failure_rate"] == 0.25
    assert totals["completed_per_hour"] == pytest.approx(3 / 24)
    [platform] = shown["platforms"]
    assert (platform["platform_id"], platform["duration"]["count"]) == ("ddh", 4)
    assert platform["duration"]["p50_seconds"] == pytest.approx(10, abs=5)
    [workflow] = shown["workflows"]
    assert (workflow["runs"], workflow["repeated_attempts"], workflow["sla_breaches"]) == (5, 12, 5)
    assert shown["attempts"] == {"1": 4, "13": 1}
    [storm] = shown["retry_storms"]
    assert (storm["workflow_id"], storm["repeated_attempts"]) == ("raster_ingest", 12)
    before, between = shown["downtimes"]  # an hour in which all waited for the first start, and one for the next
    assert before["seconds"] == pytest.approx(60 * 60, abs=5)
    assert between["seconds"] == pytest.approx(59 * 60, abs=5)
    [queue] = shown["queues"]
    assert (queue["priority"], queue["age"]["count"]) == ("normal", 1)
    assert shown["time_to_approval"]["count"] == 1
    assert shown["sla_breaches"] == 5


async def test_statistics_without_any_run_show_no_failure_rate(domain: Domain) -> None:
    shown = await stats(domain, "5m")
    assert (shown["totals"]["failure_rate"], shown["time_to_approval"]["count"], shown["downtimes"]) == (None, 0, [])
    async with domain.as_("operator") as operator:
        assert (await operator.get("/api/v1/stats", params={"window": "1 year"})).status_code == 422


async def test_waiting_run_without_any_start_is_a_downtime_until_now(domain: Domain) -> None:
    """Told from when somebody began to wait, or from the window's beginning where that is later."""
    await submitted(domain)
    domain.rows("update app.runs set created_at = now() - interval '2 hours' returning 1")
    [waited], [within] = [(await stats(domain, window))["downtimes"] for window in ("24h", "1h")]
    assert waited["seconds"] == pytest.approx(2 * 3600, abs=5)
    assert within["seconds"] == pytest.approx(3600, abs=5)
    domain.rows("update app.runs set created_at = now() - interval '1 minute' returning 1")
    assert (await stats(domain))["downtimes"] == []


async def test_statistics_of_a_large_store_are_read_by_index(domain: Domain) -> None:
    """Stored over 100 days, a request every few minutes: the last hour's figures touch the last hour only."""
    await submitted(domain)
    domain.rows(
        "insert into app.requests (request_id, platform_id, client_id, operation, submitted, fingerprint, priority,"
        " status, created_at, finished_at) select gen_random_uuid(), 'ddh', 'ddh-dev', 'ingest', '{}', 'f', 'normal',"
        " 'completed', at, at + interval '1 minute' from (select now() - n * interval '100 days' / %s as at"
        " from generate_series(1, %s) n) t returning 1", STORED, STORED,
    )  # fmt: skip
    domain.rows(
        "insert into app.runs (run_id, request_id, sequence, workflow_id, version, digest, priority, inputs, state,"
        " created_at, started_at, finished_at) select gen_random_uuid(), request_id, 1, 'raster_ingest', version, 'd',"
        " 'normal', '{}', 'completed', created_at, created_at, finished_at from app.requests,"
        " (select version from app.runs) as submitted where fingerprint = 'f' returning 1"
    )
    domain.rows(
        "insert into app.attempts (run_id, number, token, state, created_at) select run_id, n, run_id::text || n,"
        " 'committed', created_at from app.runs, generate_series(1, 2) n where digest = 'd' returning 1"
    )
    domain.rows(
        "insert into app.node_transitions (run_id, attempt, node_id, before, state, tries, retries, at)"
        " select run_id, 1, 'validate', 'ready', 'running', n, n - 1, created_at from app.runs, generate_series(1, 2) n"
        " where digest = 'd' returning 1"
    )
    domain.rows(
        "insert into app.run_metrics (run_id, memory, name, value) select run_id, 1, 'tokens', 1 from app.runs"
        " returning 1"
    )
    with psycopg.connect(domain.database.url(), autocommit=True) as administrator:
        administrator.execute("analyze")
    for query in (
        statistics.PLATFORMS, statistics.WORKFLOWS, statistics.ATTEMPTS, statistics.STORMS, statistics.DOWNTIMES,
        statistics.QUEUES, statistics.APPROVALS, statistics.HEATMAP, run_metrics.MEASURED, pools.ALL, pools.POOLS,
    ):  # fmt: skip
        scanned = scans(domain, query.text) & {"requests", "runs", "attempts", "node_transitions", "run_metrics"}
        assert not scanned, f"{scanned} is read whole by {query.text}"
    shown = await stats(domain, "1h")
    assert shown["totals"]["received"] <= 1 + STORED // 2400 + 1


def scans(domain: Domain, query: str) -> set[str]:
    """The tables that this query reads from end to end for the last hour."""
    values = {
        ":window": "3600",
        ":cells": "100",
        ":cell": "3600",
        ":many": "10",
        ":most": "50",
        ":still": "300",
        ":silence": "25",
        ":now": "now()",
        ":since": "now()",
        ":limit": "100",
    }
    for name, value in values.items():
        query = query.replace(name, value)
    [(plan,)] = domain.rows(f"explain (format json) {query}")
    found: set[str] = set()

    def visit(node: Any) -> None:
        if isinstance(node, dict):
            if node.get("Node Type") == "Seq Scan":
                found.add(node["Relation Name"])
            for value in node.values():
                visit(value)
        if isinstance(node, list):
            for value in node:
                visit(value)

    visit(json.loads(plan) if isinstance(plan, str) else plan)
    return found
