"""The filter of system calls that a GDAL try's process puts on itself. Linux only, for good, before any thread.

A list of what is allowed: files that are open or that Landlock lets it open, memory, threads, its own signals, the line
to the flow's process. No sockets, no other process, no program, no limit or capability changed, nothing that outlives
it. Whether it may begin one more thread is asked of who holds the listener. Standard library only.
"""

import ctypes
import errno
import os
import platform
import socket
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from flows.tries.system_calls import ALLOWED, ARCHITECTURES, CAPSET, HIGHEST_KNOWN, LOOKED_AT, SECCOMP, UNKNOWN, Numbers

PR_SET_NO_NEW_PRIVS: Final = 38
SET_MODE_FILTER, NEW_LISTENER = 1, 8
LOAD, EQUAL, AT_LEAST, AND, GIVE = 0x20, 0x15, 0x35, 0x54, 0x06
ALLOW, ASK, ERROR = 0x7FFF0000, 0x7FC00000, 0x00050000
DENY: Final = ERROR | errno.EPERM
NOT_THERE: Final = ERROR | errno.ENOSYS
CAPABILITIES_VERSION: Final = 0x20080522
KEPT_CAPABILITY: Final = 1 << 1  # CAP_DAC_OVERRIDE: the installation may be another user's

# Flags of clone(2): what makes it a thread of ours, and what it must not have beside.
THREAD: Final = 0x100 | 0x800 | 0x10000  # VM, SIGHAND, THREAD
NO_THREAD: Final = 0x80 | 0x1000 | 0x2000 | 0x4000 | 0x8000 | 0x20000 | 0x800000 | 0xFE000000

Step = tuple[int, int, int, int]


@dataclass(frozen=True)
class ArgumentTest:
    """One look at an argument: its bits under the mask are one of these values."""

    argument: int
    values: tuple[int, ...]
    mask: int = 0xFFFFFFFF
    high: bool = False  # the upper half of a pointer

    def steps(self) -> Iterator[Step]:
        """Go on behind these if so, else refuse the call."""
        yield LOAD, 0, 0, 16 + 8 * self.argument + (4 if self.high else 0)
        yield AND, 0, 0, self.mask
        for left, value in zip(range(len(self.values), 0, -1), self.values, strict=True):
            yield EQUAL, left, 0, value
        yield GIVE, 0, 0, DENY


def looks(pid: int) -> dict[str, tuple[ArgumentTest, ...]]:
    """With which arguments calls are allowed; `pid` is the process's own."""
    # Before Landlock's ABI 3 what may be read could be cut to nothing when it is opened.
    opening = (os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_TRUNC | os.O_WRONLY, os.O_TRUNC | os.O_RDWR)
    return {
        "open": (ArgumentTest(1, opening, os.O_TRUNC | os.O_ACCMODE),),
        "openat": (ArgumentTest(2, opening, os.O_TRUNC | os.O_ACCMODE),),
        # Descriptors and locks. Not F_SETOWN and F_SETSIG, which have the kernel send any signal to anybody.
        "fcntl": (ArgumentTest(1, (0, 1, 2, 3, 4, 5, 6, 7, 36, 37, 38, 1030, 1032, 1033, 1034)),),
        # Whether it is a terminal, how much can be read, blocking and inheriting, clones of what is open.
        "ioctl": (ArgumentTest(1, (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451, 0x40049409, 0x4020940D)),),
        "kill": (ArgumentTest(0, (pid, 0)),),  # its group is its own: it leads one, and can neither leave nor join any
        "tgkill": (ArgumentTest(0, (pid,)),),
        "prlimit64": (ArgumentTest(0, (pid, 0)), ArgumentTest(2, (0,)), ArgumentTest(2, (0,), high=True)),
        "prctl": (ArgumentTest(0, (3, 15, 16, 23, 39, 0x53564D41)),),  # its name, names of its memory, what it may ask
        "clone": (ArgumentTest(0, (THREAD,), THREAD | NO_THREAD),),
        # Connected for good: by a pair of datagram sockets, anybody's address could be written to.
        "socketpair": (ArgumentTest(0, (socket.AF_UNIX,)), ArgumentTest(1, (socket.SOCK_STREAM,), 0xF)),
    }


def program(pid: int, *, counted: bool, machine: str) -> bytes:
    """The filter, as the kernel takes it."""
    place, architecture = ARCHITECTURES[machine]
    arguments = looks(pid)
    steps: list[Step] = [
        (LOAD, 0, 0, 4),  # which architecture's numbers
        (EQUAL, 1, 0, architecture),
        (GIVE, 0, 0, DENY),
        (LOAD, 0, 0, 0),  # the number of the call
    ]
    for name, numbers in (LOOKED_AT | ALLOWED).items():
        given = ASK if counted and name == "clone" else ALLOW
        checks = [step for look in arguments.get(name, ()) for step in look.steps()]
        steps += _for(numbers[place], [*checks, (GIVE, 0, 0, given)])
    for numbers in UNKNOWN.values():
        steps += _for(numbers[place], [(GIVE, 0, 0, NOT_THERE)])
    steps += [(AT_LEAST, 0, 1, HIGHEST_KNOWN + 1), (GIVE, 0, 0, NOT_THERE), (GIVE, 0, 0, DENY)]
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


def _for(number: int | None, steps: list[Step]) -> list[Step]:
    """These steps for the call of this number; they end in an answer."""
    return [] if number is None else [(EQUAL, 0, len(steps), number), *steps]


def is_known_here() -> bool:
    """Whether the numbers of this machine's calls are."""
    return sys.platform.startswith("linux") and platform.machine() in ARCHITECTURES


def install(*, counted: bool) -> int | None:
    """Filter this process's calls; returns the listener that is asked before each thread, where they are counted."""
    machine = platform.machine()
    filtered = program(os.getpid(), counted=counted, machine=machine)
    steps = ctypes.create_string_buffer(filtered, len(filtered))
    header = struct.pack("@HP", len(filtered) // 8, ctypes.addressof(steps))
    no_new_privileges()
    flags = ctypes.c_ulong(NEW_LISTENER if counted else 0)
    listener = _call(SECCOMP, machine, ctypes.c_uint(SET_MODE_FILTER), flags, header)
    return listener if counted else None


def drop_capabilities() -> None:
    """Keep none of root's rights but the one over files, whoever has them: a container may give some to anybody."""
    with open("/proc/self/status") as status:  # noqa: PTH123 - one line of many, in a process without much
        [had] = [int(line.split()[1], 16) for line in status if line.startswith("CapPrm:")]
    kept = had & KEPT_CAPABILITY
    if had == kept:
        return
    content = struct.pack("=6I", kept, kept, 0, 0, 0, 0)
    _call(CAPSET, platform.machine(), struct.pack("=Ii", CAPABILITIES_VERSION, 0), content)


def no_new_privileges() -> None:
    """As the kernel asks of who confines itself."""
    if _libc().prctl(PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "no_new_privs")


def _call(numbers: Numbers, machine: str, *arguments: object) -> int:
    result: int = _libc().syscall(numbers[ARCHITECTURES[machine][0]], *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
