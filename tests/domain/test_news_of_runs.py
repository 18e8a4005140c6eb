"""Workers hear at once that runs were made for their pool, whichever process of the domain made them."""

import asyncio
from pathlib import Path
from typing import Any
from uuid import uuid4

from domain.repositories import outbox
from domain.shared.notices import FENCE_CHANNEL
from tests.support.acts import Flow, call, dispatched, started, submit
from tests.support.clock import eventually
from tests.support.platform import Domain, another_domain

LONGEST = 30  # seconds that anybody may wait: an answer within them was not waited out


def hears(domain: Domain, pool: str, seconds: float = LONGEST) -> "asyncio.Task[Any]":
    return asyncio.create_task(call(domain, "worker", "GET", f"/pools/{pool}/sent?wait_seconds={seconds}"))


async def answer(waiting: "asyncio.Task[Any]") -> Any:
    """What was answered before the time was up."""
    return (await asyncio.wait_for(waiting, LONGEST / 2)).json()


async def all_wait(domain: Domain, pool: str) -> None:
    await domain.until_listened(FENCE_CHANNEL)
    await eventually(lambda: any(named == pool for _, named in domain.service.fences._waiting))


async def link(domain: Domain, flow: Flow) -> None:
    await outbox.link(domain.service.database, flow.run_id, 1, uuid4())


async def test_workers_of_a_pool_hear_that_a_run_was_sent_to_it_and_others_do_not(domain: Domain) -> None:
    waiting, other = hears(domain, "light"), hears(domain, "gdal")
    await all_wait(domain, "light")
    await all_wait(domain, "gdal")
    await submit(domain)
    [flow] = await dispatched(domain)
    await link(domain, flow)
    assert await answer(waiting) == {"sent": True}
    assert not other.done()
    domain.service.fences.close()  # as a server does that is told to stop
    assert await answer(other) == {"sent": False}


async def test_worker_hears_of_a_run_that_another_process_sent(domain: Domain, tmp_path: Path) -> None:
    async with another_domain(domain.database, tmp_path) as other:
        waiting = hears(other, "light")
        await domain.until_listened(FENCE_CHANNEL, processes=2)
        await eventually(lambda: len(other.service.fences._waiting))
        await submit(domain)
        [flow] = await dispatched(domain)
        await link(domain, flow)
        assert await answer(waiting) == {"sent": True}


async def test_workers_hear_of_a_child_run_that_its_parent_made_for_their_pool(domain: Domain) -> None:
    await submit(domain)
    parent = await started(domain)
    waiting = hears(domain, "gdal")
    await all_wait(domain, "gdal")
    assert (await parent.say("heartbeat", sent_to="gdal")).is_success
    assert await answer(waiting) == {"sent": True}


async def test_child_run_of_a_fenced_parent_wakes_nobody(domain: Domain) -> None:
    await submit(domain)
    parent = await started(domain)
    parent.token = "of nobody"
    waiting = hears(domain, "gdal", 0.5)
    await all_wait(domain, "gdal")
    assert (await parent.say("heartbeat", sent_to="gdal")).json() == {"stop": True}
    assert await answer(waiting) == {"sent": False}


async def test_worker_that_does_not_wait_is_answered_at_once(domain: Domain) -> None:
    assert await answer(hears(domain, "light", 0)) == {"sent": False}
