"""What a GDAL try's process can no longer do, each beside the same act of a process that is not confined."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

from flows.confinement import Confinement, landlock_version, own_code

# Tells what came of an act: its outcome, or the name of the error. Confined first where a second argument says so.
PROGRAM = """
import json, os, signal, socket, subprocess, sys
from flows.confinement import Confinement, own_code
act, where, keeping = json.loads(sys.argv[1])
if keeping:
    Confinement([*own_code(), *keeping[0]], keeping[1]).take_hold()
def call(family, kind=socket.SOCK_STREAM):
    with socket.socket(family, kind):
        return "made"
def connect(address):
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(address)
        return "connected"
ACTS = {
    "read": lambda: open(where, "rb").read(1).decode("latin-1") and "read",
    "list": lambda: os.listdir(where) and "listed",
    "write": lambda: open(where, "w").write("x") and "written",
    "make": lambda: os.mkdir(where) or "made",
    "remove": lambda: os.remove(where) or "removed",
    "link": lambda: os.link(where, os.path.basename(where)) or "linked",
    "inet": lambda: call(socket.AF_INET), "inet6": lambda: call(socket.AF_INET6),
    "udp": lambda: call(socket.AF_INET, socket.SOCK_DGRAM), "netlink": lambda: call(socket.AF_NETLINK, socket.SOCK_RAW),
    "abstract": lambda: connect("\\0" + where), "pair": lambda: socket.socketpair() and "made",
    "signal": lambda: os.kill(int(where), 0) or "signalled",
    "program": lambda: subprocess.run(["true"], check=True) and "run",
    "program reads": lambda: subprocess.run(["cat", where], check=True, capture_output=True) and "read",
}
try:
    print(ACTS[act]())
except subprocess.CalledProcessError:
    print("PermissionError")
except OSError as error:
    print(type(error).__name__)
"""
DENIED = "PermissionError"
Act = Callable[[str, object, Confinement | None], str]


@pytest.fixture
def act(tmp_path: Path) -> Act:
    """Does an act in a process of its own and returns what came of it."""

    def do(what: str, where: object, keeping: Confinement | None) -> str:
        kept = [keeping.readable, keeping.writable] if keeping else None
        order = json.dumps([what, str(where), kept])
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, order], capture_output=True, text=True, cwd=tmp_path, check=False,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return do


@pytest.fixture
def keeping(tmp_path: Path) -> Confinement:
    for name in ("bronze", "silver", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "blob").write_text("content")
    return Confinement([str(tmp_path / "bronze")], [str(tmp_path / "silver")])


def test_this_kernel_can_confine() -> None:
    assert landlock_version() >= 1


def test_of_files_it_keeps_its_zones(act: Act, keeping: Confinement, tmp_path: Path) -> None:
    for what, place, expected in (
        ("read", "bronze/blob", "read"),
        ("write", "bronze/blob", DENIED),
        ("remove", "bronze/blob", DENIED),
        ("read", "silver/blob", "read"),
        ("write", "silver/new", "written"),
        ("make", "silver/folder", "made"),
        ("read", "other/blob", DENIED),
        ("list", "other", DENIED),
        ("write", "other/new", DENIED),
        ("program reads", "other/blob", DENIED),
    ):
        assert act(what, tmp_path / place, keeping) == expected, (what, place)
    assert act("read", tmp_path / "other/blob", None) == "read"
    assert act("write", tmp_path / "other/new", None) == "written"


def test_it_reads_no_accounts_no_homes_and_no_other_process(act: Act, keeping: Confinement) -> None:
    for place in ("/etc/passwd", "/etc/hostname", f"/proc/{os.getpid()}/environ", Path.cwd() / "pyproject.toml"):
        assert act("read", place, keeping) == DENIED
        assert act("read", place, None) == "read"


def test_it_makes_no_socket_but_local_ones(act: Act, keeping: Confinement) -> None:
    for family in ("inet", "inet6", "udp", "netlink"):
        assert act(family, "", keeping) == DENIED
        assert act(family, "", None) == "made"
    assert act("pair", "", keeping) == "made"


def test_it_reaches_no_other_process(act: Act, keeping: Confinement) -> None:
    assert act("signal", os.getpid(), keeping) == DENIED
    assert act("signal", os.getpid(), None) == "signalled"
    name = f"cairn-test-{uuid4().hex}"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("\0" + name)
        listener.listen()
        assert act("abstract", name, keeping) == DENIED
        assert act("abstract", name, None) == "connected"


def test_programs_run_under_the_same_rules(act: Act, keeping: Confinement) -> None:
    assert act("program", "", keeping) == "run"


def test_what_is_missing_is_said() -> None:
    kept = Confinement([], [])
    assert kept.fault(["landlock", "seccomp"]) is None
    assert kept.fault(["landlock"]) == "This machine cannot confine GDAL tries: its kernel has no seccomp."
    assert kept.fault([]) == "This machine cannot confine GDAL tries: its kernel has no landlock and no seccomp."


def test_our_own_code_is_kept_and_the_folder_above_it_is_not() -> None:
    folders = [Path(folder) for folder in own_code()]
    assert Path.cwd() not in folders
    assert any((folder / "confinement.py").is_file() for folder in folders)
