"""The gateway in front of the domain, over a database that is emptied after each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.gateway.world import add_people
from tests.support.cluster import TestDatabase
from tests.support.platform import Platform, running_platform


@pytest.fixture
def database(shared_database: TestDatabase) -> TestDatabase:
    """No test of the gateway changes what a table is: one that is emptied after each does for all."""
    return shared_database


@pytest.fixture
async def platform(database: TestDatabase, tmp_path: Path) -> AsyncIterator[Platform]:
    async with running_platform(database, tmp_path) as running:
        add_people(running)
        yield running
