"""What a GDAL try's process can no longer do, each beside the same act of a process that is not confined."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from uuid import uuid4

import pytest

from flows.tries.confinement import Confinement, fault, landlock_version, own_code

# Tells what came of each act: its outcome, or the name of the error. Confined first where a second argument says so.
PROGRAM = """
import json, os, signal, socket, subprocess, sys
from flows.tries.confinement import Confinement, own_code
acts, keeping = json.loads(sys.argv[1])
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
    "read": lambda where: open(where, "rb").read(1).decode("latin-1") and "read",
    "list": lambda where: os.listdir(where) and "listed",
    "write": lambda where: open(where, "w").write("x") and "written",
    "make": lambda where: os.mkdir(where) or "made",
    "remove": lambda where: os.remove(where) or "removed",
    "link": lambda where: os.link(where, os.path.basename(where)) or "linked",
    "inet": lambda where: call(socket.AF_INET), "inet6": lambda where: call(socket.AF_INET6),
    "udp": lambda where: call(socket.AF_INET, socket.SOCK_DGRAM),
    "netlink": lambda where: call(socket.AF_NETLINK, socket.SOCK_RAW),
    "abstract": lambda where: connect("\\0" + where), "pair": lambda where: socket.socketpair() and "made",
    "signal": lambda where: os.kill(int(where), 0) or "signalled",
    "program": lambda where: subprocess.run(["true"], check=True) and "run",
}
def done(act, where):
    try:
        return ACTS[act](where)
    except OSError as error:
        return type(error).__name__
print(json.dumps([done(*one) for one in acts]))
"""
DENIED = "PermissionError"
Act = Callable[[Iterable[tuple[str, object]], Confinement | None], list[str]]


@pytest.fixture
def act(tmp_path: Path) -> Act:
    """Does acts in a process of their own and returns what came of each."""

    def do(acts: Iterable[tuple[str, object]], keeping: Confinement | None) -> list[str]:
        kept = [keeping.readable, keeping.writable] if keeping else None
        order = json.dumps([[(what, str(where)) for what, where in acts], kept])
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, order], capture_output=True, text=True, cwd=tmp_path, check=False,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        told: list[str] = json.loads(done.stdout)
        return told

    return do


@pytest.fixture
def keeping(tmp_path: Path) -> Confinement:
    for name in ("bronze", "silver", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "blob").write_text("content")
    return Confinement([str(tmp_path / "bronze")], [str(tmp_path / "silver")])


def test_this_kernel_can_confine() -> None:
    assert landlock_version() >= 1


def test_confined_process_opens_only_files_of_its_folders(act: Act, keeping: Confinement, tmp_path: Path) -> None:
    expected = {
        ("read", "bronze/blob"): "read",
        ("write", "bronze/blob"): DENIED,
        ("remove", "bronze/blob"): DENIED,
        ("read", "silver/blob"): "read",
        ("write", "silver/new"): "written",
        ("make", "silver/folder"): "made",
        ("read", "other/blob"): DENIED,
        ("list", "other"): DENIED,
        ("write", "other/new"): DENIED,
    }
    told = act([(what, tmp_path / place) for what, place in expected], keeping)
    assert dict(zip(expected, told, strict=True)) == expected
    free = [("read", tmp_path / "other/blob"), ("list", tmp_path / "other"), ("write", tmp_path / "other/new")]
    assert act(free, None) == ["read", "listed", "written"]


def test_confined_process_reads_no_system_file_and_no_other_process(act: Act, keeping: Confinement) -> None:
    places = ("/etc/passwd", "/etc/hostname", f"/proc/{os.getpid()}/environ", Path.cwd() / "pyproject.toml")
    reads = [("read", place) for place in places]
    assert act(reads, keeping) == [DENIED] * 4
    assert act(reads, None) == ["read"] * 4


def test_confined_process_makes_no_socket_but_pairs(act: Act, keeping: Confinement) -> None:
    families = [(family, "") for family in ("inet", "inet6", "udp", "netlink", "pair")]
    assert act(families, keeping) == [DENIED] * 4 + ["made"]
    assert act(families, None) == ["made"] * 5


def test_confined_process_reaches_no_process_and_starts_no_program(act: Act, keeping: Confinement) -> None:
    name = f"cairn-test-{uuid4().hex}"
    acts = [("signal", os.getpid()), ("abstract", name), ("program", "")]
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("\0" + name)
        listener.listen()
        assert act(acts, keeping) == [DENIED] * 3
        assert act(acts, None) == ["signalled", "connected", "run"]


def test_missing_kernel_features_are_named() -> None:
    assert fault(["landlock", "seccomp", "threads"]) is None
    assert str(fault(["landlock", "threads"])).startswith(
        "This machine cannot confine GDAL tries: its kernel has no seccomp, or its container forbids it."
    )
    assert "no Landlock and no seccomp and no seccomp notifications" in str(fault([]))


def test_confined_process_may_read_cairns_code_but_not_its_parent_folder() -> None:
    folders = [Path(folder) for folder in own_code()]
    assert Path.cwd() not in folders
    assert any((folder / "tries" / "confinement.py").is_file() for folder in folders)
