"""What a request costs Prefect, in rows and bytes of its database, and how far readers of its events fall behind.

With each test run it is one request, held against a budget; `CAIRN_RUSH=300` makes a rush of so many, and prints.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
import redis

from deployments.stack.state import StackState
from tests.support.stack import RunningStack

pytestmark = pytest.mark.stack
RUSH = int(os.environ.get("CAIRN_RUSH") or 0)
PATIENCE_SECONDS = 300.0 + 20 * RUSH
STREAM = "events"
# Of an ingest, a flow run on each pool and eight task runs. It took 399 rows and 184 kB before, and takes 36 and 41 kB;
# on a slow machine its flow runs are called late, its task runs are seen running. What adds to it has to say why.
ROWS = 48
BYTES = 60_000
# Which rows of a table are there because of these flow runs.
BELONGING = {
    "flow_run": "id = any(%(runs)s)",
    "flow_run_state": "flow_run_id = any(%(runs)s)",
    "task_run": "flow_run_id = any(%(runs)s)",
    "task_run_state": "task_run_id in (select id from task_run where flow_run_id = any(%(runs)s))",
    "log": "flow_run_id = any(%(runs)s)",
    "artifact": "flow_run_id = any(%(runs)s)",
    "events": "id in (select event_id from event_resources where resource_id = any(%(names)s))",
    "event_resources": "event_id in (select event_id from event_resources where resource_id = any(%(names)s))",
}


def until(question: Callable[[], object], seconds: float = PATIENCE_SECONDS) -> None:
    """Asked no more often than that: each question takes time from what is measured."""
    deadline = time.monotonic() + seconds
    while not question():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.3)


@contextmanager
def prefects(stack: RunningStack) -> Iterator["psycopg.Connection[Any]"]:
    with psycopg.connect(stack.url("postgres").removesuffix("/cairn") + "/prefect") as connection:
        yield connection


def unread(stack: RunningStack) -> dict[str, int]:
    """How many events each group of readers has not dealt with."""
    password = StackState(stack.folder).secrets["redis"]
    with redis.Redis(port=stack.facts()["ports"]["redis"], password=password, decode_responses=True) as client:
        groups: Any = client.xinfo_groups(STREAM)
    return {group["name"]: (group["lag"] or 0) + group["pending"] for group in groups}


def submit(stack: RunningStack, source: str, number: int) -> str:
    refs = {"dataset_id": "events", "resource_id": str(number), "version_id": "1"}
    body = {**refs, "data_type": "raster", "operation": "ingest", "source": source}
    with stack.partner() as gateway:
        while (answer := gateway.post("/api/platform/submit", json=body)).status_code in {429, 503}:
            time.sleep(float(answer.headers.get("Retry-After", "1")))
    assert answer.status_code == 202, answer.text
    return str(answer.json()["request_id"])


@pytest.fixture(scope="module")
def source(stack: RunningStack, tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("events") / "events.tif"
    assert stack.cairn("sample", str(file)).returncode == 0
    return str(stack.json("upload", str(file), "--as", "ddh")["source"])


def ended(stack: RunningStack, requests: list[str]) -> bool:
    query = "select count(*) from app.requests where request_id = any(%s) and status in ('pending', 'processing')"
    return stack.rows(query, requests) == [(0,)]


def flow_runs(stack: RunningStack, requests: list[str]) -> list[Any]:
    query = (
        "select f.flow_run_id from app.attempt_flow_runs f join app.runs r using (run_id) where r.request_id = any(%s)"
    )
    return [flow_run for (flow_run,) in stack.rows(query, requests)]


def all_told(stack: RunningStack, runs: list[Any]) -> bool:
    """Whether each flow run's end has been told to everybody who reads of it."""
    with prefects(stack) as connection:
        query = (
            "select count(*) from flow_run where id = any(%s) and state_type in ('COMPLETED', 'FAILED', 'CANCELLED')"
        )
        [over] = connection.execute(query, [runs]).fetchone() or (0,)
        query = (
            "select count(distinct resource_id) from events where resource_id = any(%s) and event like '%%.Completed'"
        )
        [told] = connection.execute(query, [[f"prefect.flow-run.{run}" for run in runs]]).fetchone() or (0,)
    return over == told == len(runs) and not any(unread(stack).values())


def cost(stack: RunningStack, runs: list[Any]) -> dict[str, tuple[int, int]]:
    """Rows and their bytes, by table, that Prefect has of these flow runs."""
    values = {"runs": runs, "names": [f"prefect.flow-run.{run}" for run in runs]}
    with prefects(stack) as connection:
        found = {}
        for table, condition in BELONGING.items():
            query = f"select count(*), coalesce(sum(pg_column_size(t.*)), 0) from {table} t where {condition}"  # noqa: S608
            [(rows, size)] = connection.execute(query.encode(), values).fetchall()
            found[table] = (int(rows), int(size))
    return found


def shown(costs: Mapping[str, tuple[int, int]], of: int = 1) -> str:
    return ", ".join(f"{table} {rows / of:.1f} rows {size / of:,.0f} bytes" for table, (rows, size) in costs.items())


def test_request_stays_within_its_budget_of_prefects_database(stack: RunningStack, source: str) -> None:
    requests = [submit(stack, source, 0)]
    until(lambda: ended(stack, requests), PATIENCE_SECONDS)
    runs = flow_runs(stack, requests)
    until(lambda: all_told(stack, runs))
    costs = cost(stack, runs)
    print(f"\none request: {shown(costs)}")  # noqa: T201
    assert costs["event_resources"][0] <= ROWS, shown(costs)
    assert sum(size for _, size in costs.values()) <= BYTES, shown(costs)


def test_prefect_records_every_state_of_flow_runs_and_the_end_of_each_task_run(
    stack: RunningStack, source: str
) -> None:
    requests = [submit(stack, source, -1)]
    until(lambda: ended(stack, requests), PATIENCE_SECONDS)
    runs = [str(run) for run in flow_runs(stack, requests)]
    with stack.prefect() as prefect:

        def task_runs() -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = _asked(prefect, "/task_runs/filter", runs)
            return found

        nodes = "select count(*) from app.run_nodes join app.runs using (run_id) where request_id = any(%s)"
        nodes += " and type in ('task', 'fan_out')"
        [(expected,)] = stack.rows(nodes, requests)
        over = {"COMPLETED", "CANCELLED"}  # the latter are what was skipped
        until(lambda: len([run for run in task_runs() if run["state_type"] in over]) >= expected)
        assert all(run["start_time"] and run["end_time"] and run["run_count"] == 1 for run in task_runs())
        for run in runs:
            states = prefect.get("/flow_run_states/", params={"flow_run_id": run}).raise_for_status().json()
            assert {"Scheduled", "Pending", "Running", "Completed"} <= {state["name"] for state in states}
            until(lambda run=run: "prefect.flow-run.Completed" in _told(prefect, run))  # type: ignore[misc]
        assert _asked(prefect, "/logs/filter", runs, "logs", "flow_run_id")
        assert _asked(prefect, "/artifacts/filter", runs)


def _told(prefect: httpx.Client, run: str) -> set[str]:
    """The names of the flow run's events, as its page shows them."""
    of = {"any_resource": {"id": [f"prefect.flow-run.{run}"]}, "event": {"prefix": ["prefect.flow-run."]}}
    found = prefect.post("/events/filter", json={"filter": of}).raise_for_status().json()
    return {event["event"] for event in found["events"]}


def _asked(prefect: httpx.Client, path: str, runs: list[str], kind: str = "flow_runs", field: str = "id") -> Any:
    return prefect.post(path, json={kind: {field: {"any_": runs}}}).raise_for_status().json()


@pytest.mark.skipif(not RUSH, reason="`CAIRN_RUSH=300 pytest tests/e2e/test_events.py` makes one")
def test_readers_of_events_keep_up_with_a_rush(stack: RunningStack, source: str, tmp_path: Path) -> None:
    before = _sizes(stack)
    began = time.monotonic()
    requests = [submit(stack, source, 1 + number) for number in range(RUSH)]
    print(f"\n{RUSH} submitted in {time.monotonic() - began:.0f} s")  # noqa: T201
    most: dict[str, int] = {}
    while not ended(stack, requests):
        most = {group: max(count, most.get(group, 0)) for group, count in unread(stack).items()}
        time.sleep(1)
    over = time.monotonic()
    print(f"ended after {over - began:.0f} s; unread at most {most}, at the end {unread(stack)}")  # noqa: T201
    runs = flow_runs(stack, requests)
    while any(unread(stack).values()) and time.monotonic() - over < PATIENCE_SECONDS:
        time.sleep(1)
    behind = time.monotonic() - over
    print(f"all read {behind:.0f} s later; a request: {shown(cost(stack, runs), RUSH)}")  # noqa: T201
    grown = {table: (size - before.get(table, 0)) / RUSH for table, size in _sizes(stack).items()}
    print(f"database grew by {sum(grown.values()):,.0f} bytes a request: ", end="")  # noqa: T201
    print({table: round(size) for table, size in sorted(grown.items(), key=lambda one: -one[1]) if size > 100})  # noqa: T201
    with prefects(stack) as connection:
        kinds = "select event, count(*) from events group by event order by 2 desc limit 40"
        print(connection.execute(kinds).fetchall())  # noqa: T201
        print(connection.execute("select state_type, count(*) from flow_run group by 1").fetchall())  # noqa: T201
    assert behind < 30


def _sizes(stack: RunningStack) -> dict[str, int]:
    """Bytes of Prefect's tables with their indices."""
    query = "select relname, pg_total_relation_size(relid)::bigint from pg_stat_user_tables"
    with prefects(stack) as connection:
        return dict(connection.execute(query).fetchall())
