"""Shows where the processor's time goes while tests run: by kind of process, with how many there are, by file, by test.

`python -m tests.support.processor_time tests/gateway` runs pytest in a control group of its own, so that nothing which
ended in between is missed and no neighbour is counted. It needs to be root on Linux. Kinds are what is seen by looking
every twentieth of a second; what lives shorter is told as such. With `-n`, a file is charged with its neighbour's time
too: files are told apart one process at a time.
"""

import json
import os
import subprocess
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import pytest

from tests.support.rooms_map import REPOSITORY

GROUP, TOLD = "CAIRN_PROCESSOR_GROUP", "CAIRN_PROCESSOR_TOLD"
LOOK_SECONDS = 0.05
TICK = os.sysconf("SC_CLK_TCK")
# What a process is, by the first of these that its command line holds.
KINDS: Mapping[str, str] = {
    "tests.support.processor_time": "pytest",
    "pytest": "pytest",
    "execnet": "pytest",
    "forkserver": "forked from one that has imported",
    "deployments.warm.zygote": "zygote and what it forks",
    "process_child": "a try begun cold",
    "launcher.py": "launcher",
    "prefect server": "Prefect's server",
    "domain.app": "domain",
    "gateway.serving": "serving",
    "-m gateway": "gateway",
    "worker": "worker",
    "deployments.stack": "a step or the supervisor of a stack",
    "deployments.cli": "cairn",
    "postgres": "PostgreSQL",
    "initdb": "initdb",
    "redis-server": "Redis",
    "chrom": "Chromium",
    "node": "Node",
    "strace": "strace",
    "setpriv": "on the way to another program",
    "python": "another Python",
}
SHORT = "too short to be seen"
TOP = 40


def kind_of(command: str) -> str:
    """What a process is, by its command line."""
    spaced = command.replace("\0", " ")
    return next((kind for part, kind in KINDS.items() if part in spaced), spaced.split(" ")[0].rpartition("/")[2])


def spent(group: Path) -> float:
    """Seconds that all processes of the group have used, those that are over included."""
    return int((group / "cpu.stat").read_text().split()[1]) / 1e6


@contextmanager
def control_group() -> Iterator[Path]:
    """An empty one, gone afterwards."""
    [root] = [path for path in map(Path, ("/sys/fs/cgroup/unified", "/sys/fs/cgroup")) if (path / "cpu.stat").exists()][
        :1
    ]
    group = root / f"cairn-tests-{uuid4().hex[:8]}"
    group.mkdir()
    try:
        yield group
    finally:
        with suppress(OSError):  # what tests left running keeps it
            group.rmdir()


class Watch:
    """What each process of a group has used, as far as it is seen."""

    def __init__(self, group: Path) -> None:
        self.group = group
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.starts: Counter[str] = Counter()
        self._known: dict[int, tuple[str, float]] = {}

    def look(self) -> None:
        with suppress(OSError):
            for pid in map(int, (self.group / "cgroup.procs").read_text().split()):
                with suppress(OSError):
                    self._see(pid)

    def _see(self, pid: int) -> None:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
        now = (int(fields[11]) + int(fields[12])) / TICK
        kind = kind_of(Path(f"/proc/{pid}/cmdline").read_text(errors="replace"))
        before, used = self._known.get(pid, ("", 0.0))
        if now < used:  # the number is another process's by now
            before, used = "", 0.0
        if kind and kind != before:
            self.starts[kind] += 1
        self._known[pid] = (kind, now)
        self.seconds[kind] += now - used

    def until(self, over: threading.Event) -> None:
        while not over.wait(LOOK_SECONDS):
            self.look()


def dearest(seconds: Mapping[str, float]) -> Sequence[tuple[str, float]]:
    return sorted(seconds.items(), key=lambda item: -item[1])


def table(total: float, watch: Watch, tests: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    """The most costly first. Of tests, those that a file's name does not find."""
    files: defaultdict[str, float] = defaultdict(float)
    for test, phases in tests.items():
        files[test.partition("::")[0]] += sum(phases.values())
    yield f"{total:8.1f} s in all"
    for kind, seconds in dearest(watch.seconds | {SHORT: total - sum(watch.seconds.values())}):
        yield f"{seconds:8.1f} s {kind} ({watch.starts[kind]})"
    for file, seconds in dearest(files):
        yield f"{seconds:8.1f} s {file}"
    for test, phases in sorted(tests.items(), key=lambda item: -sum(item[1].values()))[:TOP]:
        parts = ", ".join(f"{phase} {seconds:.1f}" for phase, seconds in phases.items())
        yield f"{sum(phases.values()):8.1f} s {test} ({parts})"


class Account:
    """In pytest: charges each test with what the group used since the report before its own, by phase."""

    def __init__(self, group: Path, told: Path) -> None:
        self.group, self.told = group, told
        self.tests: dict[str, dict[str, float]] = {}
        self.last = spent(group)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        now = spent(self.group)
        self.tests.setdefault(report.nodeid, {})[report.when or ""] = now - self.last
        self.last = now

    def pytest_sessionfinish(self) -> None:
        self.told.write_text(json.dumps(self.tests))


def pytest_configure(config: pytest.Config) -> None:
    if GROUP in os.environ and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Account(Path(os.environ[GROUP]), Path(os.environ[TOLD])))


def main(arguments: Sequence[str]) -> int:
    """Run pytest with these arguments and show what it took."""
    with control_group() as group:
        told, watch, over = REPOSITORY / f".{group.name}.json", Watch(group), threading.Event()
        looking = threading.Thread(target=watch.until, args=[over])
        looking.start()
        command = [sys.executable, "-m", "pytest", "-p", "tests.support.processor_time", *arguments]
        environment = os.environ | {GROUP: str(group), TOLD: str(told)}

        def enter() -> None:
            (group / "cgroup.procs").write_text("0")

        done = subprocess.run(command, cwd=REPOSITORY, check=False, env=environment, preexec_fn=enter)
        over.set()
        looking.join()
        tests = json.loads(told.read_text()) if told.exists() else {}
        told.unlink(missing_ok=True)
        print(*table(spent(group), watch, tests), sep="\n")  # noqa: T201 - a command's answer
        return done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
