"""Processes of the domain by the dozen: forked from one that has imported them, which takes most of a start."""

import importlib
import multiprocessing
import os
from collections.abc import Mapping
from multiprocessing.process import BaseProcess
from pathlib import Path

from deployments.stack.owner import end_with_parent
from deployments.stack.state import REPOSITORY

IMPORTED = ["uvicorn", "domain.app", "domain.adapters.prefect_logs", "domain.adapters.prefect_runs"]
_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload(IMPORTED)


def started(port: int, environment: Mapping[str, str], log: Path) -> BaseProcess:
    """One that serves this port with this environment and no other. It ends with this process."""
    process = _forks.Process(target=_serve, args=(port, dict(environment), str(log)))
    process.start()
    return process


def _serve(port: int, environment: dict[str, str], log: str) -> None:
    end_with_parent()
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    for stream in (1, 2):
        os.dup2(output, stream)
    os.chdir(REPOSITORY)
    os.environ.clear()
    os.environ.update(environment)

    import uvicorn
    from prefect.context import refresh_global_settings_context

    from domain import failpoints

    refresh_global_settings_context()
    importlib.reload(failpoints)  # which place is armed was looked up when it was imported
    uvicorn.run("domain.app:create_app", factory=True, host="127.0.0.1", port=port)
