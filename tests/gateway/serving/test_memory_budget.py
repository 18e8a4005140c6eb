"""Memory for pixels is shared: nobody gets more than there is, everybody gets their turn, and none is lost."""

import asyncio
import random

import pytest

from gateway.serving.memory_budget import MemoryBudget
from gateway.serving.problems import ReaderProblem

LONG = 600.0


async def settled() -> None:
    """Everybody who can go on has."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_reader_without_room_waits_for_its_turn() -> None:
    budget, order = MemoryBudget(10, 10, LONG), list[str]()
    leave = {name: asyncio.Event() for name in "abc"}

    async def read(name: str, size: int) -> None:
        async with budget.share(size):
            order.append(name)
            await leave[name].wait()

    tasks = [asyncio.create_task(read(name, size)) for name, size in (("a", 6), ("b", 6), ("c", 1))]
    await settled()
    assert order == ["a"]  # c would fit, and waits behind b: else small ones kept a large one waiting for ever
    leave["a"].set()
    await settled()
    assert order == ["a", "b", "c"]
    for name in "bc":
        leave[name].set()
    await asyncio.gather(*tasks)
    assert budget.free_bytes == 10


async def test_reader_that_waits_too_long_is_told_to_retry_and_holds_up_nobody() -> None:
    budget = MemoryBudget(10, 10, 0)
    async with budget.share(6):
        with pytest.raises(ReaderProblem) as told:
            async with budget.share(6):
                raise AssertionError
        assert (told.value.status, told.value.code) == (503, "busy")
        assert told.value.headers == {"Retry-After": "5"}
        async with budget.share(4):
            assert budget.free_bytes == 0
    assert budget.free_bytes == 10


async def test_reader_cancelled_at_its_turn_leaves_the_room_to_the_next() -> None:
    budget = MemoryBudget(10, 10, 5.0)

    async def read() -> None:
        async with budget.share(10):
            pass

    async with budget.share(10):
        gone, there = asyncio.create_task(read()), asyncio.create_task(read())
        await settled()
    gone.cancel()  # its turn has just come, and it does not know yet
    await asyncio.gather(gone, there, return_exceptions=True)
    assert (gone.cancelled(), there.exception(), budget.free_bytes) == (True, None, 10)


async def test_no_room_is_lost_when_readers_fail_or_leave() -> None:
    budget, chance = MemoryBudget(10, 10, LONG), random.Random(7)  # noqa: S311 - a seed, no secret
    most = 0

    async def read(size: int) -> None:
        nonlocal most
        async with budget.share(size):
            most = max(most, 10 - budget.free_bytes)
            await asyncio.sleep(0)
            if size % 3 == 0:
                raise ValueError

    tasks = [asyncio.create_task(read(chance.randint(1, 10))) for _ in range(300)]
    for task in tasks:
        if chance.random() < 0.3:
            await asyncio.sleep(0)
            task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert {type(result) for result in results} == {type(None), ValueError, asyncio.CancelledError}
    assert (budget.free_bytes, most <= 10) == (10, True)


async def test_readers_do_not_wait_behind_another_readers_queue() -> None:
    """Two at a time are one reader's; whoever comes after its queue does not wait for it."""
    budget, order, go_on = MemoryBudget(100, 60, LONG, at_a_time=2), list[str](), asyncio.Event()

    async def read(name: str, reader: str, size: int) -> None:
        async with budget.share(size, reader):
            order.append(name)
            await go_on.wait()

    greedy = [asyncio.create_task(read(f"greedy-{number}", "a", 5)) for number in range(20)]
    await settled()
    assert order == ["greedy-0", "greedy-1"]
    others = [asyncio.create_task(read(name, name, 10)) for name in "bc"]
    await settled()
    assert order[2:] == ["b", "c"]
    go_on.set()
    await asyncio.gather(*greedy, *others)
    assert (budget.free_bytes, len(order), budget._under_way) == (100, 22, {})


async def test_large_requests_of_one_reader_come_one_by_one() -> None:
    budget = MemoryBudget(80, 60, 0, at_a_time=9)
    async with budget.share(60, "a"):  # one alone may need more than an eighth
        with pytest.raises(ReaderProblem):
            async with budget.share(1, "a"):
                raise AssertionError
        async with budget.share(20, "b"):
            pass
    async with budget.share(5, "a"), budget.share(5, "a"):
        with pytest.raises(ReaderProblem):
            async with budget.share(1, "a"):
                raise AssertionError
    async with budget.share(60), budget.share(20):  # nobody says who reads: all do
        assert budget.free_bytes == 0
