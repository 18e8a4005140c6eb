"""Sends submissions for benchmarks, in the name of clients that it adds, at a given pace."""

import asyncio
import json
import os
import platform
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import psycopg

from benchmarks._servers import DOMAIN_KEYS, Connection, Postgres, connections
from domain.security import secret_hash

CONCURRENCY = 32
WARM_UP = 64
UNLIMITED = 1_000_000
LEAD_SECONDS = 1.0  # until the first is due: making thousands of tasks takes time, which is nobody's delay
ACCEPTED = frozenset({200, 202})  # 200 where the gateway was not answered and asked again: there is one submission
TOKEN = "bench-gateway"  # noqa: S105 - of a database that lives for one benchmark
WORKER_TOKEN = "bench-worker"  # noqa: S105 - of the same
TOKENS = {"gateway": TOKEN, "worker": WORKER_TOKEN}


def add_clients(cluster: Postgres) -> None:
    """A partner, the gateway that speaks for it, and a worker."""
    with psycopg.connect(cluster.url()) as connection:
        for client_id, role, platform_id in (
            ("ddh-bench", "partner", "ddh"),
            ("arcgis-bench", "partner", "arcgis"),
            ("gateway", "gateway", None),
            ("worker-bench", "worker", None),
        ):
            connection.execute(
                "insert into app.clients (client_id, role, platform_id, display_name, secret_hash)"
                " values (%s, %s, %s, %s, %s)",
                [client_id, role, platform_id, client_id, secret_hash(TOKENS.get(role, client_id))],
            )


def add_bare_table(cluster: Postgres) -> None:
    """What `_bare` writes into."""
    with psycopg.connect(cluster.url()) as connection:
        connection.execute("create table public.bench_rows (id bigserial primary key, body jsonb not null)")


def submission() -> bytes:
    """A submission of its own asset: what waits for another submission's lock is not what is measured."""
    refs = {"dataset_id": "bench", "resource_id": uuid4().hex}
    return json.dumps(
        {
            "request_id": str(uuid4()),
            "platform_id": "ddh",
            "client_id": "ddh-bench",
            "refs": refs,
            "version_label": "1",
            "data_type": "raster",
            "operation": "ingest",
            "source": "uploads/ddh/bench.tif",
        }
    ).encode()


async def steady(port: int, path: str, rate: float, seconds: float) -> list[float]:
    """Delays of submissions at a fixed rate."""

    async def submit(connection: Connection) -> None:
        expect(await connection.post(path, TOKEN, submission()))

    return await at_rate(port, submit, rate, seconds)


async def at_rate(port: int, act: Callable[[Connection], Awaitable[None]], rate: float, seconds: float) -> list[float]:
    """Delays at a fixed rate, each counted from when its act was due: waiting for a slow one is delay too."""
    async with connections(port, CONCURRENCY) as opened:
        free: asyncio.Queue[Connection] = asyncio.Queue()
        for connection in opened:
            free.put_nowait(connection)
        began = time.perf_counter() + LEAD_SECONDS

        async def send(due: float) -> float:
            await asyncio.sleep(due - time.perf_counter())
            connection = await free.get()
            await act(connection)
            free.put_nowait(connection)
            return time.perf_counter() - due

        return await asyncio.gather(*(send(began + number / rate) for number in range(max(1, int(rate * seconds)))))


@dataclass(frozen=True)
class HeldRate:
    """The outcome of holding a rate for a while: all delays, and those of its last part."""

    rate: float
    delays: list[float]

    def holds(self, bound_seconds: float) -> bool:
        """Whether nearly everybody was served in time, and those who came last waited no longer than those before.

        Where more comes than is served, the queue grows, and with it each delay; a short try may still end in time.
        """
        third = max(1, len(self.delays) // 3)
        first, last = statistics.median(self.delays[:third]), statistics.median(self.delays[-third:])
        return p99(self.delays) <= bound_seconds and last <= max(2 * first, bound_seconds / 4)


def highest(steps: Sequence[HeldRate], bound_seconds: float) -> HeldRate | None:
    """Return the highest rate that held, ignoring rates beyond one that did not."""
    found = None
    for step in sorted(steps, key=lambda step: step.rate):
        if not step.holds(bound_seconds):
            break
        found = step
    return found


async def flood(port: int, act: Callable[[Connection], Awaitable[None]], seconds: float) -> tuple[float, int]:
    """Return how many acts these clients get through, per second and in all, each acting after its last answer."""

    async def client(connection: Connection, until: float) -> int:
        done = 0
        while time.perf_counter() < until:
            await act(connection)
            done += 1
        return done

    async with connections(port, CONCURRENCY) as opened:
        for number in range(WARM_UP):
            await act(opened[number % CONCURRENCY])
        began = time.perf_counter()
        done = sum(await asyncio.gather(*(client(connection, began + seconds) for connection in opened)))
        return done / (time.perf_counter() - began), done


def expect(status: int) -> None:
    """Stop at anything but an acceptance."""
    if status not in ACCEPTED:
        raise RuntimeError(f"A submission was answered with {status}.")


def domain_environment(cluster: Postgres, storage: str) -> dict[str, str]:
    """Settings of a domain that takes in whatever comes and dispatches nothing: what Prefect costs is not measured."""
    return {
        "CAIRN_DATABASE_URL": cluster.url("cairn_app"),
        "CAIRN_PUBLIC_URL": "https://bench.test",
        **DOMAIN_KEYS,
        "CAIRN_STORAGE_ROOT": storage,
        "CAIRN_RELAY_ENABLED": "false",
        "CAIRN_OPEN_REQUESTS_PER_PLATFORM": str(UNLIMITED),
    }


def p99(delays: Sequence[float]) -> float:
    return statistics.quantiles(delays, n=100)[98]


def this_machine() -> dict[str, Any]:
    """What figures of one machine are compared by."""
    return {"system": platform.system(), "machine": platform.machine(), "cpus": os.cpu_count()}
