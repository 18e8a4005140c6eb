"""What readers elsewhere have: the front door as a server on loopback, with domain and serving behind it."""

from collections.abc import AsyncIterator

import pytest

from tests.support.cluster import TestCluster, open_folder
from tests.support.console import Assembly, running_console


@pytest.fixture(scope="module")
async def assembly(cluster: TestCluster) -> AsyncIterator[Assembly]:
    with cluster.database() as database, open_folder("readers") as storage:
        async with running_console(database, storage) as running:
            yield running
