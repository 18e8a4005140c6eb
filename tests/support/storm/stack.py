"""Starts an embedded stack for a storm, and ends it."""

import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from deployments.stack.owner import tied
from deployments.stack.supervisor import kill_strays
from flows.storage import Zones
from tests.support.cluster import open_folder
from tests.support.stack import RunningStack
from tests.support.storm.embedded import ORDER, Order
from tests.support.storm.kinds import Kinds
from tests.support.storm.links import Line

START_SECONDS = 900.0
# What completed requests left over goes at once, so that the verdict may be that nothing is there without a row.
COLLECTS = {"CAIRN_KEPT_AFTER_SUCCESS_SECONDS": "0", "CAIRN_COLLECT_SECONDS": "1"}
STOP_SECONDS = 90.0


@dataclass(frozen=True)
class Stormy:
    """A stack that is up. Its folder is seen as its own processes see it, with the disks that only they have."""

    stack: RunningStack
    kinds: Kinds
    zones: Zones
    collects: bool = True  # whether what is left over is removed at once


@contextmanager
def stormy(
    name: str,
    settings: Mapping[str, str],
    disks: Mapping[str, int] | None = None,
    lines: Sequence[Line] = (),
    zones: Zones | None = None,
    elsewhere: Mapping[str, int] | None = None,
) -> Iterator[Stormy]:
    """Have it run while the block does; whoever kills us ends it too, by its owner's mark.

    `disks` are folders of its state, with megabytes; `lines` lead to services, or to ports `elsewhere`.
    """
    elsewhere, settings = elsewhere or {}, {**COLLECTS, **settings}
    with open_folder(name) as made:
        state = made / "state"
        places = {str((state / place).resolve()): size for place, size in (disks or {}).items()}
        for line in lines:
            line.target = _port(state, line.name, elsewhere)
        order = Order(places, {line.name: line.port for line in lines}, elsewhere)
        outside = RunningStack(state, settings)
        log = made / "supervisor.log"
        with _process(outside, order, log) as process:
            inside = RunningStack(Path(f"/proc/{process.pid}/root") / state.relative_to("/"), settings)
            _wait_until_ready(inside, process, log)
            kinds = Kinds.of(str(state), inside.facts())
            yield Stormy(inside, kinds, zones or Zones.local(inside.folder / "storage"))


def _port(state: Path, name: str, elsewhere: Mapping[str, int]) -> Callable[[], int]:
    """Where a line ends: the stack chooses its ports at its start."""

    def port() -> int:
        return elsewhere[name] if name in elsewhere else int(RunningStack(state).facts()["ports"][name])

    return port


@contextmanager
def _process(stack: RunningStack, order: Order, log_file: Path) -> Iterator["subprocess.Popen[bytes]"]:
    own_disks = ("unshare", "--mount", "--propagation", "private", "--") if order.disks else ()
    command = tied(*own_disks, sys.executable, "-m", "tests.support.storm.embedded", by="TERM")
    environment = stack.environment | {ORDER: order.written()}
    stack.folder.mkdir(parents=True, exist_ok=True)
    with log_file.open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
        kill_strays(str(stack.folder))


def _wait_until_ready(stack: RunningStack, process: "subprocess.Popen[bytes]", log: Path) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        assert process.poll() is None, log.read_text()
        try:
            if stack.facts()["phase"] == "ready":
                return
        except (OSError, ValueError):
            pass
        time.sleep(0.2)
    raise AssertionError(log.read_text())


@asynccontextmanager
async def calling() -> AsyncIterator[httpx.AsyncClient]:
    """What all callers speak by: connections are found broken, and made anew."""
    async with httpx.AsyncClient(timeout=httpx.Timeout(45.0, connect=10.0), follow_redirects=False) as http:
        yield http
