"""The domain, running over a fresh database."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.support.cluster import TestDatabase
from tests.support.lock_order import LockOrder, watched
from tests.support.platform import Domain, running_domain


@pytest.fixture(autouse=True)
def lock_order() -> Iterator[LockOrder]:
    """Whatever a test has the domain do, it locks rows in the one order."""
    with watched() as order:
        yield order
    assert order.faults == []


@pytest.fixture
async def domain(shared_database: TestDatabase, tmp_path: Path) -> AsyncIterator[Domain]:
    async with running_domain(shared_database, tmp_path, quota_cache_seconds=0) as running:
        yield running
