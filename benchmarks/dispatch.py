"""How long after its commit a submission is a flow run in Prefect, and how fast a rush of them is worked off.

One domain process with its relay, a real Prefect server and one PostgreSQL with full durability. The baseline asks the
same Prefect server for the same flow runs, one after the other, without us.
"""

import asyncio
import json
import statistics
import sys
import tempfile
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

from benchmarks._load import add_clients, steady, this_machine
from benchmarks._prefect import prefect_server
from benchmarks._servers import DOMAIN_KEYS, Postgres, postgres, served

RATE = 2.0
SECONDS = 20.0
RUSH = 1000
RUSH_SECONDS = 5.0
BARE = 40
WARM_UP_SECONDS = 3.0
P99_TARGET = 1.0
PATIENCE_SECONDS = 600.0
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
            delays = []
            for _ in range(BARE):
                body = {"idempotency_key": str(uuid4()), "parameters": {"run_id": str(uuid4()), "attempt_token": "x"}}
                began = time.perf_counter()
                http.post(f"/deployments/{deployment}/create_flow_run", json=body).raise_for_status()
                delays.append(time.perf_counter() - began)
        return delays


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
    alone = "from the first submission; baseline: Prefect's part alone, one run after the other"
    results = [
        _result("commit_to_flow_run_p50", _rank(delays, 50), "s", _rank(bare, 50), None, len(delays), at_rate),
        _result("commit_to_flow_run_p99", _rank(delays, 99), "s", _rank(bare, 99), P99_TARGET, len(delays), at_rate),
        _result("rush_queued_after", last - first, "s", RUSH_SECONDS, None, len(times), "baseline: what was asked for"),
        _result("rush_dispatched_after", done, "s", rush * statistics.mean(bare), None, len(times), alone),
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
        ):
            yield Bench(port, cluster, prefect["PREFECT_API_URL"])


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


def _result(
    name: str, value: float, unit: str, baseline: float, target: float | None, n: int, note: str
) -> dict[str, Any]:
    facts = {"name": name, "value": round(value, 4), "unit": unit, "baseline": round(baseline, 4), "target": target}
    holds = None if target is None else value <= target
    return facts | {"ratio": round(value / baseline, 2), "holds": holds, "n": n, "note": note}


def _all_there(created: int, rush: int) -> dict[str, Any]:
    facts = {"name": "rush_flow_runs", "value": created, "unit": "1", "baseline": rush, "ratio": created / rush}
    return facts | {"target": rush, "holds": created == rush, "n": rush, "note": "flow runs that Prefect counts"}


def _versions() -> dict[str, str]:
    return {"python": python_version(), **{name: version(name) for name in ("prefect", "psycopg", "sqlalchemy")}}


if __name__ == "__main__":
    json.dump(run(), sys.stdout, indent=2)
    sys.stdout.write("\n")
