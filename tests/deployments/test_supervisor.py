"""The supervisor: order, readiness, restarts, and no process left, whatever happens."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from deployments.stack.supervisor import MARKER, Service, ServiceFailed, Supervisor, kill_strays, processes_marked

SLEEP = (sys.executable, "-c", "import time; time.sleep(60)")


async def at_once() -> bool:
    return True


def service(name: str, *command: str, needs: tuple[str, ...] = (), step: bool = False) -> Service:
    return Service(name, command or SLEEP, dict(os.environ), needs=needs, ready=None if step else at_once)


def supervisor(tmp_path: Path, *services: Service) -> tuple[Supervisor, list[tuple[str, str]]]:
    told: list[tuple[str, str]] = []
    made = Supervisor(
        services, lambda name: tmp_path / f"{name}.log", str(tmp_path), lambda n, s, _: told.append((n, s))
    )
    return made, told


async def test_what_is_needed_is_ready_first_and_stops_last(tmp_path: Path) -> None:
    made, told = supervisor(
        tmp_path,
        service("database"),
        service("migrate", sys.executable, "-c", "pass", needs=("database",), step=True),
        service("api", needs=("migrate",)),
    )
    await made.start()
    pids = made.pids()
    await made.stop()
    assert told == [
        ("database", "starting"), ("database", "ready"), ("migrate", "starting"), ("migrate", "done"),
        ("api", "starting"), ("api", "ready"), ("api", "stopped"), ("database", "stopped"),
    ]  # fmt: skip
    assert set(pids) == {"database", "api"}
    assert all(environment(str(pid)) == b"" for pid in pids.values())


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        (service("api", sys.executable, "-c", "import sys; sys.exit(3)", step=True), "failed with exit code 3"),
        (
            Service(
                "api", (sys.executable, "-c", "import sys; sys.exit(4)"), {}, ready=lambda: asyncio.sleep(0, False)
            ),
            "ended at its start with exit code 4",
        ),
        (
            Service("api", SLEEP, {}, ready=lambda: asyncio.sleep(0, False), start_timeout_seconds=0.3),
            "was not ready after 0 s",
        ),
    ],
)
async def test_what_does_not_start_is_named_with_its_log(tmp_path: Path, broken: Service, says: str) -> None:
    made, _ = supervisor(tmp_path, service("database"), broken)
    try:
        with pytest.raises(ServiceFailed, match=says) as failure:
            await made.start()
        assert (failure.value.name, str(tmp_path / "api.log") in str(failure.value)) == ("api", True)
    finally:
        await made.stop()
    assert kill_strays(str(tmp_path)) == []


async def test_what_dies_is_started_again(tmp_path: Path) -> None:
    made, told = supervisor(tmp_path, service("api"))
    await made.start()
    watching = asyncio.create_task(made.watch())
    first = made.pids()["api"]
    os.kill(first, signal.SIGKILL)
    await until(lambda: made.pids().get("api", first) != first and told[-1] == ("api", "ready"))
    await made.stop()
    await watching
    assert ("api", "ended with exit code -9, starting again") in told


async def test_children_of_a_service_end_with_it(tmp_path: Path) -> None:
    code = f"import subprocess, time; subprocess.Popen({list(SLEEP)!r}); time.sleep(60)"
    made, _ = supervisor(tmp_path, service("worker", sys.executable, "-c", code))
    await made.start()
    await until(lambda: len(processes_marked(str(tmp_path))) == 2)
    await made.stop()
    assert processes_marked(str(tmp_path)) == []


def test_strays_of_a_killed_stack_are_ended_and_others_left_alone(tmp_path: Path) -> None:
    ours = subprocess.Popen(SLEEP, env={MARKER: str(tmp_path)})
    others = subprocess.Popen(SLEEP, env={MARKER: f"{tmp_path}-other"})
    try:
        assert kill_strays(str(tmp_path)) == [ours.pid]
        assert ours.wait(60) == -signal.SIGKILL
        assert others.poll() is None
    finally:
        others.kill()
        others.wait()


REAPED_LATE = """
import os, subprocess, sys, time
child = subprocess.Popen(["sleep", "600"], env={sys.argv[1]: sys.argv[2]})
print(child.pid, flush=True)
os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
time.sleep(1)
child.wait()
time.sleep(600)
"""


def test_a_stray_that_is_still_dying_is_waited_for(tmp_path: Path) -> None:
    """Its environment, by which strays are found, is the first that it loses."""
    command = [sys.executable, "-c", REAPED_LATE, MARKER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        try:
            assert parent.stdout is not None
            stray = int(parent.stdout.readline())
            assert kill_strays(str(tmp_path)) == [stray]
            assert not Path(f"/proc/{stray}").exists()
        finally:
            parent.kill()


def environment(pid: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


async def until(question: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not question():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)
