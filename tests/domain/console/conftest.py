"""One browser for all, one assembly for each file."""

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from playwright.async_api import Browser

from tests.support.browsing import chromium
from tests.support.cluster import TestCluster, TestDatabase, open_folder
from tests.support.console import Assembly, running_console


@pytest.fixture(scope="session")
def artifacts() -> Path | None:
    """Where screenshots go: made only if CAIRN_ARTIFACTS names a folder."""
    kept = os.environ.get("CAIRN_ARTIFACTS")
    if kept:
        Path(kept).mkdir(parents=True, exist_ok=True)
    return Path(kept) if kept else None


@pytest.fixture(scope="session")
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as launched:
        yield launched


@pytest.fixture(scope="module")
def console_database(cluster: TestCluster) -> Iterator[TestDatabase]:
    with cluster.database() as fresh:
        yield fresh


@pytest.fixture(scope="module")
async def assembly(console_database: TestDatabase) -> AsyncIterator[Assembly]:
    with open_folder("console") as storage:
        async with running_console(console_database, storage) as running:
            yield running
