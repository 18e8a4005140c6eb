"""Starts what benchmarks use: a private, durable PostgreSQL, web servers of one worker, a cheap client."""

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import sql

from deployments.stack.owner import tied
from deployments.stack.ports import any_port
from deployments.stack.postgres import ADMIN, LOGIN_ROLES, data_folder, find_cluster
from deployments.stack.state import REPOSITORY, StackState
from domain.migrations import upgrade

DATABASE = "cairn_bench"
PASSWORD = "bench"  # noqa: S105 - of a cluster that lives for one benchmark, on loopback
START_SECONDS = 60.0
# What the domain seals with: of a database that lives for one benchmark.
DOMAIN_KEYS = {"CAIRN_SECRETS_KEYS": f'["{"A" * 43}="]', "CAIRN_AUDIT_KEYS": f'["{"A" * 43}="]'}


@dataclass(frozen=True)
class Postgres:
    """A running, migrated PostgreSQL cluster."""

    port: int
    admin_password: str

    def url(self, role: str = ADMIN, database: str = DATABASE) -> str:
        password = self.admin_password if role == ADMIN else PASSWORD
        return f"postgresql://{role}:{password}@127.0.0.1:{self.port}/{database}"


@contextmanager
def postgres(log: Path | None = None) -> Iterator[Postgres]:
    """A cluster with the settings of the embedded stack: fsync and synchronous_commit are on."""
    with tempfile.TemporaryDirectory(prefix="cairn-bench-") as folder:
        Path(folder).chmod(0o711)
        state = StackState(Path(folder))
        state.create()
        Path(folder).chmod(0o711)
        cluster = find_cluster(state)
        password = state.secrets["postgres_admin"]
        cluster.initialise(password)
        made = Postgres(any_port(), password)
        with (log or Path(os.devnull)).open("ab") as said:
            server = subprocess.Popen(cluster.server_command(made.port), cwd="/", stdout=said, stderr=said)
        try:
            _migrate(made)
            yield made
        finally:
            server.send_signal(2)
            server.wait(30)
            if not data_folder(state).is_relative_to(folder):
                subprocess.run(["rm", "-rf", str(data_folder(state))], check=True)


def _connect(made: Postgres) -> psycopg.Connection:
    """Connect as the administrator as soon as the server lets one in."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            return psycopg.connect(made.url(database="postgres"), autocommit=True)
        except psycopg.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def _migrate(made: Postgres) -> None:
    with _connect(made) as connection:
        for role in LOGIN_ROLES:
            create = sql.SQL("create role {} login password {}")
            connection.execute(create.format(sql.Identifier(role), sql.Literal(PASSWORD)))
        connection.execute(sql.SQL("create database {}").format(sql.Identifier(DATABASE)))
    upgrade(made.url())


@dataclass(frozen=True)
class Server:
    """A process that answers on loopback."""

    port: int
    pid: int

    def cpu_seconds(self) -> float:
        """Return the processor time that the process has used, its threads included."""
        return cpu_seconds(self.pid)


def cpu_seconds(pid: int) -> float:
    """Return the processor time that a process has used, its threads included."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def served(factory: str, environment: dict[str, str]) -> Iterator[int]:
    """Start one uvicorn worker of an application, and yield its port."""
    with serving(factory, environment) as server:
        yield server.port


@contextmanager
def serving(factory: str, environment: dict[str, str]) -> Iterator[Server]:
    """Start one uvicorn worker of an application, and yield its process."""
    # At a slow rate a client's connection rests for longer than the 5 s after which uvicorn would close it.
    options = ["--no-access-log", "--log-level", "warning", "--timeout-keep-alive", "120"]
    with started(["uvicorn", "--factory", factory, *options], environment) as server:
        yield server


@contextmanager
def started(module: Sequence[str], environment: dict[str, str]) -> Iterator[Server]:
    """Run `python -m` of this module at a free port and yield it once it listens."""
    port = any_port()
    command = tied(sys.executable, "-m", *module, "--port", port)
    inherited = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    process = subprocess.Popen(command, cwd=REPOSITORY, env=inherited | environment)
    try:
        _wait_until_listening(port, process)
        yield Server(port, process.pid)
    finally:
        process.terminate()
        process.wait(30)


def _wait_until_listening(port: int, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.1)
    raise RuntimeError("A server that is to be measured did not start.")


@dataclass(frozen=True)
class HttpAnswer:
    """One answer. Names of headers are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


class Connection:
    """HTTP/1.1 by hand: a client library would cost more than what is measured."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def open(cls, port: int) -> "Connection":
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def post(self, path: str, token: str, body: bytes) -> int:
        """Send, read the whole answer, return its status."""
        return (await self.ask("POST", path, token, body)).status

    async def ask(self, method: str, path: str, token: str, body: bytes = b"") -> HttpAnswer:
        """Send, and read the whole answer."""
        head = f"{method} {path} HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {token}\r\n"
        head += f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        return await self._answer(head.encode() + body)

    async def get(self, path: str) -> HttpAnswer:
        """Send a GET without body and credential."""
        return await self._answer(f"GET {path} HTTP/1.1\r\nhost: bench\r\n\r\n".encode())

    async def _answer(self, message: bytes) -> HttpAnswer:
        self.writer.write(message)
        answer = await self.reader.readuntil(b"\r\n\r\n")
        lines = (line.partition(b":") for line in answer.lower().split(b"\r\n")[1:])
        headers = {name.decode(): value.strip().decode() for name, _, value in lines}
        content = await self.reader.readexactly(int(headers["content-length"]))
        return HttpAnswer(int(answer.split(b" ", 2)[1]), headers, content)

    def close(self) -> None:
        self.writer.close()


@contextlib.asynccontextmanager
async def connections(port: int, count: int) -> AsyncIterator[Sequence[Connection]]:
    made = [await Connection.open(port) for _ in range(count)]
    try:
        yield made
    finally:
        for connection in made:
            connection.close()
