"""What `cairn worker start` runs: the worker of a pool, its beacon to the domain, and the zygote that forks runs."""

import asyncio
import logging
import os
import socket
import sys
import time
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any
from uuid import uuid4

import httpx

from deployments.pools import JOB_TEMPLATE
from deployments.stack.postgres import as_user
from deployments.stack.supervisor import MARKER
from deployments.workers.draining import Draining
from deployments.workers.hearing import hear_of_runs
from domain.shared.loop_lag import LoopLag
from flows.handlers.registry import registry
from flows.pools import INLINE, POOLS, PROCESS
from flows.runs.domain_client import domain_http
from flows.settings import WorkerSettings
from flows.tries.fork_client import ADDRESS
from flows.tries.workdir import SURELY_LOCKED_SECONDS, sweep

log = logging.getLogger("cairn.worker")
BEACON_SECONDS = 10.0
FIRST_LOOK_SECONDS = 0.2
ZYGOTE_SECONDS = 30.0
SHORT_LIFE_SECONDS = 5.0
LONGEST_PAUSE_SECONDS = 30.0
SWEEP_SECONDS = 600.0
# A zygote has no credential: each fork brings the environment of its run.
PLACES = ("PATH", "HOME", "LANG", "TZ", "TMPDIR", "PYTHONPATH", "PREFECT_HOME", "CAIRN_WORKFLOWS_DIR")
ZYGOTE_KEEPS = (*PLACES, ADDRESS, MARKER)


def default_name(pool: str) -> str:
    """Return the name of a machine's only worker of a pool."""
    return f"{pool}-{socket.gethostname()}"


async def serve(pool: str, name: str, limit: int | None, *, with_healthcheck: bool) -> None:
    """Work until told to end."""
    settings = WorkerSettings()
    settings.refuse_plain_http("PREFECT_API_URL", os.environ.get("PREFECT_API_URL", ""))
    is_forking = POOLS[pool].worker_type == PROCESS
    if is_forking:
        os.environ.setdefault(ADDRESS, f"cairn-zygote-{uuid4().hex}")
    worker = _worker(pool, name, limit)
    lag = LoopLag()
    told = (send_beacons(worker, pool, settings, lag), hear_of_runs(worker, pool, settings))
    beside: list[Coroutine[Any, Any, None]] = [lag.watch(), *told, keep_swept()]
    if is_forking:
        beside.append(keep_zygote(pool))
    tasks = [asyncio.create_task(work) for work in beside]
    try:
        if is_forking:
            await _until_zygote()
        await worker.start(with_healthcheck=with_healthcheck)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _worker(pool: str, name: str, limit: int | None) -> Draining:
    """`cairn deploy` makes the pools: a worker that made one would not know its template."""
    given: dict[str, Any] = {"name": name, "limit": limit, "create_pool_if_not_found": False}
    if POOLS[pool].worker_type == INLINE:
        from deployments.workers.inline import InlineWorker

        os.environ.setdefault(JOB_TEMPLATE, InlineWorker.type)  # its runs have the worker's environment
        return InlineWorker(pool, **given)
    from deployments.workers.forking import ForkingWorker

    return ForkingWorker(pool, **given)


async def send_beacons(worker: Draining, pool: str, settings: WorkerSettings, lag: LoopLag) -> None:
    """Tell the domain that this pool is served, for as long as the worker takes runs, and how late its loop wakes."""
    answered = True
    more = {"handlers": sorted(registry())} | (vars(worker.host) if worker.host else {})
    told: dict[str, Any] = {"worker": worker.name, "at_once": worker.at_once, **more}
    async with domain_http(settings) as http:
        while True:
            if not worker.ready:
                await asyncio.sleep(FIRST_LOOK_SECONDS)
                continue
            try:
                told["loop_lag_seconds"] = lag.worst_seconds
                answer = await http.post(f"/api/v1/pools/{pool}/beacon", json=told)
                arrived = answer.is_success
                if answer.status_code == httpx.codes.UNPROCESSABLE_ENTITY and more:
                    told = {name: value for name, value in told.items() if name not in more}
                    more = {}
                    continue  # a domain of an older release does not ask
            except httpx.HTTPError:
                arrived = False
            if arrived != answered:
                log.warning("the domain takes beacons again" if arrived else "the domain does not take beacons")
            answered = arrived
            await asyncio.sleep(BEACON_SECONDS)


async def keep_swept() -> None:
    """Remove folders of killed tries at the start and again and again."""
    while True:
        await asyncio.to_thread(sweep, time.time() - SURELY_LOCKED_SECONDS)
        await asyncio.sleep(SWEEP_SECONDS)


async def _until_zygote() -> None:
    """Wait for the zygote before the first run. One that does not come up holds no run back for ever."""
    for _ in range(int(ZYGOTE_SECONDS / FIRST_LOOK_SECONDS)):
        with suppress(OSError):
            _, writer = await asyncio.open_unix_connection("\0" + os.environ[ADDRESS])
            writer.close()
            return
        await asyncio.sleep(FIRST_LOOK_SECONDS)
    log.warning("the zygote did not come up; runs start cold")


async def keep_zygote(pool: str) -> None:
    """Keep one zygote running. It ends by itself when the code changes; meanwhile runs start cold.

    In a session of its own, with its forks: a Ctrl-C at the terminal is for the worker, which drains them.
    """
    environment = {name: os.environ[name] for name in ZYGOTE_KEEPS if name in os.environ}
    pause = 0.0
    while True:
        began = time.monotonic()
        process = await asyncio.create_subprocess_exec(
            *as_user(None, "KILL"),
            *(sys.executable, "-m", "deployments.warm.zygote", pool),
            env=environment,
            start_new_session=True,
        )
        try:
            code = await process.wait()
        finally:
            with suppress(ProcessLookupError):
                process.kill()
        pause = min(2 * pause + 0.5, LONGEST_PAUSE_SECONDS) if time.monotonic() - began < SHORT_LIFE_SECONDS else 0.0
        log.warning("the zygote has ended; starting another", extra={"exit_code": code, "pause_seconds": pause})
        await asyncio.sleep(pause)
