"""A stack of its own for a benchmark: everything that a user has, in a folder that is gone afterwards."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psycopg
from psycopg import sql

from deployments.stack import control
from deployments.stack.owner import owned, tied
from deployments.stack.state import REPOSITORY, StackState, read_json

PAGE = 200
RUN_SECONDS = 120.0
CAIRN = (sys.executable, "-m", "deployments.cli")
RECORDED = "select (select count(*) from task_run_state) + (select count(*) from events)"
LOST = ("dropping", "dropped")


@dataclass(frozen=True)
class BenchStack:
    """A running stack, asked as a worker, an operator, or its databases' administrator."""

    state: StackState

    def facts(self, service: str) -> dict[str, Any]:
        found: dict[str, Any] = (read_json(self.state.stack_file) or {})["services"][service]
        return found

    def worker_environment(self) -> dict[str, str]:
        """What the stack's own worker has, so that whatever runs with it has all that a user's runs have."""
        content = Path(f"/proc/{self.facts('worker-light')['pid']}/environ").read_bytes()
        return dict(entry.split("=", 1) for entry in content.decode().split("\0") if "=" in entry)

    def prefect(self) -> httpx.Client:
        user, _, password = self.worker_environment()["PREFECT_API_AUTH_STRING"].partition(":")
        return httpx.Client(base_url=f"{self.facts('prefect')['url']}/api", auth=(user, password), timeout=30)

    def operator(self) -> httpx.Client:
        headers = {"Authorization": f"Bearer {self.state.secrets['operator']}"}
        return httpx.Client(base_url=self.facts("domain")["url"], headers=headers, timeout=30)

    def start(self, workflow_id: str) -> str:
        """Order a run of the workflow from the domain, on the stack's workers."""
        with self.operator() as http:
            made = http.post("/api/v1/runs", json={"workflow_id": workflow_id}).raise_for_status().json()
        return str(made["run_id"])

    def completed_in(self, run_id: str) -> float:
        """How long the run took, from its acceptance to its commit, by the domain's clock."""
        query = "select state, extract(epoch from finished_at - created_at)::float8 from app.runs where run_id = %s"
        deadline = time.monotonic() + RUN_SECONDS
        while True:
            [(state, took)] = self.rows(query, run_id)
            if state == "completed":
                return float(took)
            if time.monotonic() > deadline:
                raise RuntimeError(f"Run {run_id} is {state} after {RUN_SECONDS:.0f} s.")
            time.sleep(0.1)

    def marks(self, run_id: str) -> list[dict[str, Any]]:
        """Return the marks that `scripted` handlers left of each of their tries."""
        folder = self.state.storage / "runs" / "trials" / run_id
        return [json.loads(file.read_text()) for file in folder.glob("*.json")]

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.facts("postgres")["url"]) as connection:
            return connection.execute(query.encode(), values or None).fetchall()

    def written_by_prefect(self) -> int:
        """Count the events and task runs that Prefect's server has recorded."""
        url = self.facts("postgres")["url"].removesuffix("/cairn") + "/prefect"
        with psycopg.connect(url) as connection:
            row = connection.execute(RECORDED).fetchone()
        return row[0] if row else 0

    def domain_rows(self) -> int:
        """How many rows the domain has, in all of its tables."""
        with psycopg.connect(self.facts("postgres")["url"]) as connection:
            tables = connection.execute("select tablename from pg_tables where schemaname = 'app'").fetchall()
            counts = [
                connection.execute(sql.SQL("select count(*) from app.{}").format(sql.Identifier(name))).fetchone()
                for (name,) in tables
            ]
        return sum(count for row in counts if row for count in row)

    def completed_task_runs(self, flow_run_id: str) -> set[str]:
        """The task runs of a flow run that Prefect's records show as completed."""
        wanted = {
            "flow_runs": {"id": {"any_": [flow_run_id]}},
            "task_runs": {"state": {"type": {"any_": ["COMPLETED"]}}},
        }
        found: set[str] = set()
        with self.prefect() as http:
            while True:
                page = {"limit": PAGE, "offset": len(found), "sort": "ID_DESC"}
                rows = http.post("/task_runs/filter", json=wanted | page).raise_for_status().json()
                found |= {row["id"] for row in rows}
                if len(rows) < PAGE:
                    return found

    def dropped_messages(self) -> int:
        """How many lines of the Prefect server's log tell of a message that was dropped."""
        lines = self.state.log("prefect").read_text(errors="replace").lower().splitlines()
        return sum(any(word in line for word in LOST) for line in lines)


@contextmanager
def running_stack(workflows: Mapping[str, str], **settings: str) -> Iterator[BenchStack]:
    """A stack that has these workflows, by id, beside the platform's own."""
    with tempfile.TemporaryDirectory(prefix="cairn-bench-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o711)  # PostgreSQL's user passes through
        definitions = Path(folder, "workflows")
        shutil.copytree(REPOSITORY / "workflows", definitions)  # the domain needs some of the platform's own
        for name, text in workflows.items():
            (definitions / f"{name}.yaml").write_text(text)
        state = StackState(Path(folder, "state"))
        environment = os.environ | {"CAIRN_STATE": str(state.root), "CAIRN_WORKFLOWS_DIR": str(definitions), **settings}
        environment |= owned()
        try:
            up = tied(*CAIRN, "up", "--detach")
            subprocess.run(up, env=environment, cwd=REPOSITORY, check=True, capture_output=True)
            yield BenchStack(state)
        finally:
            control.stop(state)
