"""One embedded stack for all stories."""

from collections.abc import Iterator

import pytest

from tests.support.stack import RunningStack


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStack]:
    running = RunningStack(tmp_path_factory.mktemp("stack"))
    started = running.cairn("up", "--detach", "--json")
    assert started.returncode == 0, started.stderr
    try:
        yield running
    finally:
        running.cairn("down")
    assert running.processes() == []
