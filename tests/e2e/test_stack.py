"""Starting, stopping and being killed: nothing is left behind, and the next start works."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from deployments.stack.owner import tied
from deployments.stack.state import REPOSITORY
from tests.support.clock import until
from tests.support.cluster import open_folder
from tests.support.stack import RunningStack

pytestmark = pytest.mark.stack


@pytest.fixture(scope="module")
def own_folder() -> Iterator[Path]:
    """Used again: only the first start has to make databases, the others start from what the last one left."""
    with open_folder("stack") as folder:
        yield folder
        RunningStack(folder).cairn("down", "--wipe")


@pytest.fixture
def own(own_folder: Path) -> Iterator[RunningStack]:
    running = RunningStack(own_folder)
    try:
        yield running
    finally:
        running.cairn("down")
        (own_folder / "stack.json").unlink(missing_ok=True)  # the next test waits for what its own stack says


def test_a_killed_stack_leaves_nothing_that_hinders_the_next(own: RunningStack) -> None:
    first = own.json("up", "--detach")
    assert {name for name, service in first["services"].items() if service["healthy"]} == {
        "postgres", "redis", "prefect", "domain", "gateway", "serving"
    }  # fmt: skip
    assert own.cairn("up", "--detach").returncode == 1  # a second one in the same folder is refused
    os.kill(own.facts()["supervisor_pid"], signal.SIGKILL)
    again = own.json("up", "--detach")
    assert again["ready_seconds"] < 200  # ten times what it usually takes: nothing was waited for in vain
    assert own.cairn("status").returncode == 0
    told = json.loads(own.cairn("doctor", "--json").stdout)["checks"]
    looked_at = {check["check"]: check["verdict"] for check in told}
    assert {looked_at[name] for name in ("stack", "domain", "prefect", "worker-gdal", "schema", "clock")} == {"ok"}
    assert {"pool light", "pool gdal"} <= looked_at.keys()
    assert own.json("down") == {"stopped": True, "wiped": False}
    assert own.processes() == []
    assert own.json("down") == {"stopped": False, "wiped": False}


@pytest.mark.parametrize(
    ("number", "at"), [(signal.SIGINT, "postgres"), (signal.SIGTERM, "stack"), (signal.SIGKILL, "domain")]
)
def test_an_interrupted_demo_leaves_no_process(own: RunningStack, number: signal.Signals, at: str) -> None:
    """Once this is ready: while the stack starts, or while the demo is at work."""
    demo = own.spawn("demo")
    until(lambda: is_ready(own, at), seconds=180)
    demo.send_signal(number)
    assert demo.wait(120) != 0
    until(lambda: not own.processes(), seconds=120)


BENCHMARK = """
import time
from benchmarks._stack import running_stack
with running_stack({}):
    print("ready", flush=True)
    time.sleep(600)
"""
SERVERS = """
import time
from benchmarks._servers import postgres, started
with postgres(), started(["oidc_provider_mock"], {}):
    print("ready", flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize(
    ("code", "number", "is_early"),
    [(BENCHMARK, signal.SIGKILL, False), (BENCHMARK, signal.SIGTERM, True), (SERVERS, signal.SIGKILL, False)],
    ids=["stack", "starting stack", "servers"],
)
def test_a_killed_benchmark_leaves_no_process(code: str, number: signal.Signals, is_early: bool) -> None:
    """Told by the folder that each of its processes has in its environment, whatever its name and parent."""
    with open_folder("killed") as folder, benchmark(code, folder) as bench:
        if is_early:  # its first services are there, and it waits for the rest
            until(lambda: any("postgres" in command for command in mentioning(folder).values()), 120)
        else:
            assert bench.stdout is not None
            assert bench.stdout.readline() == b"ready\n"
        assert len(mentioning(folder)) >= 3
        bench.send_signal(number)
        assert bench.wait(60) == -number
        until(lambda: not mentioning(folder), 60, lambda: str(mentioning(folder)))


@contextmanager
def benchmark(code: str, folder: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A process of its own that does this, with its files in the folder."""
    environment = os.environ | {"TMPDIR": str(folder), "HOME": str(folder)}
    command = tied(sys.executable, "-c", code)
    with subprocess.Popen(command, cwd=REPOSITORY, env=environment, stdout=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def mentioning(folder: Path) -> dict[int, str]:
    """Processes, and their command lines, that have the folder in their environment."""
    found: dict[int, str] = {}
    for place in Path("/proc").iterdir():
        if place.name.isdigit() and int(place.name) != os.getpid():
            with suppress(OSError):
                if str(folder).encode() in (place / "environ").read_bytes():
                    found[int(place.name)] = (place / "cmdline").read_text().replace("\0", " ")
    return found


def test_a_service_that_dies_twice_comes_back_and_stops_no_other(stack: RunningStack) -> None:
    """Its replacement dies before it is ready, as under an operator's or the kernel's repeated kill."""
    before, restarts = pids(stack), stack.facts()["services"]["gateway"]["restarts"]
    last = before["gateway"]
    for _ in range(2):
        os.kill(last, signal.SIGKILL)
        until(lambda last=last: pids(stack)["gateway"] not in {None, last}, 60)  # type: ignore[misc]
        last = pids(stack)["gateway"]
    down = stack.cairn("status")
    until(lambda: stack.cairn("status").returncode == 0, 90)
    after = pids(stack)
    assert {name: pid for name, pid in after.items() if name != "gateway"} == {
        name: pid for name, pid in before.items() if name != "gateway"
    }
    gateway = stack.json("status")["services"]["gateway"]
    assert gateway["restarts"] == restarts + 2
    assert gateway["reason"].startswith("was ended by SIGKILL")
    assert f"gateway at {gateway['reason_at']}: was ended by SIGKILL" in down.stdout + stack.cairn("status").stdout


def pids(stack: RunningStack) -> dict[str, int]:
    """What runs now, as the stack says, and is its own process still."""
    return {name: service["pid"] for name, service in stack.facts()["services"].items() if not service["step"]}


def is_ready(stack: RunningStack, name: str) -> bool:
    """Whether the stack says so of a service, or of itself."""
    if not (stack.folder / "stack.json").exists():
        return False
    facts = stack.facts()
    said = facts["phase"] if name == "stack" else facts["services"].get(name, {}).get("state")
    return bool(said == "ready")
