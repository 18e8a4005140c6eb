"""Ties processes to their owner: what a demo, a benchmark or a test starts ends with it, however that ends.

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
    """Return the variable that makes this process the owner of a stack, whoever starts it in between."""
    pid = os.getpid()
    return {OWNER: f"{pid}:{_state_and_birth(pid)[1]}"}


async def until_gone(owner: str) -> None:
    """Return once the process is gone. Its time of birth distinguishes it from a later one with its number."""
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
    """Return a command whose process ends with the thread that starts it."""
    return ["setpriv", "--pdeathsig", by, "--", *map(str, command)]


def end_with_parent() -> None:
    """End this process with its parent, for processes that are started otherwise, as those of a pool are."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def interrupt_at_sigterm() -> None:
    """Have SIGTERM end this process as Ctrl-C does: in order, stopping what it has started."""

    def interrupt(_number: int, _frame: object) -> NoReturn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # told twice, as `timeout` does, it must not stop stopping
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
