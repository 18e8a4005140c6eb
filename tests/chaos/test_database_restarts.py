"""PostgreSQL dies and comes back under load: what was acknowledged is there, and everything goes on by itself.

Two domain processes with their relays. CAIRN_CHAOS_RUNS is the number of restarts, five at least; n is printed.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support.chaos import SCALES, Platform, platform
from tests.support.cluster import running_cluster

pytestmark = pytest.mark.chaos
FULL = int(os.environ.get("CAIRN_CHAOS_RUNS", "0"))
RESTARTS = max(5, FULL) if FULL else 1
CLIENTS = 8
LOAD_SECONDS = 1.5
AWAY_SECONDS = 1.0


async def test_a_crash_of_the_database_loses_nothing_acknowledged(tmp_path: Path) -> None:
    """Clients ask again while the answer is 503, as the gateway has partners do; any other fault fails them."""
    with running_cluster() as cluster, cluster.database() as database:
        async with platform(database, tmp_path) as made:
            pair = [*made.processes, await made.start()]
            outages = []
            for _ in range(RESTARTS):
                async with load(made):
                    await asyncio.sleep(LOAD_SECONDS)
                    began = time.monotonic()
                    await asyncio.to_thread(cluster.server.crash)
                    await asyncio.sleep(AWAY_SECONDS)
                    await asyncio.to_thread(cluster.server.start)
                    await made.submit()
                    outages.append(time.monotonic() - began)
                    await asyncio.sleep(LOAD_SECONDS)
            back = time.monotonic()
            await made.rest()
            told = f"n = {RESTARTS} restarts, {len(made.journal)} runs ({SCALES})"
            print(f"\n{told}, longest outage {max(outages):.1f} s, rest after {time.monotonic() - back:.1f} s")  # noqa: T201
            assert not any(process.dead for process in pair)
            assert made.violations() == {}


@asynccontextmanager
async def load(made: Platform) -> AsyncIterator[None]:
    """Clients that submit one request after the other; each finishes what it has begun."""
    over = asyncio.Event()

    async def client() -> None:
        while not over.is_set():
            await made.submit()

    async with asyncio.TaskGroup() as clients:
        for _ in range(CLIENTS):
            clients.create_task(client())
        yield
        over.set()
