"""Telling work to stop, from any thread: a flag for each flow run and for each workflow inside it.

The first reason is the one that counts: it decides what the domain is told. Knows nothing of Prefect.
"""

import contextlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Lock
from typing import Literal
from uuid import UUID
from weakref import WeakSet

# fenced: the domain takes nothing more from this attempt. over: the run's end is decided, what still works is in vain.
Reason = Literal["fenced", "over", "cancelled", "draining"]


class Stop:
    """A flag with a reason. Raising it raises those of everything inside, never the other way round."""

    def __init__(self) -> None:
        self.event = Event()
        self.reason: Reason | None = None
        self._lock = Lock()
        self._inner: WeakSet[Stop] = WeakSet()
        self._told: list[Callable[[], object]] = []

    def set(self, reason: Reason) -> None:
        """Raise the flag. Later reasons change nothing."""
        with self._lock:
            if self.reason is not None:
                return
            self.reason = reason
            self.event.set()
            told, inner = list(self._told), list(self._inner)
        for tell in told:
            with contextlib.suppress(RuntimeError):  # its event loop is closed: nobody waits there any more
                tell()
        for stop in inner:
            stop.set(reason)

    def is_set(self) -> bool:
        return self.event.is_set()

    def inner(self) -> "Stop":
        """A flag for something inside: raised with this one, or alone."""
        stop = Stop()
        with self._lock:
            self._inner.add(stop)
            reason = self.reason
        if reason is not None:
            stop.set(reason)
        return stop

    def on_set(self, tell: Callable[[], object]) -> None:
        """Have this called once the flag is raised, by whoever raises it."""
        with self._lock:
            self._told.append(tell)
            already = self.reason is not None
        if already:
            tell()


_stops: dict[UUID, Stop] = {}
_shared = False


@contextmanager
def stoppable_by_id(flow_run_id: UUID, stop: Stop) -> Iterator[None]:
    """Let the flow run be stopped by its id while the block runs."""
    _stops[flow_run_id] = stop
    try:
        yield
    finally:
        _stops.pop(flow_run_id, None)


def stop_flow_run(flow_run_id: UUID, reason: Reason) -> bool:
    """Stop one flow run of this process. False where there is no such run."""
    flag = _stops.get(flow_run_id)
    if flag is not None:
        flag.set(reason)
    return flag is not None


def stop_all_flow_runs(reason: Reason) -> int:
    """Stop every flow run of this process; returns how many there were."""
    flags = list(_stops.values())
    for flag in flags:
        flag.set(reason)
    return len(flags)


def share_process() -> None:
    """Say that this process runs many flows, so that signals are its worker's business and not a flow's."""
    global _shared  # noqa: PLW0603 - a fact about the process, told once by its worker
    _shared = True


def process_is_shared() -> bool:
    """Whether a worker runs flows in this process beside others."""
    return _shared
