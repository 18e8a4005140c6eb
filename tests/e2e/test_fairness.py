"""Fairness on a whole stack: real relay, Prefect, workers and GDAL. `make fairness`.

In short, with each test run, the same is counted on the real database (`tests/domain/test_fairness.py`).
"""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from tests.support.cluster import open_folder
from tests.support.stack import RunningStack, with_workflows

LONG = pytest.mark.skipif(not os.environ.get("CAIRN_FAIRNESS"), reason="`make fairness` takes a stack of its own")
pytestmark = [pytest.mark.stack, LONG]
FIRST = int(os.environ.get("CAIRN_FAIRNESS") or 500)  # how many of one platform come first
PARENTS = int(os.environ.get("CAIRN_FAIRNESS_PARENTS") or 200)  # how many wait, for a pool that takes nothing
PATIENCE_SECONDS = 1200.0
ENDED = "select count(*) from app.requests where platform_id = %s and status not in ('pending', 'processing')"
WELL = "select count(*) from app.requests where platform_id = %s and status = 'completed'"
REFS = {
    "ddh": lambda number: {"dataset_id": "rush", "resource_id": str(number), "version_id": "1"},
    "arcgis": lambda number: {"item_id": f"rush-{number}", "layer_index": "0", "version": "1"},
}


@pytest.fixture(scope="module")
def stack() -> Iterator[RunningStack]:
    """One that may have 300 in flight, where workers do not say how many they do, and gives up no pool meanwhile."""
    settings = {"CAIRN_IN_FLIGHT_PER_POOL": "300", "CAIRN_UNROUTABLE_SECONDS": "7200"}
    with open_folder("fair") as folder, with_workflows(folder, {}, **settings).up() as running:
        yield running


def until(question: Callable[[], bool], seconds: float = PATIENCE_SECONDS, every: float = 0.5) -> None:
    """Asked no more often than that: each question takes time from what is measured."""
    deadline = time.monotonic() + seconds
    while not question():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(every)


def submit(stack: RunningStack, platform: str, source: str, number: int) -> None:
    key = stack.credentials()["clients"][platform]["api_key"]
    body: dict[str, Any] = {**REFS[platform](number), "data_type": "raster", "operation": "ingest", "source": source}
    with httpx.Client(base_url=stack.url("gateway"), headers={"X-API-Key": key}, timeout=60) as gateway:
        while (answer := gateway.post("/api/platform/submit", json=body)).status_code in {429, 503}:
            time.sleep(float(answer.headers.get("Retry-After", "1")))
    assert answer.status_code == 202, answer.text


def uploaded(stack: RunningStack, platform: str, folder: Path) -> str:
    file = folder / f"{platform}.tif"
    assert stack.cairn("sample", str(file)).returncode == 0
    return str(stack.json("upload", str(file), "--as", platform)["source"])


def count(stack: RunningStack, query: str, *values: Any) -> int:
    return int(stack.rows(query, *values)[0][0])


def test_five_of_one_platform_end_before_25_more_of_another(stack: RunningStack, tmp_path: Path) -> None:
    sources = {platform: uploaded(stack, platform, tmp_path) for platform in REFS}
    for number in range(FIRST):
        submit(stack, "ddh", sources["ddh"], number)
    until(lambda: count(stack, ENDED, "ddh") > 0)
    for number in range(5):
        submit(stack, "arcgis", sources["arcgis"], number)
    before, began = count(stack, ENDED, "ddh"), time.monotonic()
    until(lambda: count(stack, ENDED, "arcgis") == 5)
    seconds = time.monotonic() - began
    finished = "select max(finished_at) from app.requests where platform_id = 'arcgis'"
    more = count(stack, f"{ENDED} and finished_at <= ({finished})", "ddh") - before
    left = FIRST - count(stack, ENDED, "ddh")
    told = f"of {FIRST}, {before} had ended; five others ended after {seconds:.0f} s, and {more} more before them"
    print(f"\n{told}; {left} are left")  # noqa: T201
    assert left > 0, "there was no rush any more"
    assert count(stack, WELL, "arcgis") == 5
    assert more < 25


@contextmanager
def frozen(stack: RunningStack) -> Iterator[None]:
    """No gdal worker takes anything, and the domain does not know how many runs one does at once."""
    [worker] = [pid for pid in stack.processes() if _is_gdal_worker(pid)]
    os.kill(worker, signal.SIGSTOP)
    try:
        stack.rows("update app.pool_workers set at_once = null where pool = 'gdal' returning 1")
        yield
    finally:
        os.kill(worker, signal.SIGCONT)


def _is_gdal_worker(pid: int) -> bool:
    with suppress(OSError):
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        return b"worker\0start\0--pool\0gdal" in command
    return False


def withdrawn(stack: RunningStack) -> float:
    """How long the service's own taking back takes, from its order to its end."""
    [(request_id,)] = stack.rows("select gen_random_uuid()")
    statement = """
        with request as (
            insert into app.requests (request_id, is_internal, operation, submitted, fingerprint, priority)
            values (%(id)s, true, 'run', '{"workflow_id": "withdraw_external"}', '', 'high')
        ), run as (
            insert into app.runs (run_id, request_id, sequence, workflow_id, version, digest, priority, inputs)
            select %(id)s, %(id)s, 1, workflow_id, version, digest, 'high', '{"external_blob_path": "none/of/it"}'
            from app.workflow_definitions where workflow_id = 'withdraw_external'
        ), nodes as (
            insert into app.run_nodes (run_id, node_id, position, type, handler, pool)
            values (%(id)s, 'withdraw', 1, 'task', 'export.withdraw', 'light')
        )
        insert into app.attempts (run_id, number, token, priority, workflow_id)
        values (%(id)s, 1, %(id)s::text, 'urgent', 'withdraw_external') returning pg_notify('cairn_dispatch', '')
    """
    began = time.monotonic()
    _ordered(stack, statement, request_id)
    done = "select count(*) from app.runs where run_id = %s and state = 'completed'"
    until(lambda: count(stack, done, request_id) == 1, every=0.1)
    return time.monotonic() - began


def _ordered(stack: RunningStack, statement: str, request_id: Any) -> None:
    with psycopg.connect(stack.url("postgres")) as connection:
        connection.execute(statement.encode(), {"id": request_id})


def test_200_waiting_parents_do_not_delay_a_withdrawal(stack: RunningStack, tmp_path: Path) -> None:
    sources = {platform: uploaded(stack, platform, tmp_path) for platform in REFS}
    for waiting in stack.rows("select request_id from app.requests where status in ('pending', 'processing')"):
        with stack.operator() as operator:
            operator.post(f"/api/v1/requests/{waiting[0]}/cancel", json={"reason": "the next test"})
    idle = sorted(withdrawn(stack) for _ in range(3))
    with frozen(stack):
        time.sleep(26)  # until the worker counts as gone
        for number in range(PARENTS // 2):
            for platform, source in sources.items():
                submit(stack, platform, source, 1000 + number)
        waits = """
            select count(distinct a.run_id) from app.attempts a join app.run_nodes n using (run_id)
            where a.state = 'started' and n.state = 'dispatched'
        """
        until(lambda: count(stack, waits) >= PARENTS)
        time.sleep(
            30
        )  # until they do nothing but wait: each has shown its graph, and Prefect calls their children late
        beside = sorted(withdrawn(stack) for _ in range(5))
        parents = count(stack, waits)
    assert parents >= PARENTS, "they did not wait any more"
    print(f"\nn = 3 withdrawals alone, {idle}; n = 5 beside {parents} waiting parents, {beside}")  # noqa: T201
    assert beside[2] <= idle[1] + 2
