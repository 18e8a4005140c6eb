"""Several things at once: where one fails, what becomes of the others."""

import asyncio

import pytest

from domain.shared.together import each_to_its_end, together


class Works:
    """Works that note how they ended."""

    def __init__(self) -> None:
        self.ended: list[str] = []
        self.begun = asyncio.Event()

    async def fails(self) -> int:
        await self.begun.wait()
        raise OSError("gone")

    async def lasts(self, seconds: float) -> int:
        self.begun.set()
        try:
            await asyncio.sleep(seconds)
            self.ended.append("done")
        except asyncio.CancelledError:
            await asyncio.sleep(0.01)  # it needs a moment to leave
            self.ended.append("cancelled")
            raise
        return 1


async def test_failure_of_one_cancels_the_others_and_waits_for_them() -> None:
    works = Works()
    with pytest.raises(OSError, match="gone"):
        await together(works.fails(), works.lasts(600))
    assert works.ended == ["cancelled"]


async def test_failure_of_one_is_raised_after_the_others_have_ended() -> None:
    works = Works()
    with pytest.raises(OSError, match="gone"):
        await each_to_its_end([works.fails(), works.lasts(0.05)])
    assert works.ended == ["done"]


async def test_results_are_returned_in_the_order_of_their_tasks() -> None:
    works = Works()
    assert await together(works.lasts(0.02), works.lasts(0)) == [1, 1]
    assert await each_to_its_end([works.lasts(0.02), works.lasts(0)]) == [1, 1]


async def test_cancelling_the_group_cancels_every_task() -> None:
    works = Works()
    both = asyncio.create_task(together(works.lasts(600), works.lasts(600)))
    await works.begun.wait()
    both.cancel()
    with pytest.raises(asyncio.CancelledError):
        await both
    assert works.ended == ["cancelled", "cancelled"]
