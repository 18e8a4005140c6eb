"""Takes from a GDAL try's process what it never needs: other files, the network, other processes. Linux only.

Landlock keeps it to the folders it is given, seccomp from making sockets. Both hold for all it starts and cannot be
undone. They are the last line: what reads a stranger's file may be taken over by it. Standard library only.
"""

import ctypes
import errno
import os
import platform
import socket
import stat
import struct
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

LANDLOCK_CREATE, LANDLOCK_ADD, LANDLOCK_RESTRICT = 444, 445, 446  # the same on every architecture
IO_URING_SETUP: Final = 425
PATH_BENEATH: Final = 1
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_FILTER = 38, 22, 2

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REFER, TRUNCATE, IOCTL = 1 << 13, 1 << 14, 1 << 15
READ: Final = EXECUTE | READ_FILE | READ_DIR
OF_FILES: Final = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL
TCP: Final = 0b11
SIGNALS_AND_ABSTRACT_SOCKETS: Final = 0b11

# What an interpreter with GDAL, PROJ and a TLS library reads of its system. No home, no accounts, no other process.
SYSTEM: Final = (
    "/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache", "/etc/localtime", "/etc/ssl", "/etc/resolv.conf",
    "/etc/hosts", "/etc/nsswitch.conf", "/etc/host.conf", "/etc/gai.conf", "/dev/urandom", "/dev/random", "/proc/self",
    "/proc/meminfo", "/proc/cpuinfo", "/proc/stat", "/proc/sys/vm/overcommit_memory", "/sys/devices/system/cpu",
    "/sys/fs/cgroup",
)  # fmt: skip
DEVICES: Final = ("/dev/null",)

# AUDIT_ARCH and the number of socket(2) there.
_SOCKET_CALLS: Final = {"x86_64": (0xC000003E, 41), "aarch64": (0xC00000B7, 198)}


class Unconfined(OSError):
    """The kernel did not take the confinement."""


@dataclass(frozen=True)
class Confinement:
    """What a process keeps. A folder stands for all that is below it."""

    readable: Sequence[str]
    writable: Sequence[str]

    def take_hold(self) -> list[str]:
        """Confine this process for good, as far as its kernel can; returns by what."""
        for folder in self.writable:
            with suppress(OSError):  # the handler will say so when it writes
                Path(folder).mkdir(parents=True, exist_ok=True)  # what is not there yet could not be allowed later
        held = []
        if (version := landlock_version()) > 0:
            _restrict_files(version, self)
            held.append("landlock")
        if _is_linux() and platform.machine() in _SOCKET_CALLS:
            _forbid_sockets(*_SOCKET_CALLS[platform.machine()])
            held.append("seccomp")
        return held

    def fault(self, held: Sequence[str]) -> str | None:
        """What is missing of the confinement, in a sentence, or None."""
        missing = [one for one in ("landlock", "seccomp") if one not in held]
        return (
            f"This machine cannot confine GDAL tries: its kernel has no {' and no '.join(missing)}."
            if missing
            else None
        )


def own_code() -> list[str]:
    """Where this interpreter's libraries and our own modules lie. Not the folder above them, which may hold secrets."""
    ours = (sys.modules[name].__path__[0] for name in ("flows", "domain") if name in sys.modules)
    return [*dict.fromkeys((sys.prefix, sys.base_prefix, *ours))]


def landlock_version() -> int:
    """The kernel's version of Landlock; 0 where it has none or keeps it switched off."""
    if not _is_linux():
        return 0
    version: int = _libc().syscall(LANDLOCK_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint(1))
    return max(0, version)


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
        _allow(ruleset, (*SYSTEM, *wanted.readable), READ & handled)
        _allow(ruleset, (*DEVICES, *wanted.writable), handled)
        _no_new_privileges()
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


def _forbid_sockets(architecture: int, socket_call: int) -> None:
    """Only local sockets can be made; also not by the detour of another architecture's calls or of io_uring."""
    load, equal, at_least, give = 0x20, 0x15, 0x35, 0x06
    allow, deny = 0x7FFF0000, 0x00050000 | errno.EACCES
    program = (
        (load, 0, 0, 4),  # which architecture's numbers
        (equal, 0, 7, architecture),
        (load, 0, 0, 0),  # the number of the call
        (at_least, 5, 0, 0x40000000),
        (equal, 4, 0, IO_URING_SETUP),
        (equal, 0, 2, socket_call),
        (load, 0, 0, 16),  # its first argument
        (equal, 0, 1, socket.AF_UNIX),
        (give, 0, 0, allow),
        (give, 0, 0, deny),
    )
    steps = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in program))
    header = struct.pack("@HP", len(program), ctypes.addressof(steps))
    _no_new_privileges()
    if _libc().prctl(PR_SET_SECCOMP, ctypes.c_ulong(SECCOMP_FILTER), header, 0, 0) != 0:
        raise Unconfined(ctypes.get_errno(), "seccomp")


def _no_new_privileges() -> None:
    if _libc().prctl(PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), 0, 0, 0) != 0:
        raise Unconfined(ctypes.get_errno(), "no_new_privs")


def _call(number: int, *arguments: Any) -> int:
    result: int = _libc().syscall(number, *arguments)
    if result < 0:
        raise Unconfined(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def _is_linux() -> bool:
    return sys.platform.startswith("linux")


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
