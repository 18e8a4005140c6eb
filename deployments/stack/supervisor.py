"""Starts processes in dependency order, keeps them up, stops them in reverse. Knows nothing of what they are."""

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

MARKER = "CAIRN_STACK"
STOP_SECONDS = 12.0
STRAY_GRACE_SECONDS = 3.0
STRAY_KILL_SECONDS = 5.0
RESTARTS = 5
RESTART_WINDOW_SECONDS = 60.0


@dataclass(frozen=True)
class Service:
    """One process. Without a readiness check it is a step: done when it exits with 0."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    needs: tuple[str, ...] = ()
    ready: Callable[[], Awaitable[bool]] | None = None
    url: str | None = None
    stop_signal: signal.Signals = signal.SIGTERM
    start_timeout_seconds: float = 90.0

    @property
    def is_step(self) -> bool:
        return self.ready is None


class ServiceFailed(RuntimeError):
    """A service did not come up or could not be kept up."""

    def __init__(self, name: str, log: Path, reason: str) -> None:
        super().__init__(f"{name} {reason}. Its log is {log}")
        self.name = name
        self.log = log


@dataclass
class _Running:
    process: asyncio.subprocess.Process
    started: float
    restarts: list[float] = field(default_factory=list)


Announce = Callable[[str, str, float], None]


@dataclass
class Supervisor:
    """The processes of one stack."""

    services: Sequence[Service]
    log_of: Callable[[str], Path]
    marker: str
    announce: Announce = lambda name, state, seconds: None
    _running: dict[str, _Running] = field(default_factory=dict)
    _ready: dict[str, asyncio.Event] = field(default_factory=dict)
    _stopping: bool = False

    def pids(self) -> dict[str, int]:
        """The processes that run now, by service."""
        return {
            name: running.process.pid for name, running in self._running.items() if running.process.returncode is None
        }

    async def start(self) -> None:
        """Bring everything up, each service as soon as what it needs is ready."""
        kill_strays(self.marker)
        self._ready = {service.name: asyncio.Event() for service in self.services}
        try:
            async with asyncio.TaskGroup() as group:
                for service in self.services:
                    group.create_task(self._start_one(service))
        except BaseExceptionGroup as group:
            raise _reason(group) from None

    async def watch(self) -> None:
        """Restart what dies; raise when one keeps dying."""
        try:
            async with asyncio.TaskGroup() as group:
                for service in self.services:
                    if not service.is_step:
                        group.create_task(self._keep_up(service))
        except BaseExceptionGroup as failed:
            raise _reason(failed) from None

    async def stop(self) -> None:
        """Stop everything, dependants first, and leave no process behind."""
        self._stopping = True
        for level in reversed(self._levels()):
            await asyncio.gather(*(self._stop_one(service) for service in level))
        kill_strays(self.marker)

    async def _start_one(self, service: Service) -> None:
        for need in service.needs:
            await self._ready[need].wait()
        started = time.monotonic()
        self.announce(service.name, "starting", 0.0)
        await self._spawn(service)
        await self._until_ready(service)
        self._ready[service.name].set()
        self.announce(service.name, "done" if service.is_step else "ready", time.monotonic() - started)

    async def _spawn(self, service: Service) -> None:
        environment = {**service.environment, MARKER: self.marker}
        with self.log_of(service.name).open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *service.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                cwd="/",
                start_new_session=True,  # a Ctrl-C at the terminal reaches the supervisor, which stops things in order
            )
        earlier = self._running.get(service.name)
        self._running[service.name] = _Running(process, time.monotonic(), earlier.restarts if earlier else [])

    async def _until_ready(self, service: Service) -> None:
        process = self._running[service.name].process
        log = self.log_of(service.name)
        if service.ready is None:
            if code := await process.wait():
                raise ServiceFailed(service.name, log, f"failed with exit code {code}")
            del self._running[service.name]
            return
        deadline = time.monotonic() + service.start_timeout_seconds
        while not await service.ready():
            if process.returncode is not None:
                raise ServiceFailed(service.name, log, f"ended at its start with exit code {process.returncode}")
            if time.monotonic() > deadline:
                raise ServiceFailed(service.name, log, f"was not ready after {service.start_timeout_seconds:.0f} s")
            await asyncio.sleep(0.1)

    async def _keep_up(self, service: Service) -> None:
        while True:
            running = self._running[service.name]
            code = await running.process.wait()
            if self._stopping:
                return
            now = time.monotonic()
            recent = [at for at in running.restarts if now - at < RESTART_WINDOW_SECONDS]
            if len(recent) >= RESTARTS:
                raise ServiceFailed(service.name, self.log_of(service.name), f"keeps ending (exit code {code})")
            running.restarts[:] = [*recent, now]
            self.announce(service.name, f"ended with exit code {code}, starting again", 0.0)
            await asyncio.sleep(0.5 * 2 ** len(recent))
            if self._stopping:
                return
            await self._spawn(service)
            await self._until_ready(service)
            self.announce(service.name, "ready", time.monotonic() - now)

    async def _stop_one(self, service: Service) -> None:
        running = self._running.get(service.name)
        if running is None:
            return
        process = running.process
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(service.stop_signal)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), STOP_SECONDS)
        # Whatever the service started and left (a flow run of a worker) shares its session's process group.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        self.announce(service.name, "stopped", 0.0)

    def _levels(self) -> list[list[Service]]:
        """Services by how deep their needs go; a level needs only what lies below it."""
        depth: dict[str, int] = {}
        for service in self.services:  # declared in dependency order
            depth[service.name] = 1 + max((depth[need] for need in service.needs), default=-1)
        return [
            [service for service in self.services if depth[service.name] == level]
            for level in range(max(depth.values(), default=-1) + 1)
        ]


def _reason(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The service that failed first. What else a task group collects is the cancellation of its siblings."""
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
    """Whether anything is left of a process. One that dies has lost its environment before its memory and files.

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
