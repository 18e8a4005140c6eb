"""A limit of one on a tag: of two processes with a fan-out each, never are two items at work at once.

`CAIRN_CONTRACT_ITEMS` says how many items each has: so few that each is a task run of its own, and in groups.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from tests.support.contract_runs import GUARD, STEP
from tests.support.prefect_server import PrefectServer

COUNTS = [int(count) for count in os.environ.get("CAIRN_CONTRACT_ITEMS", "10,250").split(",")]
STOCK_COUNTS = [count for count in COUNTS if count <= int(os.environ.get("CAIRN_CONTRACT_STOCK_ITEMS", "10"))]
CASES = [("fast", count) for count in COUNTS] + [("stock", count) for count in STOCK_COUNTS]


@contextmanager
def limit_of_one(prefect: PrefectServer) -> Iterator[None]:
    name = f"tag:{STEP}"
    prefect.http.post("/v2/concurrency_limits/", json={"name": name, "limit": 1}).raise_for_status()
    try:
        yield
    finally:
        prefect.http.delete(f"/v2/concurrency_limits/{name}").raise_for_status()


def run_two(prefect: PrefectServer, engine: str, count: int, guard: Path) -> list[float]:
    """Have two processes do so many items each, at once; how long each took."""

    def one(_: int) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "tests.support.contract_runs", engine, str(count)],
            env=prefect.environment | {GUARD: str(guard)},
            capture_output=True,
            text=True,
            timeout=1800,
            check=False,
        )

    with ThreadPoolExecutor(2) as both:
        ended = list(both.map(one, range(2)))
    assert [done.returncode for done in ended] == [0, 0], [done.stderr[-2000:] for done in ended]
    told = [json.loads(done.stdout.splitlines()[-1]) for done in ended]
    assert [prefect.state(one["run"]) for one in told] == ["COMPLETED", "COMPLETED"]
    return [one["seconds"] for one in told]


@pytest.mark.parametrize(("engine", "count"), CASES)
def test_limited_tag_is_at_work_once_in_all_processes(
    workers_prefect: PrefectServer, tmp_path: Path, engine: str, count: int
) -> None:
    guard = tmp_path / f"guard-{uuid4()}"
    with limit_of_one(workers_prefect):
        took = run_two(workers_prefect, engine, count, guard)
    assert guard.exists()
    assert not guard.with_suffix(".together").exists()
    sys.stdout.write(f"{engine}: twice {count} items one at a time in {max(took):.1f} s\n")


def test_without_a_limit_items_are_at_work_together(workers_prefect: PrefectServer, tmp_path: Path) -> None:
    """What the test above could not tell from a limit that is kept."""
    run_two(workers_prefect, "fast", 50, tmp_path / "guard")
    assert (tmp_path / "guard.together").read_text().count("together") > 1
