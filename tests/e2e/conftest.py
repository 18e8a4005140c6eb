"""One embedded stack for all stories."""

from collections.abc import Iterator

import pytest

from tests.support.cluster import open_folder
from tests.support.stack import RunningStack


@pytest.fixture(scope="session")
def stack() -> Iterator[RunningStack]:
    with open_folder("stack") as folder:
        running = RunningStack(folder)
        started = running.cairn("up", "--detach", "--json")
        assert started.returncode == 0, started.stderr
        try:
            yield running
        finally:
            running.cairn("down")
        assert running.processes() == []
