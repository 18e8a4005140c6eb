"""Runs calls of stores in threads, for event loops.

The loop's own default threads would not do: whoever looks up the address of a host waits for one of those.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import cache, partial
from typing import Final, ParamSpec, TypeVar

Given = ParamSpec("Given")
Result = TypeVar("Result")

AT_ONCE: Final = 32
SIGNS_AT_ONCE: Final = 8


async def in_storage_thread(call: Callable[Given, Result], /, *given: Given.args, **named: Given.kwargs) -> Result:
    """Return the result of a call that reads or writes a store; beyond so many at once, calls wait their turn."""
    return await _in_thread(_threads("work", AT_ONCE), partial(call, *given, **named))


async def in_sign_thread(call: Callable[Given, Result], /, *given: Given.args, **named: Given.kwargs) -> Result:
    """Run a call for signs of life in threads of its own, since those must not wait behind work."""
    return await _in_thread(_threads("signs", SIGNS_AT_ONCE), partial(call, *given, **named))


async def _in_thread(threads: ThreadPoolExecutor, call: Callable[[], Result]) -> Result:
    return await asyncio.get_running_loop().run_in_executor(threads, copy_context().run, call)


@cache
def _threads(name: str, at_once: int) -> ThreadPoolExecutor:
    """Return the process's pool of threads, which start when they are needed."""
    return ThreadPoolExecutor(at_once, f"cairn-storage-{name}")
