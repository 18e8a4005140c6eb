"""Submissions as benchmarks send them: who may, what they say, and at which pace."""

import asyncio
import json
import os
import platform
import time
from typing import Any
from uuid import uuid4

import psycopg

from benchmarks._servers import Connection, Postgres, connections
from domain.security import secret_hash

CONCURRENCY = 32
TOKEN = "bench-gateway"  # noqa: S105 - of a database that lives for one benchmark


def add_clients(cluster: Postgres) -> None:
    """A partner, and the gateway that speaks for it."""
    with psycopg.connect(cluster.url()) as connection:
        for client_id, role, platform_id in (("ddh-bench", "partner", "ddh"), ("gateway", "gateway", None)):
            connection.execute(
                "insert into app.clients (client_id, role, platform_id, display_name, secret_hash)"
                " values (%s, %s, %s, %s, %s)",
                [client_id, role, platform_id, client_id, secret_hash(TOKEN if role == "gateway" else client_id)],
            )


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
            "source": "uploads/bench.tif",
        }
    ).encode()


async def steady(port: int, path: str, rate: float, seconds: float) -> list[float]:
    """Delays at a fixed rate, each counted from when its submission was due: waiting for a slow one is delay too."""
    async with connections(port, CONCURRENCY) as opened:
        free: asyncio.Queue[Connection] = asyncio.Queue()
        for connection in opened:
            free.put_nowait(connection)
        began = time.perf_counter()

        async def send(due: float) -> float:
            await asyncio.sleep(due - time.perf_counter())
            connection = await free.get()
            expect(await connection.post(path, TOKEN, submission()))
            free.put_nowait(connection)
            return time.perf_counter() - due

        return await asyncio.gather(*(send(began + number / rate) for number in range(int(rate * seconds))))


def expect(status: int) -> None:
    """Stop at anything but an acceptance."""
    if status != 202:
        raise RuntimeError(f"A submission was answered with {status}.")


def this_machine() -> dict[str, Any]:
    """What figures of one machine are compared by."""
    return {"system": platform.system(), "machine": platform.machine(), "cpus": os.cpu_count()}
