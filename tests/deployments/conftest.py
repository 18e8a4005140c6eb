"""The Prefect server of all tests of the rollout."""

import pytest

from tests.support.cluster import TestCluster
from tests.support.lending import lent
from tests.support.prefect_server import PrefectServer, running_prefect


@pytest.fixture(scope="module")
def prefect_server(lending_cluster: TestCluster) -> PrefectServer:
    return lent("prefect_server", lambda: running_prefect(lending_cluster))
