"""One Prefect server for all tests of the rollout."""

from collections.abc import Iterator

import pytest

from tests.support.cluster import TestCluster, open_folder
from tests.support.prefect_server import PrefectServer, running_prefect


@pytest.fixture(scope="package")
def prefect_server(cluster: TestCluster) -> Iterator[PrefectServer]:
    with open_folder("prefect") as folder, running_prefect(cluster, folder) as running:
        yield running
