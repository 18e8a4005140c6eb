"""Trivial runs from trigger to finish: on both of the stack's pools as it serves them, beside the stock process worker.

One embedded stack with all that a user has; each way is measured alone. Last, how much memory the light worker takes
while parents wait for a pool that starts nothing.
"""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from statistics import median
from typing import Any

import httpx

from benchmarks._flow_runs import figure, told
from benchmarks._load import this_machine
from benchmarks._servers import cpu_seconds
from benchmarks._stack import BenchStack, running_stack
from benchmarks.engine import TWO_POOLS
from deployments.stack.owner import tied

LIGHT_FLOW, GDAL_FLOW, PARENT_FLOW = "echo_test", "bench_on_gdal", "bench_two_pools"
ON_GDAL = f"""
workflow_id: {GDAL_FLOW}
version: 1
nodes:
  start: {{type: start, next: echo}}
  echo: {{handler: echo, queue: gdal, next: end}}
  end: {{type: end}}
"""
WORKFLOWS = {GDAL_FLOW: ON_GDAL, PARENT_FLOW: TWO_POOLS}
STOCK = "stock"
STOCK_POLL_SECONDS, POLL_SECONDS = 1.0, 0.4
PATIENCE_SECONDS = 180.0
LOOK_SECONDS = 0.03
ENDED = {"COMPLETED", "FAILED", "CRASHED", "CANCELLED"}
RUSH = "at_once"
TARGETS = {("light", "one"): 0.15, ("light", RUSH): 0.12, ("gdal", "one"): 0.3}
ORDERED_TARGETS = {"one": 0.1, RUSH: 0.06}
ORDERED_SECONDS_TARGET = 0.3
ENDED_IN = """
select count(*) filter (where state = 'completed'), count(*) filter (where state = 'failed'),
    extract(epoch from max(finished_at) - min(created_at))::float8
from app.runs where run_id = any(%s)
"""
MEMORY_TARGET_MB = 1024.0
ADVANCE_SECONDS = 6.0
IDLE_LOAD_TARGET = 0.15


@dataclass(frozen=True)
class Amount:
    """How much is measured."""

    single: int
    rushes: int
    at_once: int
    parents: int
    rest_seconds: float = 4.0  # after so long without a run, workers look seldom
    quiet_seconds: float = 20.0


FULL = Amount(single=9, rushes=5, at_once=20, parents=200)
SHORT = Amount(single=3, rushes=1, at_once=20, parents=20)


@dataclass(frozen=True)
class Bench:
    """The stack's Prefect, asked as an operator."""

    stack: BenchStack
    http: httpx.Client
    dice: random.Random = field(default_factory=lambda: random.Random(7))  # noqa: S311 - moments, not secrets

    def post(self, path: str, body: dict[str, Any]) -> Any:
        return self.http.post(path, json=body).raise_for_status().json()

    def deployment(self, flow: str, name: str = "") -> dict[str, Any]:
        found: dict[str, Any] = self.http.get(f"/deployments/name/{flow}/{name or flow}").raise_for_status().json()
        return found

    @contextmanager
    def stock_worker(self) -> Iterator[str]:
        """A process pool and its worker as Prefect's users have them, with the light flow; the deployment's id."""
        self.post("/work_pools/", {"name": STOCK, "type": "process"})
        known = self.deployment(LIGHT_FLOW)
        body = {"name": STOCK, "flow_id": known["flow_id"], "entrypoint": known["entrypoint"]}
        deployment = str(self.post("/deployments/", body | {"work_pool_name": STOCK})["id"])
        process = subprocess.Popen(
            tied(sys.executable, "-m", "prefect", "worker", "start", "--pool", STOCK, "--type", "process"),
            env=self.stack.worker_environment() | {"PREFECT_WORKER_QUERY_SECONDS": str(STOCK_POLL_SECONDS)},
            cwd="/",
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            _until(
                lambda: any(one["status"] == "ONLINE" for one in self.post(f"/work_pools/{STOCK}/workers/filter", {}))
            )
            yield deployment
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def seconds(self, deployment: str, count: int) -> float:
        """From the first trigger until so many runs have finished."""
        began = time.perf_counter()
        runs = [self.trigger(deployment) for _ in range(count)]
        for run in runs:
            _until(lambda run=run: self._ended(run))  # type: ignore[misc]
        return time.perf_counter() - began

    def trigger(self, deployment: str) -> str:
        body = {"parameters": {}, "state": {"type": "SCHEDULED"}, "enforce_parameter_schema": False}
        return str(self.post(f"/deployments/{deployment}/create_flow_run", body)["id"])

    def _ended(self, run: str) -> bool:
        state = self.http.get(f"/flow_runs/{run}").raise_for_status().json()["state_type"]
        if state in ENDED - {"COMPLETED"}:
            raise RuntimeError(f"A run that is measured ended {state}.")
        return bool(state == "COMPLETED")

    def times(self, deployment: str, poll_seconds: float, size: Amount) -> dict[str, list[float]]:
        """Single runs, each from another moment between two polls; then many at once."""
        self.seconds(deployment, 1)
        one = []
        for _ in range(size.single):
            time.sleep(self.dice.uniform(0, poll_seconds))
            one.append(self.seconds(deployment, 1))
        return {"one": one, RUSH: [self.seconds(deployment, size.at_once) for _ in range(size.rushes)]}

    def ordered_seconds(self, count: int) -> float:
        """From the acceptance of the first of so many orders by the domain until the last has been committed."""
        with self.stack.operator() as http:
            runs = [
                http.post("/api/v1/runs", json={"workflow_id": LIGHT_FLOW}).raise_for_status().json()["run_id"]
                for _ in range(count)
            ]
        _until(lambda: self._committed(runs) is not None)
        return self._committed(runs) or 0.0

    def _committed(self, runs: list[str]) -> float | None:
        [(completed, failed, took)] = self.stack.rows(ENDED_IN, runs)
        if failed:
            raise RuntimeError("An ordered run that is measured failed.")
        return float(took) if completed == len(runs) else None

    def ordered_times(self, size: Amount) -> dict[str, list[float]]:
        """Single orders, each after the workers had nothing to do for a while; then many at once."""
        self.ordered_seconds(1)
        one = []
        for _ in range(size.single):
            time.sleep(size.rest_seconds + self.dice.uniform(0, POLL_SECONDS))
            one.append(self.ordered_seconds(1))
        return {"one": one, RUSH: [self.ordered_seconds(size.at_once) for _ in range(size.rushes)]}

    def idle_load(self, size: Amount) -> float:
        """How many processors are busy while nothing is to be done."""
        time.sleep(size.rest_seconds)
        began, used = time.perf_counter(), self._processor_seconds()
        time.sleep(size.quiet_seconds)
        return (self._processor_seconds() - used) / (time.perf_counter() - began)

    def _processor_seconds(self) -> float:
        """What these services have used, without processes that they have started."""
        services = ("prefect", "domain", "worker-light", "worker-gdal")
        return sum(cpu_seconds(self.stack.facts(service)["pid"]) for service in services)

    def memory_mb(self, parents: int) -> tuple[float, float]:
        """What the light worker holds before and while so many parents wait for children that do not start."""
        self.http.patch("/work_pools/gdal", json={"is_paused": True}).raise_for_status()
        before, parent = self._resident_mb(), str(self.deployment(PARENT_FLOW)["id"])
        for _ in range(parents):
            self.trigger(parent)
        waiting = {
            "work_pools": {"name": {"any_": ["gdal"]}},
            "flow_runs": {"state": {"type": {"any_": ["SCHEDULED"]}}},
        }
        _until(lambda: int(self.post("/flow_runs/count", waiting)) >= parents)
        time.sleep(ADVANCE_SECONDS)  # the parents have all looked for their children
        return before, self._resident_mb()

    def _resident_mb(self) -> float:
        status = Path(f"/proc/{self.stack.facts('worker-light')['pid']}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        return int(found[1]) / 1024 if found else 0.0


def run(size: Amount | None = None) -> dict[str, Any]:
    """Measure, and report in the shape of all benchmarks."""
    size = size or (SHORT if os.environ.get("CAIRN_BENCH_SHORT") else FULL)
    with running_stack(WORKFLOWS) as stack, stack.prefect() as http:
        results = list(told(_results(Bench(stack, http), size)))
    return {"bench": "workers", "machine": this_machine(), "versions": _versions(), "results": results}


def _results(bench: Bench, size: Amount) -> Iterator[dict[str, Any]]:
    with bench.stock_worker() as deployment:
        stock = bench.times(deployment, STOCK_POLL_SECONDS, size)
    for pool, flow in (("light", LIGHT_FLOW), ("gdal", GDAL_FLOW)):
        measured = bench.times(str(bench.deployment(flow)["id"]), POLL_SECONDS, size)
        for what, values in measured.items():
            name = f"{pool}_{size.at_once}_{what}" if what == RUSH else f"{pool}_{what}"
            yield _beside(name, values, stock[what], TARGETS.get((pool, what)))
    ordered = bench.ordered_times(size)
    for what, values in ordered.items():
        name = f"light_{size.at_once}_{what}_ordered" if what == RUSH else f"light_{what}_ordered"
        yield _beside(name, values, stock[what], ORDERED_TARGETS[what], "accepted by the domain to committed")
    yield figure(
        "light_one_ordered_seconds",
        median(ordered["one"]),
        "s",
        baseline=None,
        ratio=None,
        n=size.single,
        note="the same; the target is of the value",
        at_most=ORDERED_SECONDS_TARGET,
    )
    note = f"processors that Prefect, the domain and both workers take in {size.quiet_seconds:.0f} s without a run"
    load = bench.idle_load(size)
    yield figure("idle_load", load, "1", baseline=None, ratio=None, n=1, note=note, at_most=IDLE_LOAD_TARGET)
    before, waiting = bench.memory_mb(size.parents)
    note = f"{size.parents} parents wait for children that do not start; baseline: before them; the target is in MB"
    yield figure(
        "light_worker_memory",
        waiting,
        "MB",
        baseline=before,
        ratio=None,
        n=size.parents,
        note=note,
        at_most=MEMORY_TARGET_MB,
    )


def _beside(
    name: str,
    values: Sequence[float],
    stock: Sequence[float],
    target: float | None,
    what: str = "trigger to finished",
) -> dict[str, Any]:
    """Return a figure of one way beside the stock worker's time for the light flow."""
    value, baseline = median(values), median(stock)
    note = (
        f"{what}, from {min(values):.2f} to {max(values):.2f} s; "
        f"baseline: stock process worker, trigger to finished, {min(stock):.2f} to {max(stock):.2f} s; "
        "the target is of the ratio"
    )
    goal = {} if target is None else {"at_most": target}
    return figure(name, value, "s", baseline=baseline, ratio=value / baseline, n=len(values), note=note, **goal)


def _until(question: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not question():
        if time.monotonic() > deadline:
            raise RuntimeError(f"What is measured did not end within {PATIENCE_SECONDS:.0f} s.")
        time.sleep(LOOK_SECONDS)


def _versions() -> dict[str, str]:
    return {"python": python_version(), "prefect": version("prefect")}


if __name__ == "__main__":
    json.dump(run(), sys.stdout, indent=2)
    sys.stdout.write("\n")
