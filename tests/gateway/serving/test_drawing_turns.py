"""Places that go around: whoever waits with many requests is no nearer than whoever waits with one."""

import asyncio

import pytest

from gateway.serving.drawing_turns import Turns
from gateway.serving.problems import ReaderProblem

LONG = 600.0


async def settled() -> None:
    """Everybody who can go on has."""
    for _ in range(20):
        await asyncio.sleep(0)


class Readers:
    """Requests that hold their place until they are told to leave it, in the order in which they got one."""

    def __init__(self, turns: Turns) -> None:
        self.turns, self.order = turns, list[str]()
        self._leave: dict[str, asyncio.Event] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def ask(self, *names: str) -> None:
        """The reader is the name's first letter."""
        for name in names:
            self._leave[name] = asyncio.Event()
            self.tasks[name] = asyncio.create_task(self._hold(name))
            await settled()

    async def leave(self, name: str) -> None:
        self._leave[name].set()
        await settled()

    async def _hold(self, name: str) -> None:
        async with self.turns.place(name[0]):
            self.order.append(name)
            await self._leave[name].wait()


async def drained(readers: Readers) -> list[str]:
    """Everybody leaves as soon as they have had their place."""
    left = 0
    while left < len(readers.order):
        await readers.leave(readers.order[left])
        left += 1
    return readers.order


async def test_places_rotate_among_readers_whatever_each_has_waiting() -> None:
    readers = Readers(Turns(1, LONG))
    await readers.ask("a1", "a2", "a3", "a4", "b1", "b2", "c1")
    assert readers.order == ["a1"]
    assert await drained(readers) == ["a1", "a2", "b1", "c1", "a3", "b2", "a4"]
    assert readers.turns.free == 1


async def test_as_many_go_on_as_there_are_places() -> None:
    readers = Readers(Turns(2, LONG))
    await readers.ask("a1", "a2", "a3", "b1")
    assert readers.order == ["a1", "a2"]
    await readers.leave("a2")
    await readers.leave("a1")
    assert readers.order == ["a1", "a2", "a3", "b1"]
    await readers.leave("a3")
    await readers.leave("b1")
    assert readers.turns.free == 2


async def test_reader_waiting_too_long_or_with_too_many_is_told_to_retry() -> None:
    turns = Turns(1, 0.0, most_waiting=1)
    async with turns.place("a"):
        with pytest.raises(ReaderProblem, match="Ask again"):
            async with turns.place("b"):
                pass
    readers = Readers(Turns(1, LONG, most_waiting=2))
    await readers.ask("a1", "a2", "a3", "a4", "b1")
    with pytest.raises(ReaderProblem, match="Ask again"):
        await readers.tasks["a4"]
    assert await drained(readers) == ["a1", "a2", "b1", "a3"]
    assert (turns.free, readers.turns.free) == (1, 1)


@pytest.mark.parametrize("has_come", [False, True])
async def test_reader_that_leaves_gives_its_place_to_the_next(has_come: bool) -> None:
    turns = Turns(1, LONG)
    readers = Readers(turns)
    async with turns.place("a"):
        await readers.ask("b1", "c1")
        if not has_come:
            readers.tasks["b1"].cancel()
            await settled()
    readers.tasks["b1"].cancel()  # it may have been given the place, and has not gone on yet
    await settled()
    assert readers.order == ["c1"]
    await readers.leave("c1")
    assert turns.free == 1
