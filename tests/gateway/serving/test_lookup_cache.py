"""What is remembered is young, bounded, and gone with the next decision, also where that comes in between."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from gateway.serving.lookup_cache import LookupCache


class Source:
    """A fact that changes, and a count of who asked for it."""

    def __init__(self) -> None:
        self.fact: str | None = "first"
        self.asked = 0

    async def __call__(self) -> str | None:
        self.asked += 1
        return self.fact


async def test_an_answer_is_remembered_until_it_is_old() -> None:
    now, source = [0.0], Source()
    memory = LookupCache(1.0, 10, lambda: now[0])
    for moment, asked in ((0.0, 1), (0.99, 1), (1.0, 2), (1.5, 2)):
        now[0] = moment
        assert await memory.recall("key", source) == "first"
        assert source.asked == asked


async def test_missing_answer_is_not_remembered() -> None:
    source = Source()
    source.fact = None
    memory = LookupCache(1.0, 10)
    assert await memory.recall("key", source) is None
    source.fact = "there"
    assert await memory.recall("key", source) == "there"


async def test_an_answer_from_before_the_news_is_not_kept() -> None:
    memory, gate = LookupCache(60.0, 10), asyncio.Event()

    async def slow() -> str:
        await gate.wait()
        return "before"

    waiting = asyncio.create_task(memory.recall("key", slow))
    await asyncio.sleep(0)
    memory.forget()
    gate.set()
    assert await waiting == "before"  # whoever asked before the decision may hear of the state before
    source = Source()
    assert await memory.recall("key", source) == "first"


@given(st.lists(st.integers(0, 20), max_size=60))
def test_memory_holds_a_bounded_number_of_answers(keys: list[int]) -> None:
    memory = LookupCache(60.0, 5)

    async def ask(key: int) -> int:
        return key * 2

    async def all_of_them() -> None:
        for key in keys:
            assert await memory.recall(key, lambda key=key: ask(key)) == key * 2  # type: ignore[misc]

    asyncio.run(all_of_them())
    assert len(memory._kept) <= 5


async def test_memory_of_zero_seconds_remembers_nothing() -> None:
    source, memory = Source(), LookupCache(0.0, 10, lambda: 0.0)
    for asked in (1, 2):
        await memory.recall("key", source)
        assert source.asked == asked
