"""What an engineer would write without us: the same work as Prefect flows by hand, with all that ours have on.

Tasks are retried, limited in time, and their results kept, under Prefect's default cache policy: it lets a retried flow
run skip what has succeeded (without a policy, Prefect keeps no result at all). No domain, no records of our own.
"""

import asyncio
from typing import Any

from prefect import flow, task

RETRIES = 3
TIMEOUT_SECONDS = 60
kept = {
    "retries": RETRIES,
    "retry_delay_seconds": 1,
    "timeout_seconds": TIMEOUT_SECONDS,
    "persist_result": True,
    "result_serializer": "json",
}


@task(**kept)  # type: ignore[call-overload,untyped-decorator]
async def work(x: int) -> dict[str, Any]:
    return {"echoed_params": {"x": x}}


@task(retries=RETRIES, retry_delay_seconds=1, timeout_seconds=TIMEOUT_SECONDS)
async def forgetful_work(x: int) -> dict[str, Any]:
    return {"echoed_params": {"x": x}}


@task(**kept)  # type: ignore[call-overload,untyped-decorator]
def documented_work(x: int) -> dict[str, Any]:
    return {"echoed_params": {"x": x}}


@flow
async def gather(count: int) -> int:
    """The fastest fan-out that we know how to write: one process, one event loop, no threads."""
    return len(await asyncio.gather(*(work(x) for x in range(count))))


@flow
async def gather_forgetting(count: int) -> int:
    """Gather without keeping results, to measure what keeping them costs. A retry begins anew."""
    return len(await asyncio.gather(*(forgetful_work(x) for x in range(count))))


@flow
async def documented_map(count: int) -> int:
    """A fan-out as Prefect's documentation shows it."""
    futures = documented_work.map(range(count))
    return len([future.result() for future in futures])


@flow
async def chain(count: int) -> int:
    """Run one task after the other, each given what the one before returned."""
    x = 0
    for _ in range(count):
        x = (await work(x))["echoed_params"]["x"] + 1
    return x


FLOWS = {made.fn.__name__: made for made in (gather, gather_forgetting, documented_map, chain)}
