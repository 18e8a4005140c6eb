"""A real Prefect server for tests, its pools, deployments and workers: messages in memory, database in the cluster."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from deployments.stack.owner import tied
from deployments.stack.ports import any_port
from deployments.stack.postgres import ADMIN
from tests.support.clock import until
from tests.support.cluster import TestCluster, open_folder
from tests.support.ready_databases import give_prefects_tables
from tests.support.warm import Forked, Place, forked, module

REPOSITORY = Path(__file__).resolve().parents[2]
ENDED = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")
Process = Forked | subprocess.Popen[bytes]
PATIENCE_SECONDS = 120.0  # with a busy machine: what takes longer hangs


@dataclass
class PrefectServer:
    """A server and its clients' environment."""

    folder: Path
    port: int
    database: str
    http: httpx.Client = field(init=False)
    process: "subprocess.Popen[bytes]" = field(init=False)

    def __post_init__(self) -> None:
        self.http = httpx.Client(base_url=self.api, timeout=30)

    @property
    def api(self) -> str:
        return f"http://127.0.0.1:{self.port}/api"

    @property
    def environment(self) -> dict[str, str]:
        """What a client of this server gets, and nothing of the user's own profile."""
        inherited = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        return inherited | {
            "HOME": str(self.folder),
            "TMPDIR": str(self.folder),
            "PREFECT_HOME": str(self.folder / "prefect"),
            "PREFECT_API_URL": self.api,
            "PREFECT_SERVER_ALLOW_EPHEMERAL_MODE": "false",
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            "PREFECT_UI_ENABLED": "false",
            "PREFECT_WORKER_QUERY_SECONDS": "0.3",
            "PYTHONPATH": str(REPOSITORY),
        }

    def cairn(self, *arguments: str, **settings: str) -> "subprocess.CompletedProcess[str]":
        """Run our command against this server."""
        with tempfile.TemporaryDirectory(dir=self.folder) as said:
            output, errors = Path(said) / "output", Path(said) / "errors"
            place = Place(REPOSITORY, self.environment | settings, output, errors)
            code = forked(place, module, "deployments.cli", *arguments).wait(180)
            return subprocess.CompletedProcess(arguments, code, output.read_text(), errors.read_text())

    def run_module(self, *arguments: str, **settings: str) -> "subprocess.CompletedProcess[str]":
        """Run a Python module's command against this server."""
        return subprocess.run(
            [sys.executable, "-m", *arguments],
            cwd=REPOSITORY,
            env=self.environment | settings,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )

    def start(self) -> None:
        command = tied(sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", self.port)
        with (self.folder / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                command,
                cwd=self.folder,
                env=self.environment | {"PREFECT_API_DATABASE_CONNECTION_URL": self.database},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        until(self._healthy, PATIENCE_SECONDS)

    def _healthy(self) -> bool:
        assert self.process.poll() is None, (self.folder / "server.log").read_text()[-2000:]
        with suppress(httpx.HTTPError):
            return self.http.get("/health").is_success
        return False

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    # --- pools, deployments, runs ---

    def pool(self, name: str, kind: str = "cairn-inline", template: dict[str, Any] | None = None) -> None:
        bare = {"job_configuration": {"name": None}, "variables": {"type": "object", "properties": {}}}
        self._post("/work_pools/", {"name": name, "type": kind, "base_job_template": template or bare})

    def deploy(self, pool: str, entrypoint: str) -> str:
        """A deployment of this flow, by its entrypoint; its id."""
        name = entrypoint.rpartition(".")[2]
        flow = self._post("/flows/", {"name": name})["id"]
        body = {"name": pool, "flow_id": flow, "work_pool_name": pool, "entrypoint": entrypoint}
        return str(self._post("/deployments/", body)["id"])

    def trigger(self, deployment: str, **parameters: Any) -> str:
        run = self._post(
            f"/deployments/{deployment}/create_flow_run", {"parameters": parameters, "state": {"type": "SCHEDULED"}}
        )
        return str(run["id"])

    def cancel(self, run: str) -> None:
        self._post(f"/flow_runs/{run}/set_state", {"state": {"type": "CANCELLING", "name": "Cancelling"}})

    def run(self, run: str) -> dict[str, Any]:
        found: dict[str, Any] = self.http.get(f"/flow_runs/{run}").raise_for_status().json()
        return found

    def state(self, run: str) -> str:
        return str(self.run(run)["state_type"])

    def states(self, run: str) -> list[str]:
        """Every state that the run went through."""
        history = self.http.get("/flow_run_states/", params={"flow_run_id": run}).raise_for_status().json()
        return [state["name"] for state in sorted(history, key=lambda state: state["timestamp"])]

    def until_state(self, run: str, *wanted: str, seconds: float = PATIENCE_SECONDS) -> str:
        def there() -> bool:
            with suppress(httpx.HTTPError):
                return self.state(run) in (wanted or ENDED)
            return False

        until(there, seconds, lambda: f"{self.run(run)['state']}")
        return self.state(run)

    def logs(self, run: str) -> list[str]:
        query = {"logs": {"flow_run_id": {"any_": [run]}}, "sort": "TIMESTAMP_ASC"}
        return [line["message"] for line in self._post("/logs/filter", query)]

    def _post(self, path: str, body: dict[str, Any]) -> Any:
        answer = self.http.post(path, json=body)
        assert answer.is_success, answer.text
        return answer.json()

    # --- workers ---

    @contextmanager
    def worker(self, pool: str, *, cold: bool = False, **settings: str) -> Iterator[Process]:
        """A worker as anyone starts it; of code that is not in this process, cold."""
        log, environment = self.folder / f"worker-{pool}.log", self.environment | settings
        start = ("prefect", "worker", "start", "--pool", pool, "--type", "cairn-inline", "--name", f"{pool}-1")
        process = (
            self._cold(start, environment, log)
            if cold
            else forked(Place(self.folder, environment, log, log), module, *start)
        )
        try:
            until(lambda: self._online(pool, process), PATIENCE_SECONDS)
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _cold(self, start: Sequence[str], environment: Mapping[str, str], log: Path) -> "subprocess.Popen[bytes]":
        command = tied(sys.executable, "-m", *start)
        with log.open("ab") as said:
            return subprocess.Popen(
                command, cwd=self.folder, env=environment, stdout=said, stderr=said, start_new_session=True
            )

    def _online(self, pool: str, process: Process) -> bool:
        assert process.poll() is None, self.worker_log(pool)
        workers = self._post(f"/work_pools/{pool}/workers/filter", {})
        return any(worker["status"] == "ONLINE" for worker in workers)

    def worker_log(self, pool: str) -> str:
        return (self.folder / f"worker-{pool}.log").read_text()

    def until_logged(self, pool: str, words: str) -> None:
        """Until the pool's worker has said so."""
        until(lambda: words in self.worker_log(pool), tell=lambda: self.worker_log(pool))


@contextmanager
def running_prefect(cluster: TestCluster) -> Iterator[PrefectServer]:
    """The server with a folder and a database of its own."""
    with open_folder("prefect") as folder, cluster.database("template0") as database:
        give_prefects_tables(database, ADMIN)
        url = database.url().replace("postgresql://", "postgresql+asyncpg://", 1)
        server = PrefectServer(folder, any_port(), url)
        try:
            server.start()
            yield server
        finally:
            server.kill()
            server.http.close()
