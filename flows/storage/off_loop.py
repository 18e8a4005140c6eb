"""Refuses calls of stores in the thread of a running event loop, which would stand still meanwhile.

A call takes a millisecond, or a minute where the store is in trouble: in the loop of a light worker that minute would
be one of hundreds of runs, none of whose heartbeats would be sent. `flows.storage.threads` has the threads for it.
"""

import sys
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, Final, TypeVar

Piece = TypeVar("Piece")
Kind = TypeVar("Kind", bound=type)

CALLS: Final = (
    *("readable_path", "reader", "stamp", "size_bytes", "read_bytes", "read_range", "chunks", "names"),
    *("write_bytes", "write_new", "append", "put_file", "put_stream", "copy_from", "delete", "delete_below"),
    *("listed", "remove"),
)


class StoreCalledOnLoop(RuntimeError):
    """A store was called in the thread of a running event loop."""


def nobody_is_excused() -> bool:
    return False


# Tests that are coroutines themselves call stores as they like; nothing else sets this.
is_excused: Callable[[], bool] = nobody_is_excused


def refuse_on_loop() -> None:
    """Raise where this thread runs an event loop."""
    if _runs_a_loop() and not is_excused():
        raise StoreCalledOnLoop(
            "A store was called in the thread of an event loop. Call it by flows.storage.threads.in_storage_thread."
        )


def _runs_a_loop() -> bool:
    """Whether this thread runs an event loop. Without asyncio, as in a try's own process, none can run."""
    events = sys.modules.get("asyncio.events")
    return events is not None and events._get_running_loop() is not None  # noqa: SLF001 - asyncio names it for this


def off_the_loop(kind: Kind) -> Kind:
    """Make every call of this kind of store refuse the thread of a running event loop."""
    for name in (name for name in CALLS if hasattr(kind, name)):
        setattr(kind, name, _guarded(getattr(kind, name)))
    return kind


def _guarded(call: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(call)
    def guarded(*given: Any, **named: Any) -> Any:
        refuse_on_loop()
        result = call(*given, **named)
        return _guarded_pieces(result) if isinstance(result, Iterator) else result

    return guarded


def _guarded_pieces(pieces: Iterator[Piece]) -> Iterator[Piece]:
    """Yield the pieces, refusing an event loop's thread at each, since they are read when asked for."""
    while True:
        refuse_on_loop()
        try:
            piece = next(pieces)
        except StopIteration:
            return
        yield piece
