"""Starting, watching and stopping a stack from another process."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from deployments.stack.owner import owned
from deployments.stack.state import StackRunning, StackState, read_json
from deployments.stack.supervisor import kill_strays

STOP_SECONDS = 60.0
LOOK_SECONDS = 0.2

Progress = Callable[[dict[str, Any]], None]


class StartFailed(RuntimeError):
    """The stack did not come up; the message names the part and its log."""


def start(state: StackState, progress: Progress, *, tied: bool = False) -> dict[str, Any]:
    """Start a stack in the background and wait until it is ready. A tied one ends with the calling process.

    However long it takes: the supervisor gives up what cannot come up, and says why.
    """
    if state.is_locked():
        raise StackRunning(f"A stack is already up in {state.root}.")
    state.create()
    log = state.log("supervisor")
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "deployments.stack.run"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "CAIRN_STATE": str(state.root), **(owned() if tied else {})},
            cwd="/",
            start_new_session=True,
        )
    return _wait_until_ready(state, process, progress)


def _wait_until_ready(state: StackState, process: "subprocess.Popen[bytes]", progress: Progress) -> dict[str, Any]:
    """What the stack says once it is ready. If it fails, or the caller is interrupted, nothing of it is left."""
    facts: dict[str, Any] = {}
    try:
        while process.poll() is None:
            facts = read_json(state.stack_file) or {}
            if facts.get("supervisor_pid") == process.pid:
                progress(facts)
                if facts["phase"] == "ready":
                    return facts
            time.sleep(LOOK_SECONDS)
    finally:
        if facts.get("phase") != "ready":
            _stop_process(process.pid)
            process.wait()
    raise StartFailed(_reason(state))


def _reason(state: StackState) -> str:
    """The failing service and its log, else the supervisor's last words."""
    facts = read_json(state.stack_file) or {}
    if failure := facts.get("failure"):
        return str(failure["message"])
    words = state.log("supervisor").read_text().strip().splitlines()
    return words[-1] if words else f"The stack ended at its start. Its log is {state.log('supervisor')}"


def stop(state: StackState) -> bool:
    """Stop the stack of this folder and whatever a killed one left. False where nothing was running."""
    facts = state.running()
    if facts is not None:
        _stop_process(int(facts["supervisor_pid"]))
        deadline = time.monotonic() + STOP_SECONDS
        while state.is_locked() and time.monotonic() < deadline:
            time.sleep(LOOK_SECONDS)
        if state.is_locked():
            os.kill(int(facts["supervisor_pid"]), signal.SIGKILL)
    strays = kill_strays(str(state.root))
    return facts is not None or bool(strays)


def _stop_process(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        return


@contextmanager
def running_stack(state: StackState, progress: Progress) -> Iterator[dict[str, Any]]:
    """The stack that is up, or one that is up for as long as the block lasts."""
    if facts := state.running():
        yield facts
        return
    facts = start(state, progress, tied=True)
    try:
        yield facts
    finally:
        stop(state)


def wipe(state: StackState) -> None:
    """Delete everything a stopped stack kept, its cluster outside the folder included."""
    from deployments.stack.postgres import data_folder

    with state.supervisor_lock():
        shutil.rmtree(data_folder(state), ignore_errors=True)
        shutil.rmtree(state.root, ignore_errors=True)
