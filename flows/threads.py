"""Light tries in threads that are used again, watched by the thread that wants the result.

A thread cannot be killed. A handler that does not leave is abandoned: its try fails, nothing it reports is taken any
more, and the count of such threads tells a worker that its process wants recycling.
"""

import contextvars
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from queue import SimpleQueue
from threading import Event, Lock, Thread
from typing import Any

from flows.context import Checkpoint
from flows.errors import Stopped
from flows.patience import Patience, Step

IDLE_AT_MOST = 32

_idle: deque["SimpleQueue[Job]"] = deque()
_overstaying: set["Job"] = set()


def overstaying() -> int:
    """How many handlers of this process were given up and have not ended yet."""
    return len(_overstaying)


@dataclass(eq=False)
class Job:
    """One handler's call on its way through a thread."""

    work: Callable[["Job"], dict[str, Any]]
    stop: Event = field(default_factory=Event)
    abandoned: bool = False
    result: dict[str, Any] | None = None
    error: BaseException | None = None
    ended: bool = False
    _context: contextvars.Context = field(default_factory=contextvars.copy_context)
    _running: Any = field(default_factory=Lock)

    def __post_init__(self) -> None:
        self._running.acquire()

    def do(self) -> None:
        """In the thread that runs the handler."""
        try:
            self.result = self._context.run(self.work, self)
        except BaseException as error:  # noqa: BLE001 - raised again where the result is wanted
            self.error = error

    def end(self) -> None:
        """Whoever waits may go on."""
        self.ended = True
        _overstaying.discard(self)
        self._running.release()

    def wait(self, seconds: float) -> bool:
        """True once the handler has ended."""
        return bool(self._running.acquire(timeout=seconds))

    def abandon(self) -> None:
        """Nobody waits for it any more."""
        self.abandoned = True
        _overstaying.add(self)
        if self.ended:  # it ended while it was being given up, and may have looked before it was in the set
            _overstaying.discard(self)

    def guarded(self, report: Callable[..., None]) -> Callable[..., None]:
        """The report, refused once the try was given up: another try may be at work by then."""

        def told(*what: Any) -> None:
            if self.abandoned:
                raise Stopped("The try was given up; nothing of it is taken any more.")
            report(*what)

        return told


@dataclass(frozen=True)
class GuardedCheckpoint:
    """A checkpoint that takes nothing from a try that was given up."""

    kept: Checkpoint
    job: Job

    def load(self) -> dict[str, object] | None:
        return self.kept.load()

    def save(self, state: dict[str, object]) -> None:
        self.job.guarded(self.kept.save)(state)


def run(work: Callable[[Job], dict[str, Any]], stop: Event, patience: Patience) -> dict[str, Any]:
    """The work's result. It sees its own stop set when the run's is, or when its time is up."""
    job = Job(work)
    _hand_over(job)
    while not job.wait(patience.pause(now := time.monotonic())):
        step = patience.look(now, stop.is_set())
        if step is Step.ASK:
            job.stop.set()
        elif step is Step.GIVE_UP and patience.why:
            job.abandon()
            raise patience.why
    patience.check()
    if job.error is not None:
        raise job.error
    assert job.result is not None  # noqa: S101 - one of the two is set
    return job.result


def _hand_over(job: Job) -> None:
    try:
        inbox = _idle.pop()
    except IndexError:
        inbox = SimpleQueue()
        Thread(target=_serve, args=(inbox,), name="light-try", daemon=True).start()
    inbox.put(job)


def _serve(inbox: "SimpleQueue[Job]") -> None:
    """One thread's life: a job at a time, until there are idle threads enough."""
    wanted = True
    while wanted:
        job = inbox.get()
        job.do()
        if wanted := len(_idle) < IDLE_AT_MOST:
            _idle.append(inbox)  # before anybody hears of the end, so that the next try needs no other thread
        job.end()
        del job  # its result must not stay while nothing is to be done
