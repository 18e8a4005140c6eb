"""The threads in which an event loop has stores called, and the rule that it never calls one itself.

A call of a store takes a millisecond, or a minute where the store is in trouble. In the loop of a light worker that
minute would be one of hundreds of runs: none of their heartbeats would be sent. In the loop's default threads it would
hold up whoever looks up the address of a host there. So stores have threads of their own, and refuse a loop's thread.
"""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import cache, partial, wraps
from typing import Any, Final, ParamSpec, TypeVar

Given = ParamSpec("Given")
Result = TypeVar("Result")
Kind = TypeVar("Kind", bound=type)

AT_ONCE: Final = 32
SIGNS_AT_ONCE: Final = 8
CALLS: Final = (
    *("readable_path", "size_bytes", "read_bytes", "read_range", "chunks", "names"),
    *("write_bytes", "append", "put_file", "put_stream", "copy_from", "delete", "delete_below"),
)


class StoreCalledOnLoop(RuntimeError):
    """A store was called in the thread of a running event loop, which stands still meanwhile."""


async def in_storage_thread(call: Callable[Given, Result], /, *given: Given.args, **named: Given.kwargs) -> Result:
    """The result of a call that reads or writes a store. So many of them go on at once, others wait for their turn."""
    return await _in_thread(_threads("work", AT_ONCE), partial(call, *given, **named))


async def in_sign_thread(call: Callable[Given, Result], /, *given: Given.args, **named: Given.kwargs) -> Result:
    """The same for signs of life and for looks at them, which must not wait behind work."""
    return await _in_thread(_threads("signs", SIGNS_AT_ONCE), partial(call, *given, **named))


async def _in_thread(threads: ThreadPoolExecutor, call: Callable[[], Result]) -> Result:
    return await asyncio.get_running_loop().run_in_executor(threads, copy_context().run, call)


@cache
def _threads(name: str, at_once: int) -> ThreadPoolExecutor:
    """One pool for the process, whose threads are started when they are needed."""
    return ThreadPoolExecutor(at_once, f"cairn-storage-{name}")


def nobody_is_excused() -> bool:
    return False


# Tests that are coroutines themselves call stores as they like; nothing else sets this.
is_excused: Callable[[], bool] = nobody_is_excused


def refuse_on_loop() -> None:
    """Raise where this thread runs an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    if not is_excused():
        raise StoreCalledOnLoop(
            "A store was called in the thread of an event loop. Call it by flows.storage.threads.in_storage_thread."
        )


def off_the_loop(kind: Kind) -> Kind:
    """Have every call of this kind of store refuse the thread of a running event loop."""
    for name in CALLS:
        setattr(kind, name, _guarded(getattr(kind, name)))
    return kind


def _guarded(call: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(call)
    def guarded(*given: Any, **named: Any) -> Any:
        refuse_on_loop()
        result = call(*given, **named)
        return _each(result) if isinstance(result, Iterator) else result

    return guarded


def _each(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Pieces are read when they are asked for, wherever that is."""
    while True:
        refuse_on_loop()
        try:
            piece = next(pieces)
        except StopIteration:
            return
        yield piece
