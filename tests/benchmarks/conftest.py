"""Benchmarks in tests prove what they measure, not how much it is: what only steadies their figures is left out."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks import _load, dispatch, engine, workers
from benchmarks._stack import BenchStack
from deployments.stack.state import StackState
from tests.support.clock import until
from tests.support.stack import RunningStack

UNDER_WAY = {"flow_runs": {"state": {"type": {"any_": ["SCHEDULED", "PENDING", "RUNNING"]}}}}


@pytest.fixture(autouse=True)
def unsteady(monkeypatch: pytest.MonkeyPatch) -> None:
    """No time to make thousands of tasks before the first is due, to warm up, or to spread few runs over."""
    monkeypatch.setattr(_load, "LEAD_SECONDS", 0.1)
    monkeypatch.setattr(dispatch, "WARM_UP_SECONDS", 0.5)
    monkeypatch.setattr(dispatch, "RUSH_SECONDS", 1.0)
    monkeypatch.setattr(workers, "ADVANCE_SECONDS", 0.5)


@pytest.fixture
def on_shared_stack(shared_stack: RunningStack, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """On the stack that others share; `tests/e2e/test_stack.py` shows that a benchmark starts and ends its own."""
    folder = Path(shared_stack.settings["CAIRN_WORKFLOWS_DIR"])

    @contextmanager
    def running(workflows: Mapping[str, str]) -> Iterator[BenchStack]:
        assert {name: (folder / f"{name}.yaml").read_text() for name in workflows} == dict(workflows)
        yield BenchStack(StackState(shared_stack.folder))

    for bench in (engine, workers):
        monkeypatch.setattr(bench, "running_stack", running)
    yield
    with shared_stack.prefect() as http:  # what is left over has waited for this pool
        http.patch("/work_pools/gdal", json={"is_paused": False}).raise_for_status()
        until(lambda: http.post("/flow_runs/count", json=UNDER_WAY).raise_for_status().json() == 0)
