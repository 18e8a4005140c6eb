"""Fixtures for every room: a real PostgreSQL with fresh databases, and a real emulator of Azure Storage."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from flows.storage import off_loop
from tests.support.azurite import Azurite, running_azurite
from tests.support.cluster import TestCluster, TestDatabase, running_cluster
from tests.support.loops import is_tests_own_call

BENCHMARKS = Path(__file__).parent / "benchmarks"
LONG_FORMS = ("CAIRN_MACHINE_RUNS", "CAIRN_TRACES", "CAIRN_FUZZ_CASES", "CAIRN_CHAOS_RUNS")

# Each run draws the same examples, whatever failed before and however slow the machine is; long forms draw others.
settings.register_profile(
    "cairn",
    deadline=None,
    database=None,
    derandomize=not any(name in os.environ for name in LONG_FORMS),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("cairn")
off_loop.is_excused = is_tests_own_call


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Side by side, files that start whole stacks come first: at the end, short ones fill what is left of the time."""
    if hasattr(config, "workerinput"):  # of xdist
        items.sort(key=lambda item: not (item.get_closest_marker("stack") or BENCHMARKS in item.path.parents))


@pytest.fixture(scope="session")
def cluster() -> Iterator[TestCluster]:
    with running_cluster() as running:
        yield running


@pytest.fixture
def shared_database(cluster: TestCluster) -> Iterator[TestDatabase]:
    """An empty database that is used again: for tests that only fill tables."""
    with cluster.shared() as emptied:
        yield emptied


@pytest.fixture
def database(cluster: TestCluster) -> Iterator[TestDatabase]:
    with cluster.database() as fresh:
        yield fresh


@pytest.fixture(scope="session")
def azurite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Azurite]:
    with running_azurite(tmp_path_factory.mktemp("azurite")) as running:
        yield running
