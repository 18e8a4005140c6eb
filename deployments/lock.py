"""Writes deployments/locked/: for each extra, every package that it brings, its version and the hashes of its files.

Versions are those of constraints.txt. pip tells which file it would install here, and its hash; the hashes that a lock
has for the same version stay, so that `make lock` on another kind of machine adds that machine's files.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from platform import python_version

from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from flows.pools import POOLS

REPOSITORY = Path(__file__).resolve().parent.parent
LOCKED = REPOSITORY / "deployments" / "locked"
OURS = "cairn-platform"
SERVICES = ("domain", "gateway", "serving", "prefect-server")
# What the images install; see Dockerfile, Dockerfile.worker and docs/how-to/run-the-gateway-as-a-function.md.
EXTRAS = tuple(dict.fromkeys([*SERVICES, *(pool.extra for pool in POOLS.values()), "functions"]))
# Images have the newest Python of their line; the one that runs this may be older, and need more.
NEWEST = f"{sys.version_info.major}.{sys.version_info.minor}.99"
_HASH = re.compile(r"sha256:[0-9a-f]{64}")
_HEAD = "# Written by `make lock`: what pip may install here, and the content of each file that it may download.\n"

Lock = dict[str, tuple[str, set[str]]]
"""By package: its version, and the hashes of its files."""


def closure(extra: str, python: str = python_version()) -> set[str]:
    """Every distribution that installing the extra brings to this Python, ours included."""
    found: set[str] = set()
    waiting = [(OURS, frozenset({extra}))]
    while waiting:
        name, extras = waiting.pop()
        if name in found and not extras:
            continue
        found.add(name)
        try:
            needs = requires(name) or []
        except PackageNotFoundError:
            continue  # for another platform or Python
        for line in needs:
            need = Requirement(line)
            if need.marker is None or any(is_asked(need.marker, one, python) for one in (extras or {""})):
                needed = canonicalize_name(need.name)
                if needed not in found or need.extras or needed == OURS:
                    waiting.append((needed, frozenset(need.extras)))
    return found


def is_asked(marker: Marker, extra: str, python: str) -> bool:
    """Whether what has this marker is needed there."""
    return marker.evaluate({"extra": extra, "python_full_version": python})


def pinned() -> dict[str, str]:
    """The version of each package that constraints.txt names."""
    lines = (REPOSITORY / "constraints.txt").read_text().split()
    return {canonicalize_name(name): version for name, version in (line.split("==") for line in lines)}


def packages(extra: str, versions: Mapping[str, str]) -> dict[str, str]:
    """Return what the extra's lock names, and what builds our own package; unpinned ones are for other platforms."""
    names = (closure(extra, NEWEST) | closure("build", NEWEST)) - {OURS}
    return {name: versions[name] for name in sorted(names & versions.keys())}


def hashes(wanted: Mapping[str, str]) -> dict[str, str]:
    """The hash of the file that pip would install of each, here."""
    with tempfile.TemporaryDirectory() as folder:
        names, report = Path(folder) / "names.txt", Path(folder) / "report.json"
        names.write_text("".join(f"{name}=={version}\n" for name, version in wanted.items()))
        options = ("--dry-run", "--ignore-installed", "--no-deps", "--quiet", "--report", str(report))
        subprocess.run([sys.executable, "-m", "pip", "install", *options, "-r", str(names)], check=True)
        told = json.loads(report.read_text())["install"]
    return {
        canonicalize_name(one["metadata"]["name"]): f"sha256:{one['download_info']['archive_info']['hashes']['sha256']}"
        for one in told
    }


def read(path: Path) -> Lock:
    """Read a lock, which holds nothing but packages."""
    lock: Lock = {}
    for line in path.read_text().replace("\\\n", "").splitlines():
        if line and not line.startswith("#"):
            package, *given = line.split()
            name, _, version = package.partition("==")
            if not version or not given or not all(_HASH.fullmatch(each.removeprefix("--hash=")) for each in given):
                raise ValueError(f"{path.name} has a line that names no package with its hashes: {line[:80]}")
            lock[name] = (version, {each.removeprefix("--hash=") for each in given})
    return lock


def text(lock: Lock) -> str:
    entries = (
        " \\\n    ".join([f"{name}=={version}", *(f"--hash={each}" for each in sorted(known))])
        for name, (version, known) in sorted(lock.items())
    )
    return _HEAD + "".join(f"{entry}\n" for entry in entries)


def merged(wanted: Mapping[str, str], seen: Mapping[str, str], before: Lock) -> Lock:
    """Return the new lock, which keeps known hashes of unchanged versions."""
    kept = {name: known if version == wanted.get(name) else set() for name, (version, known) in before.items()}
    return {name: (version, {seen[name]} | kept.get(name, set())) for name, version in wanted.items()}


def write(extras: Iterable[str] = EXTRAS) -> None:
    versions = pinned()
    wanted = {extra: packages(extra, versions) for extra in extras}
    seen = hashes({name: version for each in wanted.values() for name, version in each.items()})
    LOCKED.mkdir(exist_ok=True)
    for extra, each in wanted.items():
        path = LOCKED / f"{extra}.txt"
        path.write_text(text(merged(each, seen, read(path) if path.exists() else {})))


if __name__ == "__main__":
    write()
