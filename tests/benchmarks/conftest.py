"""Benchmarks in tests prove what they measure, not how much it is: what only steadies their figures is left out."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from benchmarks import _load, dispatch, engine, gateway, serving, stac, strangers, submit, vector, workers
from benchmarks._servers import DATABASE, Postgres
from benchmarks._stack import BenchStack
from deployments.stack.postgres import ADMIN
from deployments.stack.state import StackState
from tests.support.clock import until
from tests.support.cluster import TestCluster, TestDatabase
from tests.support.stack import RunningStack

UNDER_WAY = {"flow_runs": {"state": {"type": {"any_": ["SCHEDULED", "PENDING", "RUNNING"]}}}}


@pytest.fixture(autouse=True)
def unsteady(monkeypatch: pytest.MonkeyPatch) -> None:
    """No time to make thousands of tasks before the first is due, to warm up, or to spread few runs over."""
    monkeypatch.setattr(_load, "LEAD_SECONDS", 0.1)
    monkeypatch.setattr(_load, "WARM_UP", 2)
    monkeypatch.setattr(gateway, "SHORT_OVERLOAD_SECONDS", 1.0)
    monkeypatch.setattr(dispatch, "WARM_UP_SECONDS", 0.5)
    monkeypatch.setattr(dispatch, "RUSH_SECONDS", 1.0)
    monkeypatch.setattr(workers, "ADVANCE_SECONDS", 0.5)


@dataclass(frozen=True)
class Borrowed(Postgres):
    """The tests' own cluster as a benchmark's, with a database for this benchmark alone."""

    database: TestDatabase

    def url(self, role: str = ADMIN, database: str = DATABASE) -> str:
        name = self.database.name if database == DATABASE else database
        return TestDatabase(self.database.cluster, name).url(role)


@pytest.fixture(autouse=True)
def in_the_tests_cluster(cluster: TestCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """None makes a cluster of its own; `tests/e2e/test_stack.py` shows that one is started and ended."""

    @contextmanager
    def borrowed() -> Iterator[Postgres]:
        with cluster.database() as database:
            yield Borrowed(0, "", database)

    for bench in (dispatch, gateway, serving, stac, strangers, submit, vector):
        monkeypatch.setattr(bench, "postgres", borrowed)


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
