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

from deployments.stack.condition import STEADY_SECONDS, Condition, last_words
from deployments.stack.supervisor import (
    MARKER,
    ServiceFailed,
    StackService,
    Supervisor,
    kill_strays,
    processes_marked,
)
from tests.support.clock import until as wait_until

SLEEP = (sys.executable, "-c", "import time; time.sleep(60)")


async def at_once() -> bool:
    return True


def service(name: str, *command: str, needs: tuple[str, ...] = (), step: bool = False) -> StackService:
    return StackService(name, command or SLEEP, dict(os.environ), needs=needs, ready=None if step else at_once)


def supervisor(tmp_path: Path, *services: StackService) -> tuple[Supervisor, list[tuple[str, str]]]:
    told: list[tuple[str, str]] = []
    made = Supervisor(
        services, lambda name: tmp_path / f"{name}.log", str(tmp_path), lambda n, s, _: told.append((n, s))
    )
    return made, told


async def test_needed_service_is_ready_first_and_stops_last(tmp_path: Path) -> None:
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
            StackService(
                "api",
                (sys.executable, "-c", "import sys; sys.exit('no room')"),
                {},
                ready=lambda: asyncio.sleep(0, False),
            ),
            "ended with exit code 1 at its start; its log ends with: .*no room",
        ),
        (
            StackService("api", SLEEP, {}, ready=lambda: asyncio.sleep(0, False), start_timeout_seconds=0.3),
            "was not ready after 0 s; its log is empty",
        ),
    ],
)
async def test_service_that_does_not_start_is_named_with_its_log(
    tmp_path: Path, broken: StackService, says: str
) -> None:
    made, _ = supervisor(tmp_path, service("database"), broken)
    try:
        with pytest.raises(ServiceFailed, match=says) as failure:
            await made.start()
        assert (failure.value.name, str(tmp_path / "api.log") in str(failure.value)) == ("api", True)
    finally:
        await made.stop()
    assert kill_strays(str(tmp_path)) == []


async def test_service_that_dies_is_started_again(tmp_path: Path) -> None:
    made, told = supervisor(tmp_path, service("api"))
    await made.start()
    watching = asyncio.create_task(made.watch())
    first = made.pids()["api"]
    os.kill(first, signal.SIGKILL)
    await until(lambda: made.pids().get("api", first) != first and told[-1] == ("api", "ready"))
    await made.stop()
    await watching
    assert ("api", "was ended by SIGKILL, starting again") in told


async def test_service_that_dies_again_and_again_stops_no_other_service(tmp_path: Path) -> None:
    """Killed, then its replacement before it is ready, more often than any budget of restarts would allow."""
    gate = tmp_path / "may-be-ready"
    gate.touch()
    api = StackService("api", SLEEP, dict(os.environ), ready=lambda: asyncio.sleep(0, gate.exists()))
    made, told = supervisor(tmp_path, api, service("other"))
    await made.start()
    watching = asyncio.create_task(made.watch())
    other, last = made.pids()["other"], 0
    gate.unlink()
    for _ in range(3):
        await until(lambda last=last: made.pids().get("api", last) != last)  # type: ignore[misc]
        last = made.pids()["api"]
        os.kill(last, signal.SIGKILL)
    await until(lambda: made.conditions["api"].failures == 3)
    gate.touch()
    await until(lambda: told[-1] == ("api", "ready"))
    assert not watching.done()
    assert made.pids()["other"] == other
    condition = made.conditions["api"]
    assert (condition.restarts, condition.reason) == (3, "was ended by SIGKILL at its start; its log is empty")
    await made.stop()
    assert processes_marked(str(tmp_path)) == []


async def test_service_that_ends_in_order_comes_back_without_growing_pauses(tmp_path: Path) -> None:
    """A worker that is drained again and again, as at a rolling release, is no service that fails."""
    ends = (
        "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(0)); print(flush=True); signal.pause()"
    )
    listens = StackService(
        "api",
        (sys.executable, "-c", ends),
        dict(os.environ),
        ready=lambda: asyncio.sleep(
            0, (tmp_path / "api.log").read_text().count("\n") > made.conditions["api"].restarts
        ),
    )
    made, told = supervisor(tmp_path, listens)
    await made.start()
    watching = asyncio.create_task(made.watch())
    for times in range(1, 5):
        os.kill(made.pids()["api"], signal.SIGTERM)
        await until(lambda times=times: told.count(("api", "ready")) == times + 1)  # type: ignore[misc]
    assert made.conditions["api"].failures == 0
    assert made.conditions["api"].restarts == 4
    await made.stop()
    await watching
    assert ("api", "ended with exit code 0, starting again") in told


async def test_service_that_dies_while_others_still_start_is_started_again(tmp_path: Path) -> None:
    gate = tmp_path / "may-be-ready"
    slow = StackService("slow", SLEEP, dict(os.environ), ready=lambda: asyncio.sleep(0, gate.exists()))
    made, told = supervisor(tmp_path, service("database"), slow)
    starting = asyncio.create_task(made.start())
    await until(lambda: ("database", "ready") in told)
    first = made.pids()["database"]
    os.kill(first, signal.SIGKILL)
    await until(lambda: made.pids().get("database", first) != first and told[-1] == ("database", "ready"))
    gate.touch()
    await starting
    await made.stop()


async def test_slow_service_is_waited_for_and_its_log_is_shown(tmp_path: Path) -> None:
    """Once at its first start, and once when it is started again, which has no limit at all."""
    gate = tmp_path / "may-be-ready"
    command = (sys.executable, "-c", "import time; print('replaying the log', flush=True); time.sleep(60)")
    slow = StackService(
        "api", command, dict(os.environ), ready=lambda: asyncio.sleep(0, gate.exists()), slow_seconds=0.2
    )
    made, told = supervisor(tmp_path, slow)
    starting = asyncio.create_task(made.start())
    await until(lambda: ("api", "slow") in told and "replaying the log" in str(made.conditions["api"].reason))
    gate.touch()
    await starting
    gate.unlink()
    told.clear()
    os.kill(made.pids()["api"], signal.SIGKILL)
    await until(lambda: ("api", "slow") in told)
    assert str(made.conditions["api"].reason).startswith("is slow: not ready after")
    gate.touch()
    await until(lambda: told[-1] == ("api", "ready"))
    await made.stop()


async def test_a_first_start_is_tried_again_where_a_step_fails_once(tmp_path: Path) -> None:
    once = tmp_path / "failed-once"
    code = (
        f"import pathlib, sys; once = pathlib.Path({str(once)!r}); sys.exit(0 if once.exists() else once.touch() or 3)"
    )
    made, told = supervisor(tmp_path, service("migrate", sys.executable, "-c", code, step=True))
    await made.start()
    await made.stop()
    assert told == [
        ("migrate", "starting"),
        ("migrate", "failed with exit code 3, starting again"),
        ("migrate", "done"),
    ]


async def test_missing_command_is_a_failed_start(tmp_path: Path) -> None:
    made, _ = supervisor(tmp_path, service("api", "/nowhere/program"))
    with pytest.raises(ServiceFailed, match=r"could not be started \(No such file"):
        await made.start()
    await made.stop()


def test_restart_pauses_grow_and_begin_anew_after_a_steady_time() -> None:
    condition = Condition()
    pauses = [condition.failed("ended", 0.0) for _ in range(9)]
    assert pauses == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]
    assert condition.failed("ended", STEADY_SECONDS) == 0.5


def test_last_log_lines_are_shown_without_control_characters(tmp_path: Path) -> None:
    log = tmp_path / "api.log"
    log.write_text("first\nsecond\n\x1b[2Jthird\n\nfourth \u202e\n")
    assert last_words(log) == "second |  [2Jthird | fourth"
    assert last_words(tmp_path / "none.log") == ""
    log.write_text(
        '{"level": "error", "message": "it failed", "exception": "Traceback\\n  in f\\nValueError: no"}\n{}\n[1]\n'
    )
    assert last_words(log) == "it failed ValueError: no | {} | [1]"


async def test_children_of_a_service_end_with_it(tmp_path: Path) -> None:
    code = f"import subprocess, time; subprocess.Popen({list(SLEEP)!r}); time.sleep(60)"
    made, _ = supervisor(tmp_path, service("worker", sys.executable, "-c", code))
    await made.start()
    await until(lambda: len(processes_marked(str(tmp_path))) == 2)
    await made.stop()
    assert processes_marked(str(tmp_path)) == []


def test_processes_left_by_a_killed_stack_are_ended_and_others_left_alone(tmp_path: Path) -> None:
    ours = subprocess.Popen(SLEEP, env={MARKER: str(tmp_path)})
    others = subprocess.Popen(SLEEP, env={MARKER: f"{tmp_path}-other"})
    try:
        wait_until(lambda: environment(str(ours.pid)) and environment(str(others.pid)))
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


def test_left_process_that_is_still_dying_is_waited_for(tmp_path: Path) -> None:
    """Its environment, by which strays are found, is the first that it loses."""
    command = [sys.executable, "-c", REAPED_LATE, MARKER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        try:
            assert parent.stdout is not None
            stray = int(parent.stdout.readline())
            wait_until(lambda: environment(str(stray)))  # a process is there a moment before its environment is
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
