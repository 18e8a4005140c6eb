"""How many workers serve a pool: as many processes may share a fan-out's items. Prefect knows those of all kinds."""

import asyncio
import time
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import httpx
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.filters import WorkerFilter, WorkerFilterStatus
from prefect.exceptions import ObjectNotFound, PrefectHTTPStatusError

from flows.pools import INLINE, PROCESS

KNOWN_SECONDS = 10.0
ANSWER_SECONDS = 5.0
MOST = 200


@dataclass
class ServingWorkers:
    """What Prefect said last of each pool, for all runs of a process. Where it does not say, one worker serves it."""

    _known: dict[str, tuple[float, int]] = field(default_factory=dict)

    async def serving(self, prefect: PrefectClient, pool: str, containers: int) -> int:
        """How many workers take runs of the pool; for pools whose workers start containers, as many as are given."""
        asked_at, known = self._known.get(pool, (0.0, 1))
        now = time.monotonic()
        if now - asked_at < KNOWN_SECONDS:
            return known
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                known = await _asked(prefect, pool, containers)
        except (httpx.HTTPError, PrefectHTTPStatusError, ObjectNotFound, TimeoutError):
            return known
        self._known[pool] = now, known
        return known


async def _asked(prefect: PrefectClient, pool: str, containers: int) -> int:
    found = await prefect.read_work_pool(pool)
    if found.type not in {INLINE, PROCESS}:
        return containers
    online = WorkerFilter(status=WorkerFilterStatus(any_=["ONLINE"]))
    workers = await prefect.read_workers_for_work_pool(pool, worker_filter=online, limit=MOST)
    return max(1, len(workers))


_of_loops: WeakKeyDictionary[asyncio.AbstractEventLoop, ServingWorkers] = WeakKeyDictionary()


def known_workers() -> ServingWorkers:
    """What is known in this event loop, in which all runs of a worker are."""
    return _of_loops.setdefault(asyncio.get_running_loop(), ServingWorkers())
