"""Real domain processes that may die, clients and workers that ask again, and the invariants that must hold after."""

import asyncio
import hashlib
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx

from deployments.stack.ports import any_port
from tests.support.asking import ask
from tests.support.chaos_invariants import DEEDS, INVARIANTS, UNREST
from tests.support.chaos_stories import STORIES, all_done_again, new_asset
from tests.support.cluster import TestDatabase
from tests.support.domain_process import started
from tests.support.platform import KEYS, add_clients, submission
from tests.support.prefect_standin import StandIn, standing_in
from tests.support.warm import Forked

START_SECONDS = 60.0
QUIET_SECONDS = 60.0
# Waiting is shortened so that a kill costs seconds. The factors are printed with the results.
LEASE_SECONDS = 1.0
RETRY_SECONDS = 0.5
SWEEP_SECONDS = 2.0
SCALES = f"lease 60 s -> {LEASE_SECONDS} s, retry 5 s -> {RETRY_SECONDS} s, sweep 15 s -> {SWEEP_SECONDS} s"
BROKEN = {"problem": {"code": "broken-raster", "message": "It is broken."}}
OUTPUTS = {"cog": "x", "validation": {"sha256": "f" * 64}}


@dataclass
class Process:
    """One domain process: its API, its relay, its reconciler."""

    url: str
    process: Forked

    @property
    def dead(self) -> bool:
        return self.process.poll() is not None

    @property
    def killed(self) -> bool:
        return self.process.poll() == -signal.SIGKILL

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)


@dataclass
class Platform:
    """A database, a stand-in for Prefect, and whichever domain processes are alive."""

    database: TestDatabase
    standin: StandIn
    folder: Path
    processes: list[Process] = field(default_factory=list)
    journal: list[str] = field(default_factory=list)
    stories: list[asyncio.Task[None]] = field(default_factory=list)
    broken: set[str] = field(default_factory=set)
    is_lively: bool = False

    async def start(self, failpoint: str | None = None) -> Process:
        """A domain process; an armed one is asked before the others."""
        port = any_port()
        log = self.folder / f"domain-{port}.log"
        process = Process(f"http://127.0.0.1:{port}", started(port, self._environment(failpoint), log))
        self.processes.insert(0 if failpoint else len(self.processes), process)
        await self._ready(process)
        return process

    def _environment(self, failpoint: str | None) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "CAIRN_DATABASE_URL": self.database.url("cairn_app"),
            "CAIRN_PUBLIC_URL": "http://cairn.test",
            "CAIRN_PLAINTEXT_HOSTS": '["cairn.test"]',
            **KEYS,
            "CAIRN_STORAGE_ROOT": str(self.folder),
            "CAIRN_RELAY_LEASE_SECONDS": str(LEASE_SECONDS),
            "CAIRN_RELAY_RETRY_SECONDS": str(RETRY_SECONDS),
            "CAIRN_RELAY_POLL_SECONDS": "0.3",
            "CAIRN_RECONCILE_SECONDS": str(SWEEP_SECONDS),
            "CAIRN_ATTEMPT_PAUSE_SECONDS": "0",
            "PREFECT_API_URL": self.standin.url,
            "PREFECT_CLIENT_CSRF_SUPPORT_ENABLED": "false",
            "PREFECT_CLIENT_MAX_RETRIES": "0",
            "PREFECT_HOME": str(self.folder / "prefect"),
        } | ({"CAIRN_FAILPOINT": f"{failpoint}:once"} if failpoint else {})

    async def _ready(self, process: Process) -> None:
        async with httpx.AsyncClient() as http, asyncio.timeout(START_SECONDS):
            while not process.dead:
                try:
                    if (await http.get(f"{process.url}/readyz")).is_success:
                        return
                except httpx.HTTPError:
                    await asyncio.sleep(0.1)
        raise RuntimeError(f"A domain process ended at its start; its log is in {self.folder}.")

    async def ask(self, client_id: str, path: str, body: dict[str, Any], of: Process | None = None) -> httpx.Response:
        """Post until some process, `of` before others, answers, as callers do. Every message may arrive twice."""
        headers = {"Authorization": f"Bearer secret-{client_id}"}
        async with httpx.AsyncClient(headers=headers, timeout=10) as http:
            while True:
                alive = [process for process in self.processes if not process.dead]
                for process in sorted(alive, key=lambda process: process is not of):
                    try:
                        answer = await http.post(f"{process.url}/api/v1{path}", json=body)
                    except httpx.HTTPError:
                        continue
                    if answer.status_code != httpx.codes.SERVICE_UNAVAILABLE:
                        return answer
                await asyncio.sleep(0.05)

    async def live(self) -> None:
        """Submit an asset; what people do about it then happens beside everything else, one story after the other."""
        refs, story = new_asset(), STORIES[len(self.stories) % len(STORIES)]
        request_id = await self.submit(refs=refs)
        self.stories.append(asyncio.create_task(story(self, refs, request_id)))

    async def submit(self, **changes: Any) -> str:
        """Write down what is intended, then have it accepted."""
        body = submission(**{"refs": new_asset()} | changes)
        self.journal.append(body["request_id"])
        answer = await self.ask("gateway", "/submit", body)
        assert answer.status_code in {200, 202}, answer.text
        assert answer.json()["request_id"] == body["request_id"]
        return str(body["request_id"])

    async def work(self) -> None:
        """Be every worker: take each flow run that Prefect was given, start it, commit it."""
        async with asyncio.TaskGroup() as flows:
            while True:
                flows.create_task(self._execute(await self.standin.created.get()))

    async def _execute(self, run: dict[str, Any]) -> None:
        token, path = run["parameters"]["attempt_token"], f"/runs/{run['parameters']['run_id']}"
        start = {"attempt_token": token, "flow_run_id": run["id"]}
        if (await self.ask("worker", f"{path}/start", start)).is_success:
            await self._misbehave(path, token)
            await self.ask("worker", f"{path}/commit", {"attempt_token": token, "outputs": outputs_of(token)})
        run["state"] |= {"type": "COMPLETED", "name": "Completed"}

    async def _misbehave(self, path: str, token: str) -> None:
        """Of four runs one fails, one loses its attempt, one dawdles: the commit that follows is late, or may be."""
        way = UUID(path.removeprefix("/runs/")).int % 4 if self.is_lively else 3
        if way == 2:
            await asyncio.sleep(0.3)
        if way < 2 and path not in self.broken:
            self.broken.add(path)
            verdict = "failed" if way == 0 else "lost"
            await self.ask("worker", f"{path}/fail", {"attempt_token": token, "verdict": verdict, **BROKEN})

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        return ask(self.database.url(), query, values or None)

    async def rest(self) -> None:
        """Wait until nothing is open; give up after a minute and let the invariants say what is."""
        await asyncio.gather(*self.stories)
        await all_done_again(self) if self.is_lively else None
        for _ in range(int(QUIET_SECONDS * 10)):
            if not self.rows(UNREST):
                return
            await asyncio.sleep(0.1)

    def deeds(self) -> dict[str, int]:
        """What happened that could have broken an invariant: where nothing did, none was tried."""
        return {name: self.rows(query)[0][0] for name, query in DEEDS.items()}

    def violations(self) -> dict[str, int]:
        """How many rows break each invariant, and what the journal and Prefect know that the database does not."""
        found = {name: len(self.rows(query)) for name, query in INVARIANTS.items()}
        stored = {str(row[0]) for row in self.rows("select request_id from app.requests")}
        linked = {str(row[0]) for row in self.rows("select flow_run_id from app.attempts")} - {"None"}
        in_prefect = {run["id"] for run in self.standin.by_key.values()}
        found["I1 every intended request is there"] = len(set(self.journal) ^ stored)
        found["I4 links and flow runs agree"] = len(linked ^ in_prefect)
        return {name: count for name, count in found.items() if count}


def outputs_of(token: str) -> dict[str, Any]:
    """What this attempt makes, and no other."""
    return OUTPUTS | {"validation": {"sha256": hashlib.sha256(token.encode()).hexdigest()}}


@asynccontextmanager
async def platform(
    database: TestDatabase, folder: Path, drop_rate: float = 0.0, *, working: bool = True, lively: bool = False
) -> AsyncIterator[Platform]:
    """The platform with one unarmed domain process and, unless a test does their work, all its workers.

    Where it is lively, runs fail and lose attempts, and people do all they may (`Platform.live`).
    """
    add_clients(database)
    async with standing_in(drop_rate) as standin:
        made = Platform(database, standin, folder, is_lively=lively)
        with _ending(made.processes):
            await made.start()
            workers = asyncio.create_task(made.work() if working else asyncio.sleep(0))
            try:
                yield made
            finally:
                for task in (workers, *made.stories):
                    task.cancel()
                await asyncio.gather(workers, *made.stories, return_exceptions=True)


@contextmanager
def _ending(processes: list[Process]) -> Iterator[None]:
    try:
        yield
    finally:
        for process in processes:
            process.process.kill()
            process.process.wait(10)
