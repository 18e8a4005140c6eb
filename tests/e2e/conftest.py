"""One embedded stack for all stories. It ends with them: idle, it would take time from what comes after."""

from collections.abc import Iterator

import pytest

from tests.support.cluster import open_folder
from tests.support.stack import RunningStack, with_workflows


@pytest.fixture(scope="package")
def stack() -> Iterator[RunningStack]:
    with open_folder("stack") as folder:
        with with_workflows(folder, {}).up() as running:
            yield running
        assert running.processes() == []
