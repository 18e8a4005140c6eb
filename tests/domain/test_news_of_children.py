"""A parent hears at once that a child run has begun, or left its outcome, whichever process of the domain was told."""

import asyncio
from pathlib import Path
from typing import Any

from domain.shared.notices import CHILDREN_CHANNEL, FENCE_CHANNEL
from tests.support.acts import Flow, started, submit
from tests.support.clock import eventually
from tests.support.platform import Domain, another_domain

LONGEST = 30  # seconds that anybody may wait: an answer within them was not waited out


async def parent_and_child(domain: Domain) -> tuple[Flow, Flow]:
    await submit(domain)
    parent = await started(domain)
    return parent, Flow(domain, parent.run_id, parent.token)


def held(flow: Flow, seconds: float = LONGEST, **told: Any) -> "asyncio.Task[Any]":
    return asyncio.create_task(flow.say("heartbeat", wait_seconds=seconds, **told))


async def answer(waiting: "asyncio.Task[Any]") -> Any:
    """What was answered before the time was up."""
    return (await asyncio.wait_for(waiting, LONGEST / 2)).json()


async def all_wait(domain: Domain, count: int) -> None:
    await eventually(lambda: sum(map(len, domain.service.fences._waiting.values())) == count)


async def test_parent_hears_that_its_child_begins_and_that_it_has_left_its_outcome(domain: Domain) -> None:
    await domain.until_listened(FENCE_CHANNEL)
    parent, child = await parent_and_child(domain)
    waiting = held(parent, seen=0)
    await all_wait(domain, 2)
    assert (await child.start(segment=1)).is_success
    assert await answer(waiting) == {"stop": False, "news": 1}
    waiting = held(parent, seen=1)
    await all_wait(domain, 2)
    assert (await child.say("heartbeat", segment=1)).json() == {"stop": False}
    assert (await child.say("heartbeat", segment=1, left_outcome=True)).json() == {"stop": False}
    assert await answer(waiting) == {"stop": False, "news": 2}


async def test_news_between_two_heartbeats_comes_with_the_next_answer(domain: Domain) -> None:
    parent, child = await parent_and_child(domain)
    await child.start(segment=1)
    await child.say("heartbeat", segment=1, left_outcome=True)
    assert await answer(held(parent, seen=1)) == {"stop": False, "news": 2}
    assert (await held(parent, 0.2, seen=2)).json() == {"stop": False, "news": 2}


async def test_news_of_a_child_wakes_only_its_parent(domain: Domain) -> None:
    """Children hold heartbeats open too, and so do parents of older releases: they would ask again for nothing."""
    await domain.until_listened(FENCE_CHANNEL)
    parent, child = await parent_and_child(domain)
    first = held(parent, seen=0)
    await all_wait(domain, 2)
    await child.start(segment=1)
    await answer(first)  # so that what the start had told is heard, and wakes nobody below
    others, hears = [held(child, segment=1), held(parent)], held(parent, seen=1)
    await all_wait(domain, 4)
    await child.say("heartbeat", segment=1, left_outcome=True)
    assert (await answer(hears))["news"] == 2
    for _ in range(3):
        await child.say("heartbeat", segment=1)  # as long as they would need to answer
    assert not any(waiting.done() for waiting in others)
    domain.service.fences.close()  # as a server does that is told to stop
    assert [await answer(waiting) for waiting in others] == [{"stop": False}] * 2


async def test_parent_hears_news_that_another_process_received(domain: Domain, tmp_path: Path) -> None:
    parent, child = await parent_and_child(domain)
    async with another_domain(domain.database, tmp_path) as other:
        await domain.until_listened(FENCE_CHANNEL, processes=2)
        waiting = held(parent, seen=0)
        await all_wait(domain, 2)
        assert (await Flow(other, child.run_id, child.token).start(segment=1)).is_success
        assert await answer(waiting) == {"stop": False, "news": 1}


async def test_news_of_children_hurries_no_sweep(domain: Domain) -> None:
    """Only fences do: in a rush, children begin and end all the time."""
    fences = domain.service.fences
    fences._wake(CHILDREN_CHANNEL, "")
    assert not await fences.heard(0)
    fences._wake(FENCE_CHANNEL, "")
    assert await fences.heard(0)
