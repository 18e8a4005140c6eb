"""A private Prefect server with every workflow deployed, on the benchmark's own PostgreSQL."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import httpx
import psycopg

from benchmarks._servers import Postgres
from deployments.stack.owner import tied
from deployments.stack.ports import any_port
from deployments.stack.state import REPOSITORY

DATABASE = "prefect_bench"
START_SECONDS = 120.0


@contextmanager
def prefect_server(cluster: Postgres, folder: str) -> Iterator[dict[str, str]]:
    """A server as the embedded stack starts it, but with its messages in memory; yields its clients' environment.

    No worker is there: runs are created and wait, which is all that dispatching asks of Prefect.
    """
    port = any_port()
    environment = _environment(port, folder)
    command = tied(sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", port)
    with psycopg.connect(cluster.url(), autocommit=True) as connection:
        connection.execute(f"create database {DATABASE} owner cairn_prefect")
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment | {"PREFECT_API_DATABASE_CONNECTION_URL": _database(cluster)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_until_ready(environment["PREFECT_API_URL"], process)
        deploy = tied(sys.executable, "-m", "deployments.cli", "deploy")
        subprocess.run(deploy, cwd=REPOSITORY, env=environment, check=True, capture_output=True)
        yield environment
    finally:
        process.terminate()
        process.wait(30)


def _environment(port: int, folder: str) -> dict[str, str]:
    inherited = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    return inherited | {
        "HOME": folder,
        "TMPDIR": folder,
        "PREFECT_HOME": f"{folder}/prefect",
        "PREFECT_API_URL": f"http://127.0.0.1:{port}/api",
        "PREFECT_SERVER_ALLOW_EPHEMERAL_MODE": "false",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_UI_ENABLED": "false",
        "PREFECT_SERVER_SERVICES_LATE_RUNS_AFTER_SECONDS": "86400",  # nobody takes them
    }


def _database(cluster: Postgres) -> str:
    return cluster.url("cairn_prefect", DATABASE).replace("postgresql://", "postgresql+asyncpg://", 1)


def _wait_until_ready(url: str, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with suppress(httpx.HTTPError):
            if httpx.get(f"{url}/health").is_success:
                return
        time.sleep(0.2)
    raise RuntimeError("The Prefect server that is to be measured did not start.")
