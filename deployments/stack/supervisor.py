"""Starts processes in dependency order, keeps each of them up, stops them in reverse. Knows nothing of what they are.

A service that fails is started again, after pauses that grow, for as long as the stack runs: the others stay up.
One that was ready and ends with exit code 0 (a worker that was drained) has not failed, and is soon back.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from deployments.stack.condition import Condition, ended, with_last_words
from domain.shared.together import each_to_its_end

MARKER = "CAIRN_STACK"
STOP_SECONDS = 12.0
STRAY_GRACE_SECONDS = 3.0
STRAY_KILL_SECONDS = 5.0
FIRST_TRIES = 3
LOOK_SECONDS = 0.1


@dataclass(frozen=True)
class StackService:
    """One process. Without a readiness check it is a step: done when it exits with 0.

    A first start that takes longer than `slow_seconds` is told of, one that takes `start_timeout_seconds` is given up.
    """

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    needs: tuple[str, ...] = ()
    ready: Callable[[], Awaitable[bool]] | None = None
    url: str | None = None
    stop_signal: signal.Signals = signal.SIGTERM
    slow_seconds: float = 30.0
    start_timeout_seconds: float = 900.0

    @property
    def is_step(self) -> bool:
        return self.ready is None


class ServiceFailed(RuntimeError):
    """A service did not come up."""

    def __init__(self, name: str, log: Path, reason: str) -> None:
        super().__init__(f"{name} {with_last_words(reason, log)}. Its log is {log}")
        self.name = name
        self.log = log
        self.reason = reason


class TooSlow(ServiceFailed):
    """The service lives but is not ready. Another start would take as long."""


Announce = Callable[[str, str, float], None]


@dataclass
class Supervisor:
    """The processes of one stack."""

    services: Sequence[StackService]
    log_of: Callable[[str], Path]
    marker: str
    announce: Announce = lambda name, state, seconds: None
    conditions: dict[str, Condition] = field(default_factory=dict)
    _running: dict[str, asyncio.subprocess.Process] = field(default_factory=dict)
    _ready: dict[str, asyncio.Event] = field(default_factory=dict)
    _keepers: list[asyncio.Task[None]] = field(default_factory=list)
    _stopping: bool = False

    def pids(self) -> dict[str, int]:
        """The processes that run now, by service."""
        return {name: process.pid for name, process in self._running.items() if process.returncode is None}

    async def start(self) -> None:
        """Bring everything up, each service as soon as what it needs is ready. Raises what cannot come up."""
        kill_strays(self.marker)
        self._ready = {service.name: asyncio.Event() for service in self.services}
        self.conditions |= {service.name: Condition() for service in self.services}
        try:
            async with asyncio.TaskGroup() as group:
                for service in self.services:
                    group.create_task(self._start_one(service))
        except BaseExceptionGroup as group:
            raise _reason(group) from None

    async def watch(self) -> None:
        """Keep up what has been started, until stopped."""
        ended_keepers, _ = await asyncio.wait(self._keepers, return_when=asyncio.FIRST_EXCEPTION)
        for keeper in ended_keepers:
            if not keeper.cancelled():
                keeper.result()  # a fault of our own is none of a service's

    async def stop(self) -> None:
        """Stop everything, dependants first, and leave no process behind."""
        self._stopping = True
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)
        for level in reversed(self._levels()):
            await each_to_its_end(self._stop_one(service) for service in level)
        kill_strays(self.marker)

    async def _start_one(self, service: StackService) -> None:
        """The first start, tried again where it fails: a machine may be short of something for a moment."""
        for need in service.needs:
            await self._ready[need].wait()
        started = time.monotonic()
        self._tell(service, "starting")
        for tries_left in reversed(range(FIRST_TRIES)):
            try:
                await self._bring_up(service, service.start_timeout_seconds)
                break
            except ServiceFailed as failure:
                pause = self._note(service, failure.reason, 0.0)
                if isinstance(failure, TooSlow) or not tries_left:
                    raise
                self._tell(service, f"{failure.reason}, starting again")
                await asyncio.sleep(pause)
        self.conditions[service.name].failures = 0
        self._ready[service.name].set()
        self._tell(service, "done" if service.is_step else "ready", time.monotonic() - started)
        if not service.is_step:
            self._keepers.append(asyncio.create_task(self._keep_up(service)))

    async def _bring_up(self, service: StackService, limit_seconds: float | None) -> None:
        """Start the process and wait until it is ready; of a step, until it is done."""
        self._end_group(service.name)
        await self._spawn(service)
        process = self._running[service.name]
        if service.ready is None:
            if code := await process.wait():
                raise self._failure(service, f"failed with exit code {code}")
            del self._running[service.name]
        else:
            await self._until_ready(service, process, limit_seconds)

    async def _spawn(self, service: StackService) -> None:
        environment = {**service.environment, MARKER: self.marker}
        try:
            with self.log_of(service.name).open("ab") as log:
                self._running[service.name] = await asyncio.create_subprocess_exec(
                    *service.command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env=environment,
                    cwd="/",
                    start_new_session=True,  # a Ctrl-C at the terminal reaches the supervisor, which stops in order
                )
        except OSError as error:  # no memory or no room for another process: a moment later there may be some
            raise self._failure(service, f"could not be started ({error.strerror})") from None

    async def _until_ready(
        self, service: StackService, process: asyncio.subprocess.Process, limit_seconds: float | None
    ) -> None:
        """Wait for as long as the process lives; tell now and then that it takes long, and what its log says."""
        started = time.monotonic()
        slow = service.slow_seconds
        while True:
            is_ready = await _is_ready(service)
            waited = time.monotonic() - started
            if process.returncode is not None:
                raise self._failure(service, f"{ended(process.returncode)} at its start")
            if is_ready:
                return
            if limit_seconds is not None and waited > limit_seconds:
                raise self._failure(service, f"was not ready after {waited:.0f} s", TooSlow)
            if waited > slow:
                slow *= 2
                reason = f"is slow: not ready after {waited:.0f} s"
                self.conditions[service.name].say(with_last_words(reason, self.log_of(service.name)))
                self._tell(service, "slow", waited)
            await asyncio.sleep(LOOK_SECONDS)

    async def _keep_up(self, service: StackService) -> None:
        """Restart the service whenever it ends. Nothing that happens to it ends this loop or other services."""
        ready_at = time.monotonic()
        while True:
            code = await self._running[service.name].wait()
            reason, now = ended(code), time.monotonic()
            condition = self.conditions[service.name]
            pause = condition.left(reason) if code == 0 else self._note(service, reason, now - ready_at)
            while True:
                self._tell(service, f"{reason}, starting again")
                await asyncio.sleep(pause)
                condition.restarts += 1
                try:
                    await self._bring_up(service, None)
                    break
                except ServiceFailed as failure:
                    reason = failure.reason
                    pause = self._note(service, reason, 0.0)
            ready_at = time.monotonic()
            self._tell(service, "ready", ready_at - now)

    def _note(self, service: StackService, reason: str, ready_seconds: float) -> float:
        """Note a failure with how the service's log ends; returns how long to wait."""
        words = with_last_words(reason, self.log_of(service.name))
        return self.conditions[service.name].failed(words, ready_seconds)

    def _tell(self, service: StackService, state: str, seconds: float = 0.0) -> None:
        """Announce a state. A failure to write it, as on a full disk, must not end the supervisor."""
        with contextlib.suppress(OSError):
            self.announce(service.name, state, seconds)

    def _failure(self, service: StackService, reason: str, kind: type[ServiceFailed] = ServiceFailed) -> ServiceFailed:
        return kind(service.name, self.log_of(service.name), reason)

    async def _stop_one(self, service: StackService) -> None:
        process = self._running.get(service.name)
        if process is None:
            return
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(service.stop_signal)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), STOP_SECONDS)
        self._end_group(service.name)
        await process.wait()
        self._tell(service, "stopped")

    def _end_group(self, name: str) -> None:
        """End whatever the service started and left (a flow run of a worker): it shares its session's process group."""
        if process := self._running.get(name):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)

    def _levels(self) -> list[list[StackService]]:
        """Services by how deep their needs go; a level needs only what lies below it."""
        depth: dict[str, int] = {}
        for service in self.services:  # declared in dependency order
            depth[service.name] = 1 + max((depth[need] for need in service.needs), default=-1)
        return [
            [service for service in self.services if depth[service.name] == level]
            for level in range(max(depth.values(), default=-1) + 1)
        ]


async def _is_ready(service: StackService) -> bool:
    """Whether the service says that it is ready. A check that fails counts as no."""
    try:
        return service.ready is not None and await service.ready()
    except (OSError, EOFError):
        return False


def _reason(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the failure that came first; the task group's others are cancellations of siblings."""
    failures, _ = group.split(ServiceFailed)
    return failures.exceptions[0] if failures else group


def kill_strays(marker: str) -> list[int]:
    """End processes of this stack that no supervisor owns any more, as after a SIGKILL of everything above them.

    Their parent's death has told most of them to end: they get a moment for it, because a PostgreSQL that shuts down
    has nothing to recover. Returns those that were there, once all are gone.
    """
    strays = processes_marked(marker)
    deadline = time.monotonic() + STRAY_GRACE_SECONDS
    while any(map(_is_there, strays)) and time.monotonic() < deadline + STRAY_KILL_SECONDS:
        if time.monotonic() > deadline:
            for pid in processes_marked(marker):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)
        strays += [pid for pid in processes_marked(marker) if pid not in strays]
    return strays


def _is_there(pid: int) -> bool:
    """Whether anything is left of a process. A dying one loses its environment before its memory and files.

    A PostgreSQL that is started meanwhile finds its data folder in use, and ends.
    """
    try:
        state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
    except OSError:
        return False
    return (state, int(parent)) != ("Z", os.getpid())  # our own dead are ours to ask how they died


def processes_marked(marker: str) -> list[int]:
    """Processes of this stack, this one excepted, whoever their parent is now."""
    wanted = f"{MARKER}={marker}".encode()
    found: list[int] = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found
