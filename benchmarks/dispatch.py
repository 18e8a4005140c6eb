"""How long after its commit a submission is a flow run in Prefect, and how fast a rush of them is worked off.

One domain process with its relay, a real Prefect server and one PostgreSQL with full durability. The baseline asks the
same Prefect server for the same flow runs, one after the other, without us. No worker takes what is sent, and nobody
calls it late: what a flow run costs Prefect after it was made is not measured, on neither side.
"""

import asyncio
import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from platform import python_version
from typing import Any
from uuid import uuid4

import httpx
import psycopg

from benchmarks._flow_runs import figure
from benchmarks._load import WORKER_TOKEN, add_clients, steady, this_machine
from benchmarks._prefect import prefect_server
from benchmarks._servers import DOMAIN_KEYS, Postgres, postgres, served

RATE = 2.0
SECONDS = 20.0
RUSH = 1000
RUSH_SECONDS = 5.0
BARE = 100
RUSH_TARGET = 1.3
WARM_UP_SECONDS = 3.0
P99_TARGET = 1.0
PATIENCE_SECONDS = 600.0
BEACON_SECONDS = 10.0
DEPLOYMENT = "raster_ingest/raster_ingest"


@dataclass(frozen=True)
class Bench:
    """What is measured: one domain process, its database, and Prefect."""

    port: int
    cluster: Postgres
    prefect_url: str

    def sent(self, rate: float, seconds: float) -> list[tuple[float, float]]:
        """Submit at this rate; when each was accepted and when its flow run was known, once all of them are."""
        [(known,)] = self._rows("select count(*) from app.attempts")
        asyncio.run(steady(self.port, "/api/v1/submit", rate, seconds))
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self._rows("select 1 from app.attempts where sent_at is null limit 1"):
            if time.monotonic() > deadline:
                raise RuntimeError(f"Not all was dispatched within {PATIENCE_SECONDS:.0f} s.")
            time.sleep(0.2)
        # From the start of the transaction, before its commit, to the link, after Prefect's answer.
        return self._rows(f"""
            select extract(epoch from created_at)::float8, extract(epoch from sent_at)::float8
            from app.attempts order by created_at offset {int(known)}""")  # noqa: S608 - a number

    def _rows(self, query: str) -> list[Any]:
        with psycopg.connect(self.cluster.url()) as connection:
            return connection.execute(query.encode()).fetchall()

    def flow_runs(self) -> int:
        """How many flow runs Prefect has."""
        return int(httpx.post(f"{self.prefect_url}/flow_runs/count", json={}).raise_for_status().json())

    def bare(self) -> list[float]:
        """Measure how long Prefect takes to create a run when it is called directly."""
        with httpx.Client(base_url=self.prefect_url, timeout=30) as http:
            path = f"/deployments/name/{DEPLOYMENT}"
            deployment = http.get(path).raise_for_status().json()["id"]
            delays, made = [], []
            for _ in range(BARE):
                began = time.perf_counter()
                answer = http.post(f"/deployments/{deployment}/create_flow_run", json=flow_run()).raise_for_status()
                delays.append(time.perf_counter() - began)
                made.append(answer.json()["id"])
            for flow_run_id in made:  # Prefect would call each late after a while, while we are measured
                http.delete(f"/flow_runs/{flow_run_id}").raise_for_status()
        return delays


def flow_run() -> dict[str, Any]:
    """What ours are asked for by: a name, tags, a queue, and a key that makes each one."""
    return {
        "idempotency_key": str(uuid4()),
        "parameters": {"run_id": str(uuid4()), "attempt_token": "x"},
        "name": "bench 01234567 1 r1 #1",
        "tags": ["platform:ddh", "workflow:raster_ingest", "priority:normal", f"request:{uuid4()}"],
        "work_queue_name": "normal",
    }


def run(seconds: float = SECONDS, rush: int = RUSH) -> dict[str, Any]:
    """Measure, and report in the shape of all benchmarks."""
    with _bench() as bench:
        bench.sent(RATE, WARM_UP_SECONDS)
        bare = bench.bare()
        delays = [sent - accepted for accepted, sent in bench.sent(RATE, seconds)]
        before = bench.flow_runs()
        times = bench.sent(rush / RUSH_SECONDS, RUSH_SECONDS)
        created = bench.flow_runs() - before
    first, last = times[0][0], times[-1][0]
    done = max(sent for _, sent in times) - first
    at_rate = f"at {RATE:g} submissions/s, from the start of its transaction; baseline: Prefect's part alone"
    alone = (
        f"from the first submission; baseline: Prefect alone, one after the other, mean of {len(bare)}; target: ratio"
    )
    bare_rush = rush * statistics.mean(bare)
    results = [
        _delay("p50", delays, bare, at_rate),
        _delay("p99", delays, bare, at_rate, at_most=P99_TARGET),
        _compared("rush_queued_after", last - first, RUSH_SECONDS, len(times), "baseline: what was asked for"),
        _compared("rush_dispatched_after", done, bare_rush, len(times), alone, at_most=RUSH_TARGET),
        _all_there(created, rush),
    ]
    return {"bench": "dispatch", "machine": this_machine(), "versions": _versions(), "results": results}


@contextmanager
def _bench() -> Iterator[Bench]:
    with tempfile.TemporaryDirectory(prefix="cairn-bench-") as folder, postgres() as cluster:
        add_clients(cluster)
        with (
            prefect_server(cluster, folder) as prefect,
            served("domain.app:create_app", prefect | _environment(cluster, folder)) as port,
            served_pools(port),
        ):
            yield Bench(port, cluster, prefect["PREFECT_API_URL"])


@contextmanager
def served_pools(port: int) -> Iterator[None]:
    """Say all the time that both pools are served, by workers that take nothing: else each run would be marked."""
    over = threading.Event()

    def say() -> None:
        headers = {"Authorization": f"Bearer {WORKER_TOKEN}"}
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=30) as http:
            while not over.is_set():
                for pool in ("light", "gdal"):
                    http.post(f"/api/v1/pools/{pool}/beacon", json={"worker": "bench"}).raise_for_status()
                over.wait(BEACON_SECONDS)

    saying = threading.Thread(target=say)
    saying.start()
    try:
        yield
    finally:
        over.set()
        saying.join()


def _environment(cluster: Postgres, folder: str) -> dict[str, str]:
    """No worker ends what is sent, so admission must let all of it in; and nobody may take it for lost."""
    return {
        "CAIRN_DATABASE_URL": cluster.url("cairn_app"),
        "CAIRN_PUBLIC_URL": "https://bench.test",
        **DOMAIN_KEYS,
        "CAIRN_STORAGE_ROOT": folder,
        "CAIRN_IN_FLIGHT_PER_POOL": "1000000",
        "CAIRN_START_SECONDS": "86400",
    }


def _rank(delays: list[float], percent: int) -> float:
    """The nearest rank: a delay that was seen."""
    return sorted(delays)[-(-len(delays) * percent // 100) - 1]


def _delay(rank: str, delays: list[float], bare: list[float], note: str, **goal: float) -> dict[str, Any]:
    """One rank of the delays beside the same of the baseline. The target is of the value."""
    percent = int(rank.removeprefix("p"))
    value, baseline = _rank(delays, percent), _rank(bare, percent)
    made = figure(
        f"commit_to_flow_run_{rank}", value, "s", baseline=baseline, ratio=None, n=len(delays), note=note, **goal
    )
    return made | {"ratio": round(value / baseline, 2)}


def _compared(name: str, value: float, baseline: float, n: int, note: str, **goal: float) -> dict[str, Any]:
    return figure(name, value, "s", baseline=baseline, ratio=value / baseline, n=n, note=note, **goal)


def _all_there(created: int, rush: int) -> dict[str, Any]:
    facts = {"name": "rush_flow_runs", "value": created, "unit": "1", "baseline": rush, "ratio": created / rush}
    return facts | {"target": rush, "holds": created == rush, "n": rush, "note": "flow runs that Prefect counts"}


def _versions() -> dict[str, str]:
    return {"python": python_version(), **{name: version(name) for name in ("prefect", "psycopg", "sqlalchemy")}}


if __name__ == "__main__":
    json.dump(run(), sys.stdout, indent=2)
    sys.stdout.write("\n")
