"""Who asks again as soon as it is refused waits for its refusals, and nobody else waits for it."""

import asyncio
import time
from collections import Counter

import httpx
import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from gateway.edge.slow_refusals import BURST_SECONDS, REFUSALS, SlowRefusals

PER_SECOND = 2.0
AT_ONCE = int(PER_SECOND * BURST_SECONDS)
HELD = 0.3
FLOOD, ONE_MORE_OF_IT, ELSEWHERE = "2001:db8:1:2::1", "2001:db8:1:2::ffff", "2001:db8:9:9::1"


class Door:
    """Answers `/429` with 429, and counts how many it is answering."""

    def __init__(self) -> None:
        self.under_way = 0
        self.asked = Counter[str]()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.under_way += 1
        self.asked[scope["client"][0]] += 1
        try:
            await PlainTextResponse("no", int(scope["path"][1:]))(scope, receive, send)
        finally:
            self.under_way -= 1


async def seconds_for(app: SlowRefusals, status: int, address: str) -> float:
    transport = httpx.ASGITransport(app, client=(address, 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway.test") as client:
        began = time.monotonic()
        answer = await client.get(f"/{status}")
        assert (answer.status_code, answer.text) == (status, "no")
        return time.monotonic() - began


async def flood(app: SlowRefusals, count: int, status: int = 429) -> None:
    await asyncio.gather(*(seconds_for(app, status, FLOOD) for _ in range(count)))


@pytest.mark.parametrize("status", sorted(REFUSALS))
async def test_first_refusals_are_told_at_once_and_further_ones_later(status: int) -> None:
    app = SlowRefusals(Door(), PER_SECOND, HELD)
    await flood(app, AT_ONCE, status)
    assert await seconds_for(app, status, ONE_MORE_OF_IT) >= HELD


async def test_a_flood_of_refusals_delays_no_other_network_and_no_answer_but_refusals() -> None:
    app = SlowRefusals(Door(), PER_SECOND, HELD)
    await flood(app, AT_ONCE)
    assert await seconds_for(app, 429, ELSEWHERE) < HELD
    for status in (200, 304, 404, 422, 500, 503):
        assert await seconds_for(app, status, FLOOD) < HELD


async def test_a_refusal_that_is_held_holds_nothing_of_the_application() -> None:
    door = Door()
    app = SlowRefusals(door, PER_SECOND, HELD)
    await flood(app, AT_ONCE)
    async with asyncio.TaskGroup() as group:
        group.create_task(flood(app, 5))
        await asyncio.sleep(HELD / 2)
        assert (door.asked[FLOOD], door.under_way) == (AT_ONCE + 5, 0)


async def test_forty_clients_that_ask_again_at_once_are_refused_forty_times_a_hold() -> None:
    door, until = Door(), time.monotonic() + 4 * HELD
    app = SlowRefusals(door, PER_SECOND, HELD)

    async def ask_again_and_again() -> None:
        while time.monotonic() < until:
            await seconds_for(app, 429, FLOOD)

    await asyncio.gather(*(ask_again_and_again() for _ in range(40)))
    assert door.asked[FLOOD] <= AT_ONCE + 40 * 6  # without holding: thousands


async def test_refusals_beyond_what_is_held_are_told_at_once() -> None:
    app = SlowRefusals(Door(), PER_SECOND, HELD, most_held=3)
    await flood(app, AT_ONCE)
    async with asyncio.TaskGroup() as group:
        group.create_task(flood(app, 3))
        await asyncio.sleep(HELD / 3)
        assert await seconds_for(app, 429, FLOOD) < HELD
