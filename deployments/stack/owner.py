"""Whose processes these are: what a demo, a benchmark or a test starts must end with it, however that ends.

A stack with an owner looks after it and stops in order once it is gone. A single server is ended by the kernel.
"""

import asyncio
import ctypes
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

OWNER = "CAIRN_OWNER"
LOOK_SECONDS = 0.5
PR_SET_PDEATHSIG = 1
GONE = "ZX"


def owned() -> dict[str, str]:
    """The variable that makes a stack this process's own, whoever starts it in between."""
    pid = os.getpid()
    return {OWNER: f"{pid}:{_state_and_birth(pid)[1]}"}


async def until_gone(owner: str) -> None:
    """Return once the process is there no more. Its time of birth tells it from a later one with its number."""
    pid, _, born = owner.partition(":")
    while True:
        state, since = _state_and_birth(int(pid))
        if state in GONE or since != born:
            return
        await asyncio.sleep(LOOK_SECONDS)


def _state_and_birth(pid: int) -> tuple[str, str]:
    """A process's state and time of birth, as the kernel counts them."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return "X", ""
    return fields[0], fields[19]


def tied(*command: object, by: str = "KILL") -> Sequence[str]:
    """The command of a process that is to end when the thread that starts it does: the main one, or a fixture's."""
    return ["setpriv", "--pdeathsig", by, "--", *map(str, command)]


def end_with_parent() -> None:
    """The same, asked for by a process that is started otherwise, as those of a pool are."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def interrupt_at_sigterm() -> None:
    """Have SIGTERM end this process as Ctrl-C does: in order, stopping what it has started."""

    def interrupt(_number: int, _frame: object) -> NoReturn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # told twice, as `timeout` does, it must not stop stopping
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
