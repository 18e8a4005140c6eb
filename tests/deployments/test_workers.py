"""`cairn worker`: what it starts, that it shows the domain that it serves, how it is drained, that nothing is left."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.responses import SetStateStatus
from prefect.states import Pending, Running

from deployments import pools
from deployments.stack.owner import tied
from deployments.stack.supervisor import MARKER, processes_marked
from deployments.workers import serve
from deployments.workers.drain import parse
from deployments.workers.forking import TRIES, ForkingWorker
from deployments.workers.host import size_here
from flows.handlers.registry import registry
from flows.tries.workdir import PREFIX, Workdir
from tests.support.clock import eventually, until
from tests.support.prefect_server import PATIENCE_SECONDS, REPOSITORY, PrefectServer
from tests.support.receiver import Receiver, running_receiver

FLOWS = "tests.support.inline_flows"


@pytest.fixture(scope="module")
def prefect(workers_prefect: PrefectServer) -> PrefectServer:
    workers_prefect.pool("light")
    workers_prefect.pool("gdal", "process", pools.template("process", "gdal"))
    return workers_prefect


@pytest.fixture
async def domain() -> AsyncIterator[Receiver]:
    async with running_receiver() as receiver:
        yield receiver


def marker(name: str) -> str:
    """The state folder of the stack that a worker claims to be of."""
    return f"/nowhere/{os.getpid()}/{name}"  # not that of the same test beside, in another clone


@contextmanager
def started(
    prefect: PrefectServer, domain: Receiver, pool: str, name: str, **more: str
) -> Iterator["subprocess.Popen[bytes]"]:
    """`cairn worker start`, and whatever it left is ended."""
    settings = more | {
        "CAIRN_DOMAIN_URL": domain.url.removesuffix("/hook"),
        "CAIRN_WORKER_TOKEN": "t",
        MARKER: marker(name),
    }
    log = (prefect.folder / f"worker-{name}.log").open("ab")
    process = subprocess.Popen(
        tied(sys.executable, "-m", "deployments.cli", "worker", "start", "--pool", pool, "--name", name),
        cwd=prefect.folder,
        env=prefect.environment | settings,
        stdout=log,
        stderr=log,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        for pid in {process.pid, *processes_marked(marker(name))}:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()
        log.close()


def begin(prefect: PrefectServer, pool: str, flow: str, **parameters: object) -> str:
    run = prefect.trigger(prefect.deploy(pool, f"{FLOWS}.{flow}"), **parameters)
    prefect.until_state(run, "RUNNING")
    return run


def cairn(prefect: PrefectServer, *arguments: str, stack: str) -> "subprocess.CompletedProcess[str]":
    environment = prefect.environment | {"CAIRN_STATE": marker(stack)}
    command = [sys.executable, "-m", "deployments.cli", *arguments]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )


@pytest.mark.parametrize("pool", ["light", "gdal"])
async def test_worker_that_takes_runs_sends_beacons_to_the_domain(
    prefect: PrefectServer, domain: Receiver, pool: str
) -> None:
    with started(prefect, domain, pool, f"{pool}-beacon"):
        await eventually(lambda: [one for one in domain.received if one.body])
    [beacon, *_] = [one for one in domain.received if one.body]
    told = json.loads(beacon.body)
    assert 0 <= told.pop("loop_lag_seconds") < PATIENCE_SECONDS
    assert told.pop("handlers") == sorted(registry())
    size = vars(size_here()) if pool == "gdal" else {}
    assert told == {"worker": f"{pool}-beacon", "at_once": max(4, 2 * (os.cpu_count() or 1)), **size}
    assert beacon.path == f"/api/v1/pools/{pool}/beacon"
    assert beacon.headers["authorization"] == "Bearer t"


async def test_gdal_worker_forks_its_runs_and_a_drain_stops_them(prefect: PrefectServer, domain: Receiver) -> None:
    with started(prefect, domain, "gdal", "gdal-drain") as worker:
        run = begin(prefect, "gdal", "waits")
        assert len(processes_marked(marker("gdal-drain"))) >= 4  # worker, zygote, launcher, fork
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(PATIENCE_SECONDS) == 0  # the flow would go on for ten minutes
        until(lambda: not processes_marked(marker("gdal-drain")))
    assert prefect.until_state(run) == "CRASHED"


async def test_run_cancelled_before_its_process_is_there_never_becomes_running(prefect: PrefectServer) -> None:
    run = UUID(prefect.trigger(prefect.deploy("gdal", f"{FLOWS}.waits")))
    worker: Any = ForkingWorker("gdal", name="gdal-cancel")
    worker._submitting_flow_run_ids.add(run)
    async with PrefectClient(prefect.api) as worker._client:
        await worker.client.set_flow_run_state(run, Pending())
        prefect.cancel(str(run))
        cancelling = asyncio.create_task(worker._cancel_run(run))
        await asyncio.wait({cancelling}, timeout=1)
        told = await worker.client.set_flow_run_state(run, Running())  # as the engine of its process says
        assert told.status is SetStateStatus.REJECT
        worker._at_work.add(run)
        worker._submitting_flow_run_ids.clear()
        await asyncio.wait({cancelling}, timeout=1)
        assert prefect.state(str(run)) == "CANCELLING"
        worker._at_work.clear()
        await asyncio.wait_for(cancelling, PATIENCE_SECONDS)
    assert prefect.states(str(run)) == ["Scheduled", "Pending", "Cancelling", "Cancelled"]


async def test_gdal_worker_takes_no_more_runs_than_its_host_has_memory_for(
    prefect: PrefectServer, domain: Receiver
) -> None:
    deployment = prefect.deploy("gdal", f"{FLOWS}.waits")

    def ask(megabytes: int) -> str:
        body = {"state": {"type": "SCHEDULED"}, "job_variables": {"memory_mb": megabytes}}
        answer = prefect.http.post(f"/deployments/{deployment}/create_flow_run", json=body)
        return str(answer.raise_for_status().json()["id"])

    first, second = ask(600), ask(600)
    with started(prefect, domain, "gdal", "gdal-host", CAIRN_HOST_MEMORY_MB="1000", CAIRN_HOST_CPUS="2"):
        until(lambda: "RUNNING" in {prefect.state(first), prefect.state(second)})
        [taken, left] = sorted((first, second), key=lambda run: prefect.state(run) != "RUNNING")
        small, large = ask(300), ask(1001)
        prefect.until_state(small, "RUNNING")
        assert (prefect.state(left), prefect.state(large)) == ("SCHEDULED", "SCHEDULED")
        assert environments("gdal-host", TRIES) == {"1"}
        prefect.cancel(taken)
        prefect.until_state(left, "RUNNING")
        assert prefect.state(large) == "SCHEDULED"
    for run in (taken, left, small, large):
        end = {"state": {"type": "CANCELLED"}, "force": True}
        prefect.http.post(f"/flow_runs/{run}/set_state", json=end).raise_for_status()


def environments(name: str, variable: str) -> set[str]:
    """What the variable says in the processes of a worker that have it."""
    found = set()
    for pid in processes_marked(marker(name)):
        with suppress(OSError):
            told = dict(one.split("=", 1) for one in Path(f"/proc/{pid}/environ").read_text().split("\0") if "=" in one)
            found |= {told[variable]} if variable in told else set()
    return found


def _all_of_it(worker: int, name: str) -> None:
    """As systemd's default does: every process of the service."""
    for pid in {worker, *processes_marked(marker(name))}:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)


def _terminal(worker: int, _: str) -> None:
    """As Ctrl-C does: every process of the terminal's foreground group."""
    os.killpg(worker, signal.SIGINT)


@pytest.mark.parametrize("tell", [_all_of_it, _terminal])
async def test_signal_to_all_processes_of_a_gdal_worker_drains_it(
    prefect: PrefectServer, domain: Receiver, tell: Callable[[int, str], None], tmp_path: Path
) -> None:
    with started(prefect, domain, "gdal", "gdal-told") as worker:
        run = begin(prefect, "gdal", "heeds_sigterm", path=str(tmp_path / "heeds"))
        until((tmp_path / "heeds").exists)
        tell(worker.pid, "gdal-told")
        assert worker.wait(PATIENCE_SECONDS) == 0
        until(lambda: not processes_marked(marker("gdal-told")))
    assert prefect.run(run)["state"]["name"] == "HandedOver"


async def test_a_killed_gdal_worker_leaves_no_process(prefect: PrefectServer, domain: Receiver) -> None:
    with started(prefect, domain, "gdal", "gdal-kill") as worker:
        begin(prefect, "gdal", "ignores")
        worker.kill()
        worker.wait()
        until(lambda: not processes_marked(marker("gdal-kill")))


async def test_drain_ends_the_named_worker_and_no_other(prefect: PrefectServer, domain: Receiver) -> None:
    with started(prefect, domain, "light", "one") as one, started(prefect, domain, "gdal", "two") as two:
        await domain.wait_for(2)
        assert cairn(prefect, "worker", "drain", "one", stack="two").returncode == 1  # of another stack: not ours
        done = cairn(prefect, "worker", "drain", "one", stack="one")
        assert (done.returncode, done.stdout) == (0, "one: ended\n"), done.stderr
        assert one.wait(PATIENCE_SECONDS) == 0
        assert two.poll() is None
        assert cairn(prefect, "worker", "drain", "one", stack="one").returncode == 1


def test_worker_without_its_settings_names_them() -> None:
    command = [sys.executable, "-m", "deployments.cli", "worker", "start", "--pool", "light"]
    environment = {"PATH": os.environ["PATH"], "PREFECT_API_URL": "http://127.0.0.1:1/api"}
    done = subprocess.run(command, env=environment, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        2,
        "cairn: a worker needs CAIRN_DOMAIN_URL, CAIRN_WORKER_TOKEN in its environment.\n",
    )


def test_a_worker_that_must_confine_and_cannot_does_not_start() -> None:
    """It says why before it asks for anything; a worker that opens no strangers' files need not."""
    command = [sys.executable, "-m", "deployments.cli", "worker", "start", "--pool", "gdal"]
    environment = {
        "PATH": os.environ["PATH"],
        "PREFECT_API_URL": "http://127.0.0.1:1/api",
        "CAIRN_DOMAIN_URL": "http://127.0.0.1:1",
        "CAIRN_WORKER_TOKEN": "token",
        "CAIRN_TRY_CONFINEMENT": "required",
        "CAIRN_LANDLOCK_AT_MOST": "0",
    }
    done = subprocess.run(command, env=environment, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "cairn: This machine cannot confine GDAL tries: its kernel has no Landlock" in done.stderr
    assert "CAIRN_TRY_CONFINEMENT is required, so this worker does not start" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("python -m deployments.cli worker start --pool light --name a", ("light", "a")),
        ("/usr/bin/cairn worker start --name=b --pool=gdal --with-healthcheck", ("gdal", "b")),
        ("cairn worker start --pool gdal --limit 3", ("gdal", None)),
        ("cairn worker drain a", None),
        ("cairn worker", None),
        ("worker start --pool light", None),
        ("prefect worker start --pool light --type process", None),
        ("grep worker start --pool light", None),
        ("cairn worker start", None),
        ("", None),
    ],
)
def test_only_cairns_workers_are_found(command: str, found: tuple[str, str | None] | None) -> None:
    assert parse(command.split()) == found


async def test_worker_removes_folders_of_killed_tries_as_long_as_it_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At its start and again: a process that has swept for its own first try sweeps no second time."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(serve, "SWEEP_SECONDS", 0.01)
    with Workdir() as held:
        kept = held.path()
        sweeping: asyncio.Task[None] | None = None
        for name in ("first", "second"):
            killed = tmp_path / f"{PREFIX}{name}"
            killed.mkdir()
            (killed / "half").write_bytes(b"x")
            for folder in (kept, killed):
                os.utime(folder, (0, 0))
            sweeping = sweeping or asyncio.create_task(serve.keep_swept())
            await eventually(lambda folder=killed: not folder.exists())  # type: ignore[misc]
        assert sweeping
        sweeping.cancel()
        assert kept.exists()
