"""Three ways to run a light flow, from trigger to finish: the stock process worker, warm fork, in the worker itself.

One embedded stack with all that a user has. Each way has a pool, a deployment of `echo_test` and a worker of its own,
and is measured alone. Last, how much memory the light worker takes while parents wait for a pool that starts nothing.
"""

import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from typing import Any

import httpx

from benchmarks._load import this_machine
from deployments.deploy import job_template
from deployments.stack import control
from deployments.stack.state import State
from deployments.workers.inline import InlineWorker

FLOW = "echo_test"
SINGLE = 9
AT_ONCE = 20
RUSHES = 3
PARENTS = 200
PATIENCE_SECONDS = 180.0
LOOK_SECONDS = 0.03
ENDED = {"COMPLETED", "FAILED", "CRASHED", "CANCELLED"}
RUSH = f"{AT_ONCE}_at_once"
TARGETS = {("inline", "one"): 0.15, ("inline", RUSH): 0.12, ("warm", "one"): 0.3}  # warm: what the gdal pool uses
MEMORY_TARGET_MB = 1024.0
ADVANCE_SECONDS = 6.0


@dataclass(frozen=True)
class Way:
    """A pool of one type, and how often its worker polls."""

    name: str
    poll_seconds: float
    kind: str
    template: dict[str, Any]


@dataclass(frozen=True)
class Bench:
    """A stack, asked as its worker and its operator."""

    facts: dict[str, Any]
    environment: dict[str, str]
    http: httpx.Client

    def post(self, path: str, body: dict[str, Any]) -> Any:
        return self.http.post(path, json=body).raise_for_status().json()

    def deploy(self, way: Way) -> str:
        """A pool of this type and the flow's deployment on it; the deployment's id."""
        template = {"name": way.name, "type": way.kind, "base_job_template": way.template}
        self.post("/work_pools/", template)
        known = self.http.get(f"/deployments/name/{FLOW}/{FLOW}").raise_for_status().json()
        body = {"name": way.name, "flow_id": known["flow_id"], "entrypoint": known["entrypoint"]}
        return str(self.post("/deployments/", body | {"work_pool_name": way.name})["id"])

    @contextmanager
    def worker(self, way: Way) -> Iterator[None]:
        """Its worker, started as Prefect's users start one."""
        code = f"import {InlineWorker.__module__}; from prefect.cli import app; app()"
        arguments = ["worker", "start", "--pool", way.name, "--type", way.kind, "--name", way.name]
        process = subprocess.Popen(
            [sys.executable, "-c", code, *arguments],
            env=self.environment | {"PREFECT_WORKER_QUERY_SECONDS": str(way.poll_seconds)},
            cwd="/",
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            _until(lambda: self._online(way.name))
            yield
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _online(self, pool: str) -> bool:
        return any(worker["status"] == "ONLINE" for worker in self.post(f"/work_pools/{pool}/workers/filter", {}))

    def seconds(self, deployment: str, count: int) -> float:
        """From the first trigger until so many runs have finished."""
        began = time.perf_counter()
        runs = [self.trigger(deployment, message="bench") for _ in range(count)]
        for run in runs:
            _until(lambda run=run: self._ended(run))  # type: ignore[misc]
        return time.perf_counter() - began

    def trigger(self, deployment: str, **inputs: Any) -> str:
        body = {"parameters": inputs, "state": {"type": "SCHEDULED"}, "enforce_parameter_schema": False}
        return str(self.post(f"/deployments/{deployment}/create_flow_run", body)["id"])

    def _ended(self, run: str) -> bool:
        state = self.http.get(f"/flow_runs/{run}").raise_for_status().json()["state_type"]
        if state in ENDED - {"COMPLETED"}:
            raise RuntimeError(f"A run that is measured ended {state}.")
        return state == "COMPLETED"

    def memory_mb(self, parents: int) -> tuple[float, float]:
        """What the stack's light worker holds before and while so many parents wait for children that do not start."""
        self.http.patch("/work_pools/gdal", json={"is_paused": True}).raise_for_status()
        before = self._resident_mb()
        deployment = self.http.get("/deployments/name/raster_ingest/raster_ingest").raise_for_status().json()["id"]
        for _ in range(parents):
            self.trigger(deployment, source="bronze/bench/none.tif")
        children = {"flow_runs": {"name": {"like_": "validate"}, "state": {"type": {"any_": ["SCHEDULED"]}}}}
        _until(lambda: int(self.post("/flow_runs/count", children)) >= parents)
        time.sleep(ADVANCE_SECONDS)  # the parents have all looked for their children
        return before, self._resident_mb()

    def _resident_mb(self) -> float:
        status = Path(f"/proc/{self.facts['services']['worker-light']['pid']}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        return int(found[1]) / 1024 if found else 0.0


def run(single: int = SINGLE, rushes: int = RUSHES, parents: int = PARENTS) -> dict[str, Any]:
    """Measure, and report in the shape of all benchmarks."""
    with _bench() as bench:
        times = {way.name: _measure(bench, way, single, rushes) for way in _ways()}
        before, waiting = bench.memory_mb(parents)
    results = [
        _result(f"{name}_{what}", values, _median(times["stock"][what]), TARGETS.get((name, what)))
        for name, measured in times.items()
        for what, values in measured.items()
    ]
    results.append(_memory(before, waiting, parents))
    return {"bench": "workers", "machine": this_machine(), "versions": _versions(), "results": results}


def _ways() -> Sequence[Way]:
    return (
        Way("stock", 1.0, "process", job_template(warm=False)),
        Way("warm", 1.0, "process", job_template(warm=True)),
        Way("inline", 0.4, InlineWorker.type, InlineWorker.get_default_base_job_template()),
    )


def _measure(bench: Bench, way: Way, single: int, rushes: int) -> dict[str, list[float]]:
    deployment = bench.deploy(way)
    dice = random.Random(7)  # noqa: S311 - moments between two polls, not secrets
    with bench.worker(way):
        bench.seconds(deployment, 1)
        one = []
        for _ in range(single):
            time.sleep(dice.uniform(0, way.poll_seconds))
            one.append(bench.seconds(deployment, 1))
        return {"one": one, RUSH: [bench.seconds(deployment, AT_ONCE) for _ in range(rushes)]}


@contextmanager
def _bench() -> Iterator[Bench]:
    with tempfile.TemporaryDirectory(prefix="cairn-bench-") as folder:
        Path(folder).chmod(0o711)
        state = State(Path(folder) / "state")
        facts = control.start(state, lambda _facts: None, tied=True)
        try:
            environment = _environment_of(facts["services"]["worker-gdal"]["pid"])
            user, _, password = environment["PREFECT_API_AUTH_STRING"].partition(":")
            with httpx.Client(base_url=environment["PREFECT_API_URL"], auth=(user, password), timeout=60) as http:
                yield Bench(facts, environment, http)
        finally:
            control.stop(state)
            control.wipe(state)


def _environment_of(pid: int) -> dict[str, str]:
    """What the stack gives its own worker, the address of its zygote included."""
    content = Path(f"/proc/{pid}/environ").read_bytes().decode()
    return dict(entry.split("=", 1) for entry in content.split("\0") if "=" in entry)


def _until(question: Any) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not question():
        if time.monotonic() > deadline:
            raise RuntimeError(f"What is measured did not end within {PATIENCE_SECONDS:.0f} s.")
        time.sleep(LOOK_SECONDS)


def _median(values: Sequence[float]) -> float:
    return statistics.median(values)


def _result(name: str, values: Sequence[float], baseline: float, target: float | None) -> dict[str, Any]:
    """The target is a share of the stock worker's time."""
    value = _median(values)
    ratio = value / baseline
    facts = {"name": name, "value": round(value, 3), "unit": "s", "baseline": round(baseline, 3)}
    note = f"trigger to finished; target is the ratio; from {min(values):.2f} to {max(values):.2f} s"
    holds = None if target is None else ratio <= target
    return facts | {"ratio": round(ratio, 3), "target": target, "holds": holds, "n": len(values), "note": note}


def _memory(before: float, waiting: float, parents: int) -> dict[str, Any]:
    facts = {"name": "light_worker_memory", "value": round(waiting, 1), "unit": "MB", "baseline": round(before, 1)}
    note = f"{parents} parents wait for children that do not start; baseline: before them"
    holds = waiting <= MEMORY_TARGET_MB
    return facts | {
        "ratio": round(waiting / before, 2), "target": MEMORY_TARGET_MB, "holds": holds, "n": parents, "note": note
    }  # fmt: skip


def _versions() -> dict[str, str]:
    return {"python": python_version(), "prefect": version("prefect")}


if __name__ == "__main__":
    json.dump(run(), sys.stdout, indent=2)
    sys.stdout.write("\n")
