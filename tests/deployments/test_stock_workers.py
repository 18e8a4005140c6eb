"""Prefect's own worker as its documentation starts it, and our light worker with Prefect's own engine."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from deployments import pools
from deployments.stack.owner import tied
from tests.support.clock import until
from tests.support.prefect_server import PrefectServer

FLOWS = "tests.support.inline_flows"
DOMAIN = {"CAIRN_DOMAIN_URL": "http://127.0.0.1:9", "CAIRN_WORKER_TOKEN": "worker-token"}


@pytest.fixture(scope="module")
def prefect(workers_prefect: PrefectServer) -> PrefectServer:
    return workers_prefect


@contextmanager
def stock_worker(prefect: PrefectServer, pool: str, folder: Path) -> Iterator[None]:
    """`prefect worker start`, with what its operator must say and nothing more."""
    command = ("prefect", "worker", "start", "--pool", pool, "--type", "process")
    with (folder / "worker.log").open("ab") as log:
        worker = subprocess.Popen(
            tied(sys.executable, "-m", *command),
            cwd=folder,
            env=prefect.environment | DOMAIN,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield
    finally:
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()


def test_stock_worker_shows_handlers_lines_and_none_of_another_library(prefect: PrefectServer, tmp_path: Path) -> None:
    pool = f"stock-{uuid4().hex[:8]}"
    prefect.pool(pool, "process", pools.template("process", "gdal"))
    run = prefect.trigger(prefect.deploy(pool, f"{FLOWS}.says_as_handlers_do"))
    with stock_worker(prefect, pool, tmp_path):
        assert prefect.until_state(run) == "COMPLETED", (tmp_path / "worker.log").read_text()[-3000:]
    until(lambda: "a line of a handler" in prefect.logs(run), 20)
    said = prefect.logs(run)
    assert said.count("a line of a handler") == 1
    assert "a line of a library" not in said


def test_light_worker_with_the_stock_engine_runs_each_flow_in_a_process_of_its_own(
    prefect: PrefectServer, tmp_path: Path
) -> None:
    pool = f"stock-{uuid4().hex[:8]}"
    prefect.pool(pool)
    told = prefect.deploy(pool, f"{FLOWS}.says_where")
    heeds = prefect.trigger(prefect.deploy(pool, f"{FLOWS}.heeds_sigterm"), path=str(tmp_path / "begun"))
    with prefect.worker(pool, CAIRN_ENGINE="stock") as worker:
        runs = [prefect.trigger(told) for _ in range(2)]
        assert [prefect.until_state(run) for run in runs] == ["COMPLETED", "COMPLETED"]
        until(lambda: all(prefect.logs(run) for run in runs), 20)
        where = {line for run in runs for line in prefect.logs(run) if line.startswith("process ")}
        assert len(where) == 2
        assert f"process {worker.pid}" not in where
        until((tmp_path / "begun").exists)
        prefect.cancel(heeds)
        assert prefect.until_state(heeds) == "CANCELLED"


def test_process_that_ends_under_its_flow_run_is_told_as_a_crash_and_a_failure_is_not(prefect: PrefectServer) -> None:
    pool = f"stock-{uuid4().hex[:8]}"
    prefect.pool(pool)
    killed = prefect.trigger(prefect.deploy(pool, f"{FLOWS}.kills_its_process"))
    fails = prefect.trigger(prefect.deploy(pool, f"{FLOWS}.raises"))
    with prefect.worker(pool, CAIRN_ENGINE="stock"):
        assert prefect.until_state(killed) == "CRASHED"
        assert prefect.until_state(fails) == "FAILED"
        prefect.until_logged(pool, "on purpose")  # its process has ended
        until(lambda: any("could not be executed" in line for line in prefect.logs(killed)), 20)
        assert not any("could not be executed" in line for line in prefect.logs(fails))
        assert prefect.states(fails)[-2:] == ["Running", "Failed"]


@pytest.mark.parametrize("cancelled", [True, False])
def test_quick_run_that_its_worker_called_cancelled_before_it_began_does_nothing(
    prefect: PrefectServer, tmp_path: Path, cancelled: bool
) -> None:
    """Also after it was cancelled and retried, it does its work."""
    pool = f"stock-{uuid4().hex[:8]}"
    prefect.pool(pool)
    run = prefect.trigger(prefect.deploy(pool, f"{FLOWS}.registers"), path=str(tmp_path / "asked"))
    for state in ("CANCELLED", "SCHEDULED", "PENDING", *(["CANCELLED"] if cancelled else [])):
        body = {"state": {"type": state}, "force": True}
        prefect.http.post(f"/flow_runs/{run}/set_state", json=body).raise_for_status()
    prefect.run_module("prefect.engine", run)
    assert (prefect.state(run), (tmp_path / "asked").exists()) == (
        ("CANCELLED", False) if cancelled else ("FAILED", True)
    )
