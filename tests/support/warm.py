"""Processes that are forked from one that has imported what they need: importing is most of what a start costs.

Where a start itself is what a test is about, it starts its process anew.
"""

import atexit
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path

from deployments.stack.owner import end_with_parent

IMPORTED = ["uvicorn", "gateway.edge.http_protocol", "domain.app"]
IMPORTED += ["domain.adapters.prefect_logs", "domain.adapters.prefect_runs"]
IMPORTED += ["prefect.cli.worker", "deployments.workers.inline", "deployments.cli.deploy", "deployments.rollout.apply"]
_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload(IMPORTED)


@dataclass(frozen=True)
class Place:
    """Where a process works, with which environment and no other, and where it writes."""

    folder: Path
    environment: Mapping[str, str]
    output: Path
    errors: Path


@dataclass(frozen=True)
class Forked:
    """The process, as `subprocess` would give it."""

    process: BaseProcess

    @property
    def pid(self) -> int:
        assert self.process.pid
        return self.process.pid

    def poll(self) -> int | None:
        return self.process.exitcode

    def wait(self, seconds: float | None = None) -> int:
        self.process.join(seconds)
        if self.process.exitcode is None:
            raise subprocess.TimeoutExpired(self.process.name, seconds or 0)
        return self.process.exitcode

    def send_signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.process.kill()


def forked(place: Place, work: Callable[..., None], *arguments: object) -> Forked:
    """One that does this work. It leads a session of its own, and ends with this process."""
    process = _forks.Process(target=_begin, args=(place, work, arguments))
    process.start()
    return Forked(process)


def module(name: str, *arguments: str) -> None:
    """What `python -m` of this does."""
    sys.argv = [name, *arguments]
    runpy.run_module(name, run_name="__main__", alter_sys=True)


def _begin(place: Place, work: Callable[..., None], arguments: Sequence[object]) -> None:
    os.setsid()
    end_with_parent()
    for stream, path in ((1, place.output), (2, place.errors)):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(file, stream)
        os.close(file)
    os.chdir(place.folder)
    os.environ.clear()
    os.environ.update(place.environment)
    _forget_settings()
    try:
        work(*arguments)
    finally:
        atexit._run_exitfuncs()  # as an interpreter does at its end, and a fork does not


def _forget_settings() -> None:
    """Have Prefect look anew at its environment, which it did when it was imported."""
    from prefect.context import refresh_global_settings_context
    from prefect.logging.configuration import PROCESS_LOGGING_CONFIG, setup_logging

    refresh_global_settings_context()
    PROCESS_LOGGING_CONFIG.clear()
    setup_logging()
