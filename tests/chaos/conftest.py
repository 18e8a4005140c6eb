"""Processes are killed here, and tables stay what they are: one database, emptied after each test, does for all."""

import pytest

from tests.support.cluster import TestDatabase


@pytest.fixture
def database(shared_database: TestDatabase) -> TestDatabase:
    return shared_database
