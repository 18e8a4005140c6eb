"""Takes from a GDAL try's process what it never needs: other files, the network, other processes. Linux only.

Landlock keeps it to the installation and its own folder, a filter of system calls from all that Landlock does not know
or an older one did not: sockets, signals, other processes, programs. Both hold for good. They are the last line: what
reads a stranger's file may be taken over by it. Standard library only.
"""

import ctypes
import os
import stat
import struct
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from flows.tries import seccomp_filter

LANDLOCK_CREATE, LANDLOCK_ADD, LANDLOCK_RESTRICT = 444, 445, 446  # the same on every architecture
PATH_BENEATH: Final = 1
AT_MOST: Final = "CAIRN_LANDLOCK_AT_MOST"

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REMOVE_DIR, REMOVE_FILE, MAKE_DIR, MAKE_REG = 1 << 4, 1 << 5, 1 << 7, 1 << 8
REFER, TRUNCATE, IOCTL = 1 << 13, 1 << 14, 1 << 15
READ: Final = READ_FILE | READ_DIR
# Plain files and folders. No links, pipes, sockets and devices: who finds them there would follow or open them.
CHANGE: Final = READ | WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | REFER | TRUNCATE
OF_FILES: Final = WRITE_FILE | READ_FILE | TRUNCATE | IOCTL
TCP: Final = 0b11
SIGNALS_AND_ABSTRACT_SOCKETS: Final = 0b11

# What an interpreter with GDAL and PROJ reads of its system, and OpenSSL, which makes its hashes. No home, no accounts,
# no keys, no names of hosts, no other process, and of its own none of what /proc tells about the network.
SYSTEM: Final = (
    "/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache", "/etc/localtime", "/etc/ssl/openssl.cnf", "/dev/urandom",
    "/dev/random", *(f"/proc/self/{name}" for name in (
        "auxv", "cgroup", "cmdline", "environ", "exe", "fd", "limits", "maps", "mountinfo", "mounts", "stat", "statm",
        "status",
    )), "/proc/meminfo", "/proc/cpuinfo", "/proc/stat", "/proc/sys/vm/overcommit_memory", "/sys/devices/system/cpu",
    "/sys/fs/cgroup",
)  # fmt: skip
DEVICES: Final = ("/dev/null",)

# By what a process is confined, and what its kernel lacks where it is not.
PARTS: Final = {"landlock": "Landlock", "seccomp": "seccomp", "threads": "seccomp notifications"}
TRIED: Final = "from flows.tries.confinement import Confinement; print(*Confinement([], []).take_hold(lambda _: None))"


class Unconfined(OSError):
    """The kernel did not take the confinement."""


@dataclass(frozen=True)
class Confinement:
    """What a process keeps. A folder stands for all that is below it."""

    readable: Sequence[str]
    writable: Sequence[str]

    def take_hold(self, hand_over: Callable[[int], None] | None = None) -> list[str]:
        """Confine this process for good, as far as its kernel can; returns by what.

        Whoever is handed the listener counts the threads; nothing here keeps it.
        """
        for folder in self.writable:
            with suppress(OSError):  # the handler will say so when it writes
                Path(folder).mkdir(parents=True, exist_ok=True)  # what is not there yet could not be allowed later
        held = []
        if (version := landlock_version()) > 0:
            _restrict_files(version, self)
            held.append("landlock")
        return held + (self._filter_calls(hand_over) if seccomp_filter.is_known_here() else [])

    def _filter_calls(self, hand_over: Callable[[int], None] | None) -> list[str]:
        seccomp_filter.drop_capabilities()
        try:
            listener = seccomp_filter.install(counted=hand_over is not None)
        except OSError:  # no such thing, or somebody else counts the calls of this whole container
            try:
                listener = seccomp_filter.install(counted=False)
            except OSError:
                return []
        if listener is None or hand_over is None:
            return ["seccomp"]
        try:
            hand_over(listener)
        finally:
            os.close(listener)
        return ["seccomp", "threads"]


def fault(held: Iterable[str]) -> str | None:
    """What is missing of the confinement, in a sentence, or None.

    Where all parts are there, they hold together whatever the version of Landlock is.
    """
    lacking = [words for part, words in PARTS.items() if part not in set(held)]
    return (
        f"This machine cannot confine GDAL tries: its kernel has no {' and no '.join(lacking)}, or its container "
        "forbids it. Linux 5.13 or newer has both."
        if lacking
        else None
    )


def held_here() -> set[str]:
    """By what a process of ours can be confined: tried in one that ends at once."""
    done = subprocess.run([sys.executable, "-c", TRIED], capture_output=True, text=True, cwd="/", check=False)
    return set(done.stdout.split()) if done.returncode == 0 else set()


def own_code() -> list[str]:
    """Where this interpreter's libraries and our own modules lie. Not the folder above them, which may hold secrets."""
    ours = (sys.modules[name].__path__[0] for name in ("flows", "domain") if name in sys.modules)
    return [*dict.fromkeys((sys.prefix, sys.base_prefix, *ours))]


def landlock_version() -> int:
    """The kernel's version of Landlock; 0 where it has none or keeps it switched off.

    A variable may have it taken for an older one, never for a newer: so is shown what holds on older kernels.
    """
    if not sys.platform.startswith("linux"):
        return 0
    version: int = _libc().syscall(LANDLOCK_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint(1))
    at_most = os.environ.get(AT_MOST) or str(version)
    return max(0, min(version, int(at_most) if at_most.isdecimal() else 0))


def _restrict_files(version: int, wanted: Confinement) -> None:
    handled = (1 << 13) - 1
    handled |= (REFER if version >= 2 else 0) | (TRUNCATE if version >= 3 else 0) | (IOCTL if version >= 5 else 0)
    attributes = [handled]
    if version >= 4:
        attributes.append(TCP)
    if version >= 6:
        attributes.append(SIGNALS_AND_ABSTRACT_SOCKETS)
    packed = struct.pack(f"={len(attributes)}Q", *attributes)
    ruleset = _call(LANDLOCK_CREATE, packed, ctypes.c_size_t(len(packed)), ctypes.c_uint(0))
    try:
        _allow(ruleset, (*SYSTEM, *wanted.readable), READ)
        _allow(ruleset, DEVICES, OF_FILES & handled)
        _allow(ruleset, wanted.writable, CHANGE & handled)
        seccomp_filter.no_new_privileges()
        _call(LANDLOCK_RESTRICT, ctypes.c_int(ruleset), ctypes.c_uint(0))
    finally:
        os.close(ruleset)


def _allow(ruleset: int, paths: Iterable[str], access: int) -> None:
    """Add a rule for each path that exists. A file takes only what can be done with files."""
    for path in paths:
        try:
            handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            is_folder = stat.S_ISDIR(os.fstat(handle).st_mode)
            rule = struct.pack("=Qi", access if is_folder else access & OF_FILES, handle)
            _call(LANDLOCK_ADD, ctypes.c_int(ruleset), ctypes.c_int(PATH_BENEATH), rule, ctypes.c_uint(0))
        finally:
            os.close(handle)


def _call(number: int, *arguments: Any) -> int:
    result: int = _libc().syscall(number, *arguments)
    if result < 0:
        raise Unconfined(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
