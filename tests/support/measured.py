"""Runs tests with branch coverage and prints what they pass through in each room: `make coverage`.

Every Python process of the clone's environment is measured while this runs: servers, workers and forks too. Most of
them are started with a few variables of their own, so that coverage.py's (`patch = subprocess`) would not reach them:
a line in the environment's site-packages starts it, and is gone afterwards. What is killed (SIGKILL) tells nothing, and
neither does a confined GDAL try, which can write no file: handlers count where tests call them in their own process.
Of a fork, functions count that it enters.
"""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from coverage import Coverage

from tests.support.coverage_table import by_room, table
from tests.support.rooms_map import REPOSITORY, ROOMS

FOLDER = REPOSITORY / ".coverage"
HOOK = Path(sysconfig.get_paths()["purelib"]) / "a0_cairn_measured.pth"


def settings(folder: Path, sources: Iterable[Path]) -> Path:
    """Write the file by which each process measures, wherever it works. SQLAlchemy runs in greenlets."""
    path = folder / "settings.ini"
    wanted = {
        "branch": "true",
        "concurrency": "thread, greenlet",
        "data_file": str(folder / "data"),
        "parallel": "true",
        "patch": "_exit, fork",
        "sigterm": "true",
        "source": ", ".join(map(str, sources)),
        "disable_warnings": "no-data-collected, module-not-measured, no-sysmon",
    }
    lines = [f"{name} = {value}" for name, value in wanted.items()]
    path.write_text("\n".join(["[run]", *lines, "[report]", "ignore_errors = true", ""]))  # a file may be gone by then
    return path


def line(settings_file: Path, for_process: int) -> str:
    """What each interpreter does as it starts. Left behind, it does nothing once the process that wrote it is gone."""
    start = (
        "import os, coverage.control as c; name = 'COVERAGE_PROCESS_START'; "
        f"os.environ[name] = {str(settings_file)!r}; c.process_startup(); del os.environ[name]"
    )
    return f"import os; os.path.isdir('/proc/{for_process}') and exec({start!r}, {{}})\n"


@contextmanager
def measuring(settings_file: Path) -> Iterator[None]:
    """Have processes that start meanwhile measured."""
    HOOK.write_text(line(settings_file, os.getpid()))
    try:
        yield
    finally:
        HOOK.unlink(missing_ok=True)


def report(settings_file: Path) -> Sequence[str]:
    """Put together what all processes wrote, and fold it into the table."""
    told = settings_file.with_name("report.json")
    whole = Coverage(config_file=str(settings_file), messages=False)
    whole.combine()
    whole.json_report(outfile=str(told))
    return list(table(by_room(json.loads(told.read_text()))))


def pytest_sessionfinish() -> None:
    """Keep what a process of xdist measured: on a busy machine it may be killed before it has ended by itself."""
    if current := Coverage.current():
        current.save()


def main(tests: Sequence[str]) -> int:
    """Run pytest with these arguments; tests that fail are in the table all the same."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    settings_file = settings(FOLDER, [REPOSITORY / room for room in ROOMS])
    with measuring(settings_file):
        command = [sys.executable, "-m", "pytest", "-p", "tests.support.measured", *tests]
        done = subprocess.run(command, cwd=REPOSITORY, check=False)
    print(*report(settings_file), sep="\n")  # noqa: T201 - a command's answer
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
