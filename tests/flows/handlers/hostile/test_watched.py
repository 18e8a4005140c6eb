"""No file makes a try open another file or a socket: seen by strace, in a network namespace of its own.

The kernel's confinement is off here, so that what is seen is what our own care leaves over; what GDAL does with the
same files when they are opened trustingly is the control, and is caught.
"""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from flows.tries.workdir import PREFIX
from tests.support import hostile_watch
from tests.support.strace import CALLS, Asked, asked

MUTANTS = int(os.environ.get("CAIRN_HOSTILE_FILES", "0")) // 10
REPOSITORY = Path(__file__).resolve().parents[4]
# What an interpreter with GDAL reads of its own installation. Nothing of it comes from a file.
SYSTEM = (
    *("/usr/", "/lib/", "/lib64/", "/etc/ld.so", "/etc/localtime", "/proc/self/", "/sys/", "/dev/null", "/dev/urandom"),
    *("/proc/meminfo", "/proc/sys/vm/overcommit_memory"),
)
# What GDAL calls an array of ours. It looks for a file of that name before it tries its other drivers.
ARRAY = "MEM:::DATAPOINTER="


@dataclass(frozen=True)
class Watched:
    """What was told by who ran the tries, and what was seen from outside."""

    root: Path
    told: dict[str, Any]
    seen: list[Asked]

    def strange(self) -> list[Asked]:
        """What tries asked for that is neither in their own folder nor installed. The sample they are handed open."""
        own = f"{self.root / 'tmp' / PREFIX}"
        installed = (*SYSTEM, *(f"{prefix}/" for prefix in (sys.prefix, sys.base_prefix)))
        ours = tuple(f"{REPOSITORY}/{room}/" for room in ("flows", "domain", "tests"))
        return [
            one
            for one in self.seen
            if one.pid not in self.told["ours"]
            and (one.network or not str(one.path).startswith((own, *installed, *ours, ARRAY)))
        ]


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Watched:
    root = tmp_path_factory.mktemp("watched")
    (root / "tmp").mkdir()
    alone = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--net"]
    trace = [
        "strace",
        "--follow-forks",
        "--quiet=all",
        "-e",
        CALLS,
        "-e",
        "signal=none",
        "-s",
        "4096",
        "-o",
        str(root / "log"),
    ]
    program = [sys.executable, "-m", "tests.support.hostile_watch", str(root), str(MUTANTS)]
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(REPOSITORY),
        "TMPDIR": str(root / "tmp"),
        "CAIRN_TRY_CONFINEMENT": "off",
    }
    done = subprocess.run(
        [*alone, *trace, *program], cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return Watched(root, json.loads(done.stdout.splitlines()[-1]), list(asked(root / "log")))


def test_every_file_of_the_corpus_was_tried(watched: Watched) -> None:
    names = {sample.name for sample in hostile_watch.watched(watched.root, MUTANTS)}
    assert len(names) > 50
    tried = [fate for fate in watched.told["fates"] if fate["handler"] == "hostile.validate"]
    assert {fate["name"] for fate in tried} == names
    assert {fate["verdict"] for fate in watched.told["fates"]} == {"taken", "refused"}
    assert watched.told["lives"]
    opened = {one.path for one in watched.seen if one.pid in watched.told["ours"]}
    assert {f"{watched.root}/bronze/up/{name}.tif" for name in names} <= opened


def of_the_tries(watched: Watched) -> list[Asked]:
    """What was strange before the controls began."""
    strange = watched.strange()
    begun = next(number for number, one in enumerate(strange) if "/bronze/control/" in str(one.path))
    return strange[:begun]


def test_no_try_opened_another_file_or_a_socket(watched: Watched) -> None:
    count = len(watched.told["fates"])
    print(f"\nn = {count} tries watched: {len(of_the_tries(watched))} strange files or sockets")  # noqa: T201
    assert of_the_tries(watched) == []


def test_unguarded_control_tries_were_caught(watched: Watched) -> None:
    """The same files, opened trustingly, read another's blob and reach for an address; and both are seen."""
    caught = watched.strange()[len(of_the_tries(watched)) :]
    files, networks = {one.path for one in caught}, {one.network for one in caught if one.network}
    assert {str(hostile_watch.secret_in(watched.root)), "/etc/passwd"} <= files
    assert any(name.startswith("socket AF_INET") for name in networks)
    assert watched.told["controls"]["read"].startswith("root:")
    assert watched.told["controls"]["vrt-0"].isdigit()
