"""Coverage is folded by room, and processes are measured that the tests did not start themselves."""

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from coverage import Coverage

from tests.support.coverage_table import by_room, room_of, table
from tests.support.measured import line, settings


def file_with(lines: int, run: int, branches: int, taken: int) -> dict[str, Any]:
    counted = {"num_statements": lines, "covered_lines": run, "num_branches": branches, "covered_branches": taken}
    return {"summary": counted}


def test_file_belongs_to_its_folder_of_two_parts_at_most() -> None:
    assert room_of("flows/catalog.py") == "flows"
    assert room_of("flows/compiler/plan.py") == "flows/compiler"
    assert room_of("flows/compiler/checks/fans.py") == "flows/compiler"


def test_files_of_one_room_are_added_and_rooms_are_in_order() -> None:
    files = {
        "flows/runs/claim.py": file_with(10, 5, 4, 1),
        "domain/rules/audit.py": file_with(1, 1, 0, 0),
        "flows/runs/child_flow_runs/start.py": file_with(20, 20, 6, 6),
    }
    rooms = by_room({"files": files})
    assert list(rooms) == ["domain/rules", "flows/runs"]
    assert vars(rooms["flows/runs"]) == {"lines": 30, "lines_run": 25, "branches": 10, "branches_taken": 7}


def test_table_ends_with_the_sum_and_says_hundred_only_of_what_is_whole() -> None:
    files = {"a/b.py": file_with(1000, 999, 0, 0), "c/d.py": file_with(1, 1, 2, 1)}
    rows = [row.split() for row in table(by_room({"files": files}))]
    assert rows[0] == ["room", "lines", "run", "branches", "taken"]
    assert rows[1] == ["a", "1,000", "99", "%", "0", "-"]
    assert rows[2] == ["c", "1", "100", "%", "2", "50", "%"]
    assert rows[3] == ["all", "1,001", "99", "%", "2", "50", "%"]


STARTED = """
import site, sys
sys.path[:0] = {paths!r}
site.addsitedir({folder!r})
import measured_here
"""
MEASURED_HERE = """import os
import signal

def become():
    in_a_fork = 1
    os._exit(0)

os.fork() or become()
os.wait()
os.kill(os.getpid(), signal.SIGTERM)
never = 1
"""


def test_fork_and_process_ended_by_a_signal_are_measured_without_any_variable(tmp_path: Path) -> None:
    """What the environment's site-packages hold is read from a folder here: others start processes meanwhile."""
    code = tmp_path / "code"
    code.mkdir()
    (code / "measured_here.py").write_text(MEASURED_HERE)
    wanted = settings(tmp_path, [code])
    (tmp_path / "a0.pth").write_text(line(wanted, os.getpid()))
    paths = [str(code), sysconfig.get_paths()["purelib"]]
    script = STARTED.format(paths=paths, folder=str(tmp_path))
    subprocess.run([sys.executable, "-S", "-c", script], env={}, check=False)
    whole = Coverage(config_file=str(wanted), messages=False)
    whole.combine()
    whole.json_report(outfile=str(tmp_path / "told.json"))
    (told,) = json.loads((tmp_path / "told.json").read_text())["files"].values()
    assert told["missing_lines"] == [MEASURED_HERE.splitlines().index("never = 1") + 1]


def test_line_that_was_left_behind_starts_nothing(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True, check=True
    )
    (tmp_path / "a0.pth").write_text(line(tmp_path / "missing.ini", int(ended.stdout)))
    script = f"import site, sys; site.addsitedir({str(tmp_path)!r}); print('coverage' in sys.modules)"
    done = subprocess.run([sys.executable, "-S", "-c", script], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("False\n", "")
