"""The filter of a try's calls, read as the kernel reads it, for both architectures."""

import errno
import os
import signal
import socket
import struct

import pytest

from flows.tries import seccomp_filter
from flows.tries.system_calls import ALLOWED, ARCHITECTURES, HIGHEST_KNOWN, LOOKED_AT, UNKNOWN

OWN, OTHER = 4242, 1
REFUSED = f"refused {errno.errorcode[errno.EPERM]}"
NOT_THERE = f"refused {errno.errorcode[errno.ENOSYS]}"
MACHINE = pytest.mark.parametrize("machine", ARCHITECTURES)
ALL = LOOKED_AT | ALLOWED | UNKNOWN


class Filter:
    """Runs the program on a call's data, as the kernel does."""

    def __init__(self, machine: str, *, counted: bool = True) -> None:
        self.place, self.architecture = ARCHITECTURES[machine]
        program = seccomp_filter.program(OWN, counted=counted, machine=machine)
        self.steps = list(struct.iter_unpack("=HBBI", program))

    def __call__(self, call: str | int, *arguments: int, architecture: int | None = None) -> str:
        number = ALL[call][self.place] if isinstance(call, str) else call
        assert number is not None
        content = struct.pack("=iIQ6Q", number, architecture or self.architecture, 0, *(*arguments, *[0] * 6)[:6])
        held, at = 0, 0
        while True:
            code, yes, no, value = self.steps[at]
            at += 1
            if code == seccomp_filter.GIVE:
                return _answer(value)
            if code == seccomp_filter.LOAD:
                [held] = struct.unpack_from("=I", content, value)
            elif code == seccomp_filter.AND:
                held &= value
            else:
                at += yes if (held == value if code == seccomp_filter.EQUAL else held >= value) else no


def _answer(value: int) -> str:
    if value in (seccomp_filter.ALLOW, seccomp_filter.ASK):
        return "allowed" if value == seccomp_filter.ALLOW else "asked"
    return f"refused {errno.errorcode[value & 0xFFFF]}"


@MACHINE
def test_filter_judges_the_arguments_of_checked_calls(machine: str) -> None:
    call = Filter(machine)
    thread = seccomp_filter.THREAD | 0x200 | 0x400 | 0x40000
    for name, arguments, answer in (
        ("kill", (OWN, signal.SIGTERM), "allowed"),
        ("kill", (0, signal.SIGKILL), "allowed"),
        ("kill", (OTHER, 0), REFUSED),
        ("kill", (-1 & 0xFFFFFFFF, 0), REFUSED),
        ("tgkill", (OTHER, OTHER, 0), REFUSED),
        ("openat", (0, 0, os.O_RDONLY | os.O_CREAT), "allowed"),
        ("openat", (0, 0, os.O_WRONLY | os.O_TRUNC), "allowed"),
        ("openat", (0, 0, os.O_RDONLY | os.O_TRUNC), REFUSED),
        ("clone", (thread,), "asked"),
        ("clone", (int(signal.SIGCHLD),), REFUSED),
        ("clone", (thread | 0x10000000,), REFUSED),
        ("fcntl", (3, 4), "allowed"),
        ("fcntl", (3, 8), REFUSED),
        ("fcntl", (3, 1024), REFUSED),  # a lease
        ("ioctl", (3, 0x5421), "allowed"),
        ("ioctl", (3, 0x40086602), REFUSED),  # a file's attributes
        ("prlimit64", (0, 7, 0, 1), "allowed"),
        ("prlimit64", (0, 7, 1 << 40, 1), REFUSED),
        ("prlimit64", (OTHER, 7, 0, 1), REFUSED),
        ("socketpair", (socket.AF_UNIX, socket.SOCK_STREAM | 0o2000000), "allowed"),
        ("socketpair", (socket.AF_UNIX, socket.SOCK_DGRAM), REFUSED),
        ("clone3", (), NOT_THERE),
        ("openat2", (), NOT_THERE),
    ):
        assert call(name, *arguments) == answer, (name, arguments)


@MACHINE
def test_filter_refuses_sockets_and_connections(machine: str) -> None:
    """By their numbers, on both: socket, connect, accept, bind, listen, setsockopt, sendmmsg, recvmmsg, accept4."""
    call = Filter(machine)
    numbers = {
        "x86_64": (41, 42, 43, 49, 50, 54, 307, 299, 288),
        "aarch64": (198, 203, 202, 200, 201, 208, 269, 243, 242),
    }
    assert {call(number, socket.AF_INET) for number in numbers[machine]} == {REFUSED}


@MACHINE
def test_filter_refuses_every_unlisted_call(machine: str) -> None:
    """Neither by numbers that are not on the list, nor by another architecture's, nor by those of later kernels."""
    call, place = Filter(machine), ARCHITECTURES[machine][0]
    listed = [numbers[place] for numbers in ALL.values() if numbers[place] is not None]
    assert len(listed) == len(set(listed))
    for number in set(range(HIGHEST_KNOWN + 1)) - set(listed):
        assert call(number) == REFUSED
    assert call(HIGHEST_KNOWN + 1) == call(0x40000000 + 1) == NOT_THERE
    assert call("read", architecture=0x40000003) == REFUSED
    assert {call(name) for name, numbers in ALLOWED.items() if numbers[place] is not None} == {"allowed"}


def test_only_renamed_legacy_calls_lack_a_number() -> None:
    lacking = {name for name, (_, aarch64) in ALL.items() if aarch64 is None}
    assert lacking == {
        "stat", "lstat", "access", "readlink", "getdents", "rename", "unlink", "mkdir", "rmdir", "dup2", "pipe", "poll",
        "select", "epoll_create", "epoll_wait", "eventfd", "pause", "arch_prctl", "time", "alarm", "getpgrp", "open",
    }  # fmt: skip
