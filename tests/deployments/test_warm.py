"""Warm start: a launcher is a faithful stand-in for its fork, and no fork outlives who is responsible for it.

The zygote is the real one; only Prefect's engine, which needs a flow run, is replaced by code from the environment.
"""

import os
import re
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from deployments.stack.owner import tied
from flows.tries.fork_client import ADDRESS
from tests.support.clock import PATIENCE_SECONDS, until

LAUNCHER = Path(__file__).resolve().parents[2] / "deployments" / "warm" / "launcher.py"
ZYGOTE = """
import os, sys
from deployments.warm import zygote

def run_code():
    try:
        exec(os.environ["CODE"], {})
    except SystemExit as ended:
        return ended.code
    return 0

zygote._run_engine = run_code
zygote.PRELOADED = ()
zygote.code_version = lambda: str(os.path.exists(sys.argv[1]))
zygote.main()
"""


class Zygote:
    """A running zygote and its launchers."""

    def __init__(self, folder: Path) -> None:
        self.name = f"cairn-test-{uuid4().hex}"
        self.mark = folder / "code-changed"
        environment = {ADDRESS: self.name, "PATH": os.environ["PATH"], "OWN": "of the zygote"}
        self.log = folder / "complaints"
        with self.log.open("wb") as log:
            command = tied(sys.executable, "-c", ZYGOTE, self.mark)
            self.process = subprocess.Popen(command, env=environment, stderr=log)
        until(self.listens)

    def listens(self) -> bool:
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex("\0" + self.name) == 0

    def complaints(self) -> str:
        return self.log.read_text()

    def launch(self, code: str, stdin: int | None = None, **environment: str) -> "subprocess.Popen[str]":
        """A launcher as a process worker starts it."""
        return subprocess.Popen(
            tied(sys.executable, "-I", "-S", LAUNCHER),
            stdin=stdin,
            env={ADDRESS: self.name, "CODE": code, "LC_ALL": "C.UTF-8", **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd="/",
        )

    def run(self, code: str, **environment: str) -> tuple[int, str, str]:
        launcher = self.launch(code, None, **environment)
        out, err = launcher.communicate(timeout=PATIENCE_SECONDS)
        return launcher.returncode, out, err


@pytest.fixture
def zygote(tmp_path: Path) -> Iterator[Zygote]:
    running = Zygote(tmp_path)
    yield running
    running.process.kill()
    running.process.wait()


def pid_from(launcher: "subprocess.Popen[str]") -> int:
    """The fork's pid, which it prints."""
    assert launcher.stdout is not None
    return int(launcher.stdout.readline())


def catches(pid: int, number: signal.Signals) -> bool:
    """Whether the process has a handler for the signal."""
    [caught] = re.findall(r"SigCgt:\t([0-9a-f]+)", Path(f"/proc/{pid}/status").read_text())
    return bool(int(caught, 16) >> (number - 1) & 1)


def is_gone(pid: int) -> bool:
    try:
        return "State:\tZ" in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return True


@pytest.mark.parametrize("code", [0, 1, 7])
def test_the_exit_code_is_the_forks(zygote: Zygote, code: int) -> None:
    assert zygote.run(f"import sys; sys.exit({code})")[0] == code


def test_output_of_a_fork_goes_where_its_launchers_goes(zygote: Zygote) -> None:
    assert zygote.run("import sys; print('out'); print('err', file=sys.stderr)") == (0, "out\n", "err\n")


def test_crash_of_a_fork_prints_its_traceback(zygote: Zygote) -> None:
    code, _, err = zygote.run("raise ValueError('why')")
    assert (code, "ValueError: why" in err) == (1, True)


def test_the_fork_has_the_launchers_environment_and_nothing_else(zygote: Zygote) -> None:
    _, out, _ = zygote.run("import os; print(sorted(os.environ), os.getcwd())", SECRET="of this run")
    assert out == f"{sorted(['CODE', 'LC_ALL', 'SECRET', ADDRESS])} /\n"
    assert "SECRET" not in zygote.run("import os; print(sorted(os.environ))")[1]


def test_concurrent_forks_keep_their_own_exit_codes(zygote: Zygote) -> None:
    launchers = [zygote.launch(f"import time, sys; time.sleep(0.3); print({n}); sys.exit({n})") for n in range(8)]
    ends = [(launcher.communicate(timeout=PATIENCE_SECONDS)[0], launcher.returncode) for launcher in launchers]
    assert ends == [(f"{n}\n", n) for n in range(8)]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_the_launcher_reaches_the_fork(zygote: Zygote, number: signal.Signals) -> None:
    launcher = zygote.launch(
        "import os, signal, time, sys\n"
        "for n in (signal.SIGTERM, signal.SIGINT): signal.signal(n, lambda got, _: sys.exit(40 + got))\n"
        "print(os.getpid(), flush=True)\nwhile True: time.sleep(0.1)"
    )
    pid_from(launcher)
    launcher.send_signal(number)
    launcher.communicate(timeout=PATIENCE_SECONDS)
    assert launcher.returncode == 40 + number


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_to_the_zygote_ends_no_run(zygote: Zygote, number: signal.Signals) -> None:
    launcher = zygote.launch("import os, time; print(os.getpid(), flush=True); time.sleep(0.5); print('done')")
    pid = pid_from(launcher)
    zygote.process.send_signal(number)
    assert launcher.communicate(timeout=PATIENCE_SECONDS)[0] == "done\n"
    assert launcher.returncode == 0
    assert zygote.run("print('next')")[1] == "next\n"
    assert is_gone(pid)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_fork_obeys_signals_that_its_zygote_ignores(zygote: Zygote, number: signal.Signals) -> None:
    code, _, _ = zygote.run(f"import os, time; os.kill(os.getpid(), {int(number)}); time.sleep(5)")
    assert code == (-signal.SIGTERM if number is signal.SIGTERM else 1)  # KeyboardInterrupt, with its traceback


def test_launcher_is_in_a_session_of_its_own(zygote: Zygote) -> None:
    launcher = zygote.launch("import os, time; print(os.getpid(), flush=True); time.sleep(1)")
    pid_from(launcher)
    assert os.getsid(launcher.pid) == launcher.pid
    launcher.communicate(timeout=PATIENCE_SECONDS)
    assert launcher.returncode == 0


def test_fork_killed_by_a_signal_ends_its_launcher(zygote: Zygote) -> None:
    assert zygote.run("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")[0] == -signal.SIGSEGV


def test_zygote_without_descriptors_keeps_its_forks_and_serves_waiting_launchers(zygote: Zygote) -> None:
    """Descriptors run out for a moment: nobody is let in, and that is all that happens."""
    running = zygote.launch("import os; print(os.getpid(), flush=True); input(); print('done')", stdin=subprocess.PIPE)
    pid_from(running)
    usual = resource.prlimit(zygote.process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(zygote.process.pid, resource.RLIMIT_NOFILE, (0, usual[1]))
    waiting = zygote.launch("print('next')")
    until(lambda: "could be let in" in zygote.complaints())
    resource.prlimit(zygote.process.pid, resource.RLIMIT_NOFILE, usual)
    assert waiting.communicate(timeout=PATIENCE_SECONDS)[0] == "next\n"
    assert running.communicate("\n", timeout=PATIENCE_SECONDS)[0] == "done\n"
    assert running.returncode == 0


def test_the_fork_of_a_killed_launcher_is_killed(zygote: Zygote) -> None:
    launcher = zygote.launch("import os, time; print(os.getpid(), flush=True); time.sleep(60)")
    pid = pid_from(launcher)
    launcher.kill()
    launcher.communicate()
    until(lambda: is_gone(pid))
    assert zygote.run("print('next')")[1] == "next\n"


def test_the_forks_of_a_killed_zygote_are_killed_and_their_launchers_end(zygote: Zygote) -> None:
    launcher = zygote.launch("import os, time; print(os.getpid(), flush=True); time.sleep(60)")
    pid = pid_from(launcher)
    until(lambda: catches(launcher.pid, signal.SIGTERM))  # it has heard of its fork: without one it would start cold
    zygote.process.kill()
    launcher.communicate(timeout=PATIENCE_SECONDS)
    assert launcher.returncode == -signal.SIGKILL
    until(lambda: is_gone(pid))


def test_without_a_zygote_the_run_starts_cold(zygote: Zygote) -> None:
    zygote.process.kill()
    zygote.process.wait()
    code, _, err = zygote.run("print('warm')")
    assert (code, "Invalid flow run id" in err) == (1, True)  # Prefect's own engine, which got no flow run


def test_changed_code_starts_cold_and_ends_the_zygote_after_its_last_run(zygote: Zygote) -> None:
    gate = zygote.mark.with_name("go-on")
    running = zygote.launch(
        f"import os, time; print(os.getpid(), flush=True)\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.05)"
    )
    pid_from(running)
    zygote.mark.touch()
    assert "Invalid flow run id" in zygote.run("print('warm')")[2]
    assert zygote.process.poll() is None
    gate.touch()
    running.communicate(timeout=PATIENCE_SECONDS)
    assert running.returncode == 0
    assert zygote.process.wait(PATIENCE_SECONDS) == 0


@pytest.mark.parametrize("rubbish", [b"", b"\0", b"\0\0\0\4abcd", b"\xff\xff\xff\xff", b"GET / HTTP/1.1\r\n\r\n"])
def test_malformed_message_does_not_disturb_the_zygote(zygote: Zygote, rubbish: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.connect("\0" + zygote.name)
        stranger.sendall(rubbish)
    assert zygote.run("print('still here')")[1] == "still here\n"
