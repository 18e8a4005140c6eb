"""Workers while Prefect is away: none ends, none is taken for hanging, and no run that is taken up ends another."""

import asyncio
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast
from uuid import uuid4

import anyio
import httpx
import pytest
from prefect.workers.base import BaseWorker
from prefect.workers.process import ProcessWorker

from deployments.workers import draining
from deployments.workers.draining import Draining
from deployments.workers.forking import ForkingWorker
from deployments.workers.inline import InlineWorker
from tests.support.prefect_server import PATIENCE_SECONDS, REPOSITORY

SILENT = httpx.ReadTimeout("silent")


def worker(kind: type[Draining]) -> Any:
    return kind("pool", name="worker", limit=2)


@pytest.mark.parametrize("kind", [InlineWorker, ForkingWorker])
@pytest.mark.parametrize("how", ["silent", "refused"])
async def test_worker_that_waits_for_prefect_is_healthy_and_goes_on(
    kind: type[Draining], how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever asks for its health restarts it otherwise, with all runs that it has."""

    async def no_answer(_: object) -> Any:
        if how == "refused":
            raise httpx.ConnectError("refused")
        await asyncio.Event().wait()

    monkeypatch.setattr(BaseWorker, "_get_scheduled_flow_runs", no_answer)
    monkeypatch.setattr(draining, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(draining, "OUTAGE_PAUSE_SECONDS", 0.0)
    made = worker(kind)
    made._has_successfully_synced = True
    made._last_polled_time = datetime.now(UTC) - timedelta(days=1)
    assert await made.get_and_submit_flow_runs() == []
    assert made.is_worker_still_polling(query_interval_seconds=10)


@pytest.mark.parametrize("fault", [SILENT, RuntimeError("anything")])
async def test_a_run_that_cannot_be_taken_up_ends_no_worker(fault: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(_: object, __: object) -> None:
        raise fault

    monkeypatch.setattr(ProcessWorker, "_submit_run", fails)
    made = worker(ForkingWorker)
    made._limiter = anyio.CapacityLimiter(1)
    run = cast("Any", SimpleNamespace(id=uuid4(), parameters={}))
    made.limiter.acquire_on_behalf_of_nowait(run.id)
    made._submitting_flow_run_ids.add(run.id)
    async with anyio.create_task_group() as runs:
        runs.start_soon(made._submit_run, run)
    assert made.limiter.available_tokens == 1
    assert made._submitting_flow_run_ids == set()


def test_worker_that_was_told_to_end_ends_whatever_its_threads_wait_for() -> None:
    """Its threads that talk to Prefect would keep the interpreter for as long as that says nothing."""
    script = """
import threading
from deployments.workers import draining
draining.WORKER_ENDED_SECONDS = 0.1
draining._exit_after_deadline()
threading.Thread(target=threading.Event().wait).start()
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=REPOSITORY, timeout=PATIENCE_SECONDS, check=False)
    assert done.returncode == 0
