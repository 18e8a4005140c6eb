"""The domain, running over a fresh database."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.cluster import TestDatabase
from tests.support.platform import Domain, running_domain


@pytest.fixture
async def domain(shared_database: TestDatabase, tmp_path: Path) -> AsyncIterator[Domain]:
    async with running_domain(shared_database, tmp_path, quota_cache_seconds=0) as running:
        yield running
