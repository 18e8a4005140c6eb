"""The domain, running over a fresh database."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.cluster import TestDatabase
from tests.support.platform import Domain, running_domain


@pytest.fixture
async def domain(database: TestDatabase, tmp_path: Path) -> AsyncIterator[Domain]:
    async with running_domain(database, tmp_path) as running:
        yield running
