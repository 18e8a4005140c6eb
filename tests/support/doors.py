"""The gateway and the domain as processes of their own, over a test database: for what only a real server shows."""

import asyncio
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from deployments.stack.owner import tied
from deployments.stack.ports import any_port
from deployments.stack.state import REPOSITORY
from tests.support.asking import ask
from tests.support.cluster import TestDatabase
from tests.support.domain_process import serving
from tests.support.platform import KEYS, add_clients

START_SECONDS = 120.0


@dataclass(frozen=True)
class Door:
    """A running gateway."""

    port: int
    domain_port: int
    pid: int
    database: TestDatabase

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def domain_url(self) -> str:
        return f"http://127.0.0.1:{self.domain_port}"

    def resident_mb(self) -> float:
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1_000_000

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """What the database holds, asked as its administrator."""
        return ask(self.database.url(), query)

    async def say(
        self, *parts: bytes, pause_seconds: float = 0.0, patience_seconds: float = 60.0, port: int | None = None
    ) -> bytes:
        """Everything that the gateway, or who is at this port, answers to these bytes until it or its patience ends
        the connection.
        """
        reader, writer = await asyncio.open_connection("127.0.0.1", port or self.port)
        try:
            for part in parts:
                with contextlib.suppress(ConnectionError):
                    writer.write(part)
                    await writer.drain()
                await asyncio.sleep(pause_seconds)
            return await answer_of(reader, patience_seconds)
        finally:
            writer.close()


async def answer_of(reader: asyncio.StreamReader, patience_seconds: float = 60.0) -> bytes:
    """What comes until the connection ends or nothing more does."""
    answer = b""
    with contextlib.suppress(TimeoutError, ConnectionError):
        async with asyncio.timeout(patience_seconds):
            while part := await reader.read(65_536):
                answer += part
    return answer


def status_of(answer: bytes) -> int:
    """The status of a raw answer; 0 where there is none."""
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.1 ") else 0


@asynccontextmanager
async def running_door(database: TestDatabase, storage: Path, **settings: str) -> AsyncIterator[Door]:
    """Both processes, ready; ended together."""
    add_clients(database)
    domain_port, port = any_port(), any_port()
    domain = {
        "PATH": os.environ["PATH"],
        "HOME": str(storage),
        "CAIRN_DATABASE_URL": database.url("cairn_app"),
        "CAIRN_PUBLIC_URL": "http://cairn.test",
        "CAIRN_PLAINTEXT_HOSTS": '["cairn.test"]',
        **KEYS,
        "CAIRN_STORAGE_ROOT": str(storage),
        "CAIRN_RELAY_ENABLED": "false",
        "CAIRN_CALLBACKS_ENABLED": "false",
    }
    gateway = {
        "CAIRN_DATABASE_GATEWAY_URL": database.url("cairn_gateway"),
        "CAIRN_DOMAIN_URL": f"http://127.0.0.1:{domain_port}",
        "CAIRN_SERVING_URL": "http://127.0.0.1:9",
        "CAIRN_SERVICE_TOKEN": "secret-gateway",
        **settings,
    }
    log = storage / f"domain-{domain_port}.log"
    with serving(domain_port, domain, log), process(["gateway", "--port", str(port)], gateway) as running:
        door = Door(port, domain_port, running.pid, database)
        await _ready(door.domain_url, door.url)
        yield door


@contextmanager
def process(module: Sequence[str], environment: dict[str, str]) -> "Iterator[subprocess.Popen[bytes]]":
    """`python -m` of this with these settings and no others of ours."""
    inherited = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    command = tied(sys.executable, "-m", *module)
    running = subprocess.Popen(command, cwd=REPOSITORY, env=inherited | environment, stderr=subprocess.DEVNULL)
    try:
        yield running
    finally:
        running.terminate()
        running.wait(120)


async def _ready(*urls: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    async with httpx.AsyncClient(trust_env=False) as client:
        for url in urls:
            while True:
                with contextlib.suppress(httpx.HTTPError):
                    if (await client.get(f"{url}/readyz")).is_success:
                        break
                if time.monotonic() > deadline:
                    raise RuntimeError(f"{url} did not start.")
                await asyncio.sleep(0.1)
