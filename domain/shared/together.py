"""Runs several tasks at once and leaves none unattended. Shared by all rooms: it knows none of them.

`asyncio.gather` returns with the first failure and lets the others run on, watched by nobody: what they change
afterwards, they change for somebody who believes that it is over.
"""

import asyncio
from collections.abc import Awaitable, Iterable
from typing import TypeVar

Result = TypeVar("Result")


async def together(*works: Awaitable[Result]) -> list[Result]:
    """Return the results of all; where one fails, cancel the others and wait for them."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


async def each_to_its_end(works: Iterable[Awaitable[Result]]) -> list[Result]:
    """Wait for all; raise the first error, else return the results of those that were not cancelled."""
    ended = await asyncio.gather(*works, return_exceptions=True)
    for one in ended:
        if isinstance(one, BaseException) and not isinstance(one, asyncio.CancelledError):
            raise one
    return [one for one in ended if not isinstance(one, BaseException)]
