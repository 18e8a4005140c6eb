"""Fixtures for every room: a real PostgreSQL with fresh databases, whole stacks, an emulator of Azure Storage."""

import gc
import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from httpx._transports import default as transports
from hypothesis import HealthCheck, settings

from flows.storage import off_loop
from tests.support import lending, made_once
from tests.support.azurite import Azurite, running_azurite
from tests.support.cluster import TestCluster, TestDatabase, running_cluster
from tests.support.loops import is_tests_own_call
from tests.support.outage_table import ROWS, table
from tests.support.routes import remember_routes
from tests.support.trust import remembering

if TYPE_CHECKING:
    from tests.support.engine_chaos import Trial
    from tests.support.prefect_server import PrefectServer
    from tests.support.stack import RunningStack

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
remember_routes()
vars(transports)["create_ssl_context"] = remembering(vars(transports)["create_ssl_context"])


def pytest_configure(config: pytest.Config) -> None:
    """Processes side by side share what is made once."""
    if not hasattr(config, "workerinput"):
        config.add_cleanup(made_once.begin())


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """No garbage is looked for while tests are imported: there is none. Later searches leave out what was imported."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Side by side, what takes minutes comes first, then whatever else starts whole stacks."""
    if hasattr(config, "workerinput"):  # of xdist
        from tests.support.side_by_side import rank_of, unit_of

        starts = {item: bool(item.get_closest_marker("stack") or BENCHMARKS in item.path.parents) for item in items}
        items.sort(key=lambda item: (rank_of(unit_of(item.nodeid)), not starts[item]))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What the outages of this run came to, where there were some."""
    if ROWS:
        terminalreporter.section("outages")
        for line in table():
            terminalreporter.write_line(line)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that fails on a whole stack is reported with what that stack was doing."""
    report = yield
    if report.when == "call" and report.failed:
        from tests.support.stack_account import account

        report.sections += [("the stack", account(stack)) for stack in _stacks_of(item)]
    return report


def _stacks_of(item: pytest.Item) -> list["RunningStack"]:
    given = getattr(item, "funcargs", {})
    found = [given[name] for name in ("shared_stack", "impatient_stack") if name in given]
    return [getattr(made, "stack", made) for made in found]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Of `--dist loadfile`: as it is, but files that share a server stay together."""
    if config.getoption("dist") != "loadfile":
        return None
    from tests.support.side_by_side import Together

    return Together(config, log)


@pytest.hookimpl(trylast=True)  # what tests made with it is undone first
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    lending.give_back(item, nextitem)


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


@pytest.fixture(scope="module")
def shared_stack() -> "RunningStack":
    """One embedded stack for all tests of whole stories. It ends with the last of them."""
    from tests.support.shared_stacks import for_stories

    return lending.lent("shared_stack", for_stories)


@pytest.fixture(scope="module")
def impatient_stack() -> "Trial":
    """One with short patience, for tests that break its parts."""
    from tests.support.shared_stacks import with_short_patience

    return lending.lent("impatient_stack", with_short_patience)


@pytest.fixture(scope="session")
def lending_cluster(cluster: TestCluster) -> Iterator[TestCluster]:
    """The cluster for what is lent: at the session's end that is ended first, whose databases are here."""
    yield cluster
    lending.end_all_but(())


@pytest.fixture(scope="module")
def workers_prefect(lending_cluster: TestCluster) -> "PrefectServer":
    """The Prefect server of tests that start workers of their own, each with pools of its own."""
    from tests.support.prefect_server import running_prefect

    return lending.lent("workers_prefect", lambda: running_prefect(lending_cluster))


@pytest.fixture(scope="session")
def azurite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Azurite]:
    with running_azurite(tmp_path_factory.mktemp("azurite")) as running:
        yield running
