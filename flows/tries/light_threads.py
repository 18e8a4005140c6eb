"""Light tries in threads that are used again, watched by whoever wants the result: an event loop, or another thread.

A thread cannot be killed. A handler that does not leave is abandoned: its try fails, nothing it reports is taken any
more, and the count of such threads tells a worker that its process wants recycling.
"""

import asyncio
import contextlib
import contextvars
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from queue import SimpleQueue
from threading import Event, Lock, Thread
from typing import Any

from flows.handlers.context import Checkpoint
from flows.handlers.errors import Stopped, TimedOut
from flows.tries.time_budget import LOOK_SECONDS, TimeBudget, WaitStep

IDLE_AT_MOST = 32

_idle: deque["SimpleQueue[ThreadCall]"] = deque()
_overstaying: set["ThreadCall"] = set()


def overstaying() -> int:
    """How many handlers of this process were given up and have not ended yet."""
    return len(_overstaying)


@dataclass(eq=False)
class ThreadCall:
    """One handler's call on its way through a thread."""

    work: Callable[["ThreadCall"], dict[str, Any]]
    time_budget: TimeBudget
    tell_end: Callable[[], object]
    stop: Event = field(default_factory=Event)
    abandoned: bool = False
    settled: bool = False
    result: dict[str, Any] | None = None
    error: BaseException | None = None
    ended: bool = False
    _context: contextvars.Context = field(default_factory=contextvars.copy_context)
    _judging: Lock = field(default_factory=Lock)

    def run_work(self) -> None:
        """Run the handler and keep what came of it. Called in the handler's thread."""
        try:
            self.result = self._context.run(self.work, self)
        except BaseException as error:  # noqa: BLE001 - raised again where the result is wanted
            self.error = error

    def end(self) -> None:
        """Tell whoever waits that the call has ended."""
        self.ended = True
        _overstaying.discard(self)
        self.tell_end()

    def settle(self) -> None:
        """Let what the handler did count from here on, unless it took too long. Called in the handler's thread."""
        with self._judging:
            if self.abandoned or isinstance(self.time_budget.why, TimedOut):
                raise Stopped("The try was given up; nothing of it is taken any more.")
            self.settled = True

    def seconds_to_next_look(self) -> float:
        """How long to wait for the end before the next look at the time."""
        return LOOK_SECONDS if self.settled else self.time_budget.seconds_to_next_step(time.monotonic())

    def ask_or_abandon(self, *, stopping: bool) -> None:
        """Ask the handler to leave when it is time; raise once it had its time to leave and has not left."""
        with self._judging:
            step = WaitStep.WAIT if self.settled else self.time_budget.next_step(time.monotonic(), stopping)
            self.abandoned = step is WaitStep.GIVE_UP
        if step is WaitStep.ASK:
            self.stop.set()
        elif self.abandoned and self.time_budget.why:
            self.abandon()
            raise self.time_budget.why

    def abandon(self) -> None:
        """Count the thread among those that nobody waits for any more."""
        self.abandoned = True
        _overstaying.add(self)
        if self.ended:  # it ended while it was being given up, and may have looked before it was in the set
            _overstaying.discard(self)

    def outcome(self) -> dict[str, Any]:
        """The result, or the error raised, once the call has ended."""
        if not self.settled:
            self.time_budget.refuse_late_answer()
        if self.error is not None:
            raise self.error
        assert self.result is not None  # noqa: S101 - one of the two is set
        return self.result

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
    job: ThreadCall

    def load(self) -> dict[str, object] | None:
        return self.kept.load()

    def save(self, state: dict[str, object]) -> None:
        self.job.guarded(self.kept.save)(state)


def run_in_thread(work: Callable[[ThreadCall], dict[str, Any]], stop: Event, time_budget: TimeBudget) -> dict[str, Any]:
    """Do the work in a thread and return its result. Its own stop is set with the run's, or when its time is up."""
    running = Lock()
    running.acquire()
    job = ThreadCall(work, time_budget, running.release)
    _hand_over(job)
    while not running.acquire(timeout=job.seconds_to_next_look()):
        job.ask_or_abandon(stopping=stop.is_set())
    return job.outcome()


async def await_in_thread(
    work: Callable[[ThreadCall], dict[str, Any]], stop: Event, time_budget: TimeBudget
) -> dict[str, Any]:
    """Do the same for an event loop. Of thousands of short tries, waking a thread that waits would be half the cost."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    job = ThreadCall(work, time_budget, lambda: _tell(loop, ended))
    _hand_over(job)
    try:
        while not await _is_set(ended, job.seconds_to_next_look()):
            job.ask_or_abandon(stopping=stop.is_set())
    except asyncio.CancelledError:
        job.abandon()
        raise
    return job.outcome()


def _tell(loop: asyncio.AbstractEventLoop, ended: asyncio.Event) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits there any more
        loop.call_soon_threadsafe(ended.set)


async def _is_set(event: asyncio.Event, patience_seconds: float) -> bool:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(patience_seconds):
            await event.wait()
    return event.is_set()


def _hand_over(job: ThreadCall) -> None:
    try:
        inbox = _idle.pop()
    except IndexError:
        inbox = SimpleQueue()
        Thread(target=_serve, args=(inbox,), name="light-try", daemon=True).start()
    inbox.put(job)


def _serve(inbox: "SimpleQueue[ThreadCall]") -> None:
    """One thread's life: a job at a time, until there are idle threads enough."""
    wanted = True
    while wanted:
        job = inbox.get()
        job.run_work()
        if wanted := len(_idle) < IDLE_AT_MOST:
            _idle.append(inbox)  # before anybody hears of the end, so that the next try needs no other thread
        job.end()
        del job  # its result must not stay while nothing is to be done
