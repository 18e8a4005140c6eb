"""Attempts at rarely used calls of the kernel, where faults are found year by year."""

import ctypes
import errno
import fcntl
import os
import resource
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

from flows.handlers.context import Context
from tests.support.hostile_child.attempts import Aims, attempt, call, prctl


@attempt("calls", "advise another on its memory")
def _(aims: Aims, context: Context) -> str:
    named = call("pidfd_open", os.getpid(), 0)
    try:
        return str(call("process_madvise", named, None, 0, 20, 0))
    finally:
        os.close(named)


@attempt("calls", "io_uring")
def _(aims: Aims, context: Context) -> str:
    os.close(call("io_uring_setup", 1, ctypes.create_string_buffer(120)))
    return "made"


@attempt("calls", "bpf")
def _(aims: Aims, context: Context) -> str:
    array = 2
    os.close(call("bpf", 0, struct.pack("=4I", array, 4, 4, 1) + b"\0" * 104, 120))
    return "made"


@attempt("calls", "perf_event_open")
def _(aims: Aims, context: Context) -> str:
    software, size = 1, 112
    os.close(call("perf_event_open", struct.pack("=IIQ", software, size, 0) + b"\0" * 96, 0, -1, -1, 0))
    return "made"


@attempt("calls", "userfaultfd")
def _(aims: Aims, context: Context) -> str:
    os.close(call("userfaultfd", 1))
    return "made"


@attempt("calls", "add a key")
def _(aims: Aims, context: Context) -> str:
    own_process = -2
    return f"key {call('add_key', b'user', b'cairn', b'x', 1, own_process)}"


@attempt("calls", "join the session's keys")
def _(aims: Aims, context: Context) -> str:
    get_id, own_session = 0, -3
    return f"ring {call('keyctl', get_id, own_session, 0)}"


@attempt("calls", "namespaces of its own")
def _(aims: Aims, context: Context) -> str:
    files = 0x400  # anybody may
    call("unshare", files)
    return "left"


@attempt("calls", "join another's namespaces")
def _(aims: Aims, context: Context) -> str:
    with suppress(FileNotFoundError), Path("/proc/self/status").open() as file:
        try:
            call("setns", file.fileno(), 0)
        except OSError as error:
            if error.errno != errno.EINVAL:  # the kernel has looked what it is
                raise
    return "looked"


@attempt("calls", "mount")
def _(aims: Aims, context: Context) -> str:
    place = str(context.workdir).encode()
    call("mount", b"none", place, b"tmpfs", 0, None)
    call("umount2", place, 0)
    return "mounted"


@attempt("calls", "chroot")
def _(aims: Aims, context: Context) -> str:
    call("chroot", b"/")
    return "changed"


@attempt("calls", "another personality")
def _(aims: Aims, context: Context) -> str:
    return str(call("personality", 0xFFFFFFFF))


@attempt("calls", "prctl: be traced by anybody")
def _(aims: Aims, context: Context) -> str:
    prctl(4, 1)  # PR_SET_DUMPABLE
    return "set"


@attempt("calls", "prctl: adopt orphans")
def _(aims: Aims, context: Context) -> str:
    prctl(36, 0)  # PR_SET_CHILD_SUBREAPER
    return "set"


@attempt("calls", "be another user")
def _(aims: Aims, context: Context) -> str:
    call("setresuid", os.getuid(), -1, -1)
    return "set"


@attempt("calls", "read the kernel's log")
def _(aims: Aims, context: Context) -> str:
    size = 10
    return str(call("syslog", size, None, 0))


@attempt("calls", "keep root's rights")
def _(aims: Aims, context: Context) -> str:
    content = (ctypes.c_uint32 * 6)()
    call("capget", struct.pack("=Ii", 0x20080522, 0), content)
    beyond_files = content[1] & ~0b10 | content[4]
    if not beyond_files:
        raise PermissionError(errno.EPERM, "none")
    return f"{beyond_files:x}"


@attempt("calls", "raise a limit again")
def _(aims: Aims, context: Context) -> str:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    except ValueError as error:  # how Python tells that it may not
        raise PermissionError(errno.EPERM, str(error)) from None
    return "set"


@attempt("calls", "memory that no limit counts")
def _(aims: Aims, context: Context) -> str:
    os.close(os.memfd_create("m"))
    return "made"


@attempt("calls", "secret memory")
def _(aims: Aims, context: Context) -> str:
    os.close(call("memfd_secret", 0))
    return "made"


@attempt("calls", "memory that outlives it")
def _(aims: Aims, context: Context) -> str:
    private, create, remove = 0, 0o1000, 0
    segment = call("shmget", private, 4096, create | 0o600)
    call("shmctl", segment, remove, None)
    return "made"


@attempt("calls", "a queue of messages that outlives it")
def _(aims: Aims, context: Context) -> str:
    private, create, remove = 0, 0o1000, 0
    queue = call("msgget", private, create | 0o600)
    call("msgctl", queue, remove, None)
    return "made"


@attempt("calls", "a named queue")
def _(aims: Aims, context: Context) -> str:
    name = f"cairn-{os.getpid()}".encode()
    try:
        os.close(call("mq_open", name, os.O_CREAT | os.O_RDWR, 0o600, None))
    finally:
        with suppress(OSError):  # Landlock refuses to open what has been made
            call("mq_unlink", name)
    return "made"


@attempt("calls", "a pipe of a megabyte, a thousand times")
def _(aims: Aims, context: Context) -> Any:
    ears, mouth = os.pipe()
    try:
        return fcntl.fcntl(mouth, 1031, 2**20)  # F_SETPIPE_SZ
    finally:
        os.close(ears)
        os.close(mouth)
