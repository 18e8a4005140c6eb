"""Runs one stack until it is told to stop: `python -m deployments.stack.run`, or in the foreground by `cairn up`."""

import asyncio
import contextlib
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from deployments.stack.condition import Condition
from deployments.stack.owner import OWNER, until_gone
from deployments.stack.ports import NoFreePort, PortClaims
from deployments.stack.postgres import PostgresMissing
from deployments.stack.services import Layout, RedisMissing, plan_layout, services
from deployments.stack.state import StackRunning, StackState, write_private_json
from deployments.stack.supervisor import ServiceFailed, StackService, Supervisor

Announce = Callable[[str, str, float], None]


@dataclass
class Journal:
    """What the stack says about itself, in stack.json: others watch its start, and find its services, by it."""

    state: StackState
    layout: Layout
    services: list[StackService]
    announce: Announce
    pids: Callable[[], dict[str, int]] = dict
    conditions: Mapping[str, Condition] = field(default_factory=dict)
    _facts: dict[str, dict[str, Any]] = field(default_factory=dict)
    _phase: str = "starting"
    _failure: dict[str, str] | None = None
    _started: float = field(default_factory=time.monotonic)
    _ready_seconds: float | None = None

    def note(self, name: str, state: str, seconds: float) -> None:
        """Note that one service changed."""
        self._facts.setdefault(name, {}).update(state=state, seconds=round(seconds, 2))
        self.write()
        self.announce(name, state, seconds)

    def phase(self, phase: str, failure: ServiceFailed | None = None) -> None:
        """Note that the whole stack changed."""
        self._phase = phase
        if phase == "ready":
            self._ready_seconds = round(time.monotonic() - self._started, 2)
        if failure:
            self._failure = {"service": failure.name, "message": str(failure), "log": str(failure.log)}
        self.write()

    def write(self) -> None:
        pids = self.pids()
        for service in self.services:
            facts = self._facts.setdefault(service.name, {"state": "waiting"})
            facts |= {"url": service.url, "log": str(self.state.log(service.name)), "step": service.is_step}
            facts["pid"] = pids.get(service.name)
            condition = self.conditions.get(service.name, Condition())
            facts |= {name: value for name, value in asdict(condition).items() if name != "failures"}
        content = {
            "phase": self._phase,
            "supervisor_pid": os.getpid(),
            "ready_seconds": self._ready_seconds,
            "ports": dict(self.layout.ports),
            "workflows": str(self.layout.workflows),
            "listen": self.layout.opening.address if self.layout.opening else None,
            "services": self._facts,
            "failure": self._failure,
        }
        write_private_json(self.state.stack_file, content)


async def run_stack(state: StackState, announce: Announce) -> None:
    """Start everything, keep it up, and stop it when a signal says so. Raises what made it fail."""
    _refuse_strange_owner()
    with state.supervisor_lock(), PortClaims() as claims:
        shutil.rmtree(state.temporary, ignore_errors=True)  # what a killed stack left there
        state.create()
        layout = plan_layout(state, claims)
        declared = services(layout)
        for service in declared:
            _set_aside(state, service.name)
        journal = Journal(state, layout, declared, announce)
        supervisor = Supervisor(declared, state.log, str(state.root), journal.note)
        journal.pids, journal.conditions = supervisor.pids, supervisor.conditions
        stop = _stop_signal()
        looking = asyncio.create_task(_stop_without_owner(stop))
        try:
            await _unless_stopped(supervisor.start(), stop)
            if not stop.is_set():
                journal.phase("ready")
                announce("stack", "ready", journal._ready_seconds or 0.0)  # noqa: SLF001 - one module's two halves
            await _unless_stopped(supervisor.watch(), stop)
        except ServiceFailed as failure:
            journal.phase("failed", failure)
            raise
        finally:
            looking.cancel()
            await supervisor.stop()
            if stop.is_set():
                journal.phase("stopped")


def _stop_signal() -> asyncio.Event:
    """Set by SIGINT and SIGTERM."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop


async def _stop_without_owner(stop: asyncio.Event) -> None:
    """Stop a stack that belongs to a process once that process is gone."""
    if owner := os.environ.get(OWNER):
        await until_gone(owner)
        stop.set()


def _refuse_strange_owner() -> None:
    owner = os.environ.get(OWNER, "")
    if owner and not all(part.isdecimal() for part in owner.split(":", 1)):
        raise RuntimeError(f"{OWNER} is {owner!r}; it should read PID:STARTTIME, as in 4711:123456.")


async def _unless_stopped(work: Coroutine[Any, Any, None], stop: asyncio.Event) -> None:
    """Do the work until it ends or the stop comes."""
    working, stopping = asyncio.create_task(work), asyncio.create_task(stop.wait())
    await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
    for task in (working, stopping):
        if not task.done():
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
    if working.done() and not working.cancelled():
        working.result()


def _set_aside(state: StackState, service: str) -> None:
    """Keep one earlier log, so that the reason of a crash survives the next start."""
    log = state.log(service)
    if log.exists():
        log.replace(log.with_suffix(".log.1"))


def main() -> None:
    """Run the stack of CAIRN_STATE; its output is its own log."""

    def announce(name: str, state: str, seconds: float) -> None:
        sys.stdout.write(f"{time.strftime('%H:%M:%S')} {name} {state} {seconds:.1f}s\n")
        sys.stdout.flush()

    try:
        asyncio.run(run_stack(StackState.default(), announce))
    except (ServiceFailed, StackRunning, NoFreePort, PostgresMissing, RedisMissing, RuntimeError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
