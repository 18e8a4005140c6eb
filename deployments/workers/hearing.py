"""Hears from the domain that flow runs were made for the worker's pool, so that it asks Prefect seldom."""

import asyncio
import logging
import time

import httpx

from deployments.workers.draining import Draining
from flows.runs.domain_client import LONGEST_HOLD_SECONDS, domain_http
from flows.settings import WorkerSettings

log = logging.getLogger("cairn.worker")
LEAST_SECONDS = 0.1  # between two looks, whatever is told: each costs Prefect's server as much as a run's beginning
AGAIN_SECONDS = 2.0


async def hear_of_runs(worker: Draining, pool: str, settings: WorkerSettings) -> None:
    """Have the worker look the moment the domain says so. While it does not answer, the worker looks all the time."""
    hold_seconds = 0.0  # the first question is answered at once: whether the domain tells at all
    async with domain_http(settings) as http:
        while True:
            asked_at = time.monotonic()
            sent = await _sent(http, pool, hold_seconds)
            worker.looks.is_told = sent is not None
            if sent:
                worker.looks.hurry()
                try:
                    await worker.look_now()
                except Exception:  # its own rounds meet the same, and decide what follows from it
                    log.warning("a look for runs failed", exc_info=True)
            early = time.monotonic() < asked_at + hold_seconds
            hold_seconds = 0.0 if sent is None else LONGEST_HOLD_SECONDS
            await asyncio.sleep(LEAST_SECONDS if sent else AGAIN_SECONDS if sent is None or early else 0)


async def _sent(http: httpx.AsyncClient, pool: str, hold_seconds: float) -> bool | None:
    """Whether runs were sent; None where the domain does not say."""
    try:
        answer = await http.get(f"/api/v1/pools/{pool}/sent", params={"wait_seconds": hold_seconds})
        return bool(answer.raise_for_status().json()["sent"])
    except (httpx.HTTPError, ValueError, KeyError, TypeError):
        return None
