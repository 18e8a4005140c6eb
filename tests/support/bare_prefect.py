"""A Prefect server of its own over a test database, without workers: what `cairn deploy` and Prefect's CLI talk to."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.support.cluster import TestCluster, free_port

REPOSITORY = Path(__file__).resolve().parents[2]
START_SECONDS = 90.0


@dataclass(frozen=True)
class PrefectServer:
    """The running server, and how programs are pointed at it."""

    api: str
    environment: Mapping[str, str]

    def run(self, *arguments: str, **settings: str) -> "subprocess.CompletedProcess[str]":
        """Run a Python module's command against this server."""
        return subprocess.run(
            [sys.executable, "-m", *arguments], cwd=REPOSITORY, env={**self.environment, **settings},
            capture_output=True, text=True, timeout=180, check=False,
        )  # fmt: skip


@contextmanager
def running_prefect(cluster: TestCluster, folder: Path) -> Iterator[PrefectServer]:
    """Prefect's server with its own database; its broker is in memory, for nothing here runs flows."""
    with cluster.database("template0") as database:
        port = free_port()
        api = f"http://127.0.0.1:{port}/api"
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("CAIRN_", "PREFECT_"))}
        environment = kept | {
            "PREFECT_HOME": str(folder / "prefect"),
            "PREFECT_API_URL": api,
            "PREFECT_SERVER_ALLOW_EPHEMERAL_MODE": "false",
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            "PYTHONPATH": str(REPOSITORY),
        }
        url = database.url().replace("postgresql://", "postgresql+asyncpg://", 1)
        command = [sys.executable, "-m", "prefect", "server", "start", "--port", str(port)]
        log = folder / "prefect.log"
        with log.open("wb") as out:
            server = subprocess.Popen(
                command,
                env=environment | {"PREFECT_API_DATABASE_CONNECTION_URL": url, "PREFECT_UI_ENABLED": "false"},
                stdout=out, stderr=out, start_new_session=True,
            )  # fmt: skip
        try:
            _wait_until_healthy(api, server, log)
            yield PrefectServer(api, environment)
        finally:
            server.terminate()
            server.wait(30)


def _wait_until_healthy(api: str, server: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            if httpx.get(f"{api}/health", timeout=5).is_success:
                return
        except httpx.TransportError:
            pass
        if server.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"Prefect's server did not start:\n{log.read_text()[-2000:]}")
        time.sleep(0.1)
