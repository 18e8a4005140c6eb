"""Finding the workers of this machine by their command lines, and draining them. No record of them can be stale."""

import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from deployments.stack.supervisor import MARKER

WAIT_SECONDS = 35.0


@dataclass(frozen=True)
class Found:
    """A running worker."""

    pid: int
    pool: str
    name: str | None


def parse(command: Sequence[str]) -> tuple[str, str | None] | None:
    """(pool, name) where this is the command line of a worker: `… worker start --pool POOL --name NAME`."""
    try:
        at = command.index("worker")
    except ValueError:
        return None
    ours = at > 0 and (command[at - 1] == "deployments.cli" or Path(command[at - 1]).name == "cairn")
    if not ours or command[at + 1 : at + 2] != ["start"]:
        return None
    given = _options(command[at + 2 :])
    return (given["--pool"], given.get("--name")) if "--pool" in given else None


def _options(arguments: Sequence[str]) -> dict[str, str]:
    """`--name value` and `--name=value`."""
    found: dict[str, str] = {}
    for number, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if equals:
            found[name] = value
        elif argument.startswith("--") and number + 1 < len(arguments):
            found[argument] = arguments[number + 1]
    return found


def workers(stack: str) -> list[Found]:
    """Workers of this machine that are ours to signal: those of this stack, and those of none."""
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        with suppress(OSError):
            command = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
            described = parse(command)
            if described and _stack_of(folder) in {None, stack}:
                found.append(Found(int(folder.name), *described))
    return found


def _stack_of(folder: Path) -> str | None:
    """The embedded stack that a process belongs to; unreadable where it is another user's."""
    prefix = f"{MARKER}=".encode()
    for entry in (folder / "environ").read_bytes().split(b"\0"):
        if entry.startswith(prefix):
            return entry[len(prefix) :].decode(errors="replace")
    return None


def drain(found: Sequence[Found]) -> list[Found]:
    """Tell these to drain and wait until they are gone; returns those that are not."""
    for worker in found:
        with suppress(ProcessLookupError):
            os.kill(worker.pid, signal.SIGTERM)
    deadline = time.monotonic() + WAIT_SECONDS
    left = list(found)
    while left and time.monotonic() < deadline:
        time.sleep(0.2)
        left = [worker for worker in left if _lives(worker.pid)]
    return left


def _lives(pid: int) -> bool:
    with suppress(OSError):
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    return False
