"""Attempts at other processes: signals, forks, programs, threads, tracing."""

import _thread
import ctypes
import errno
import fcntl
import gc
import os
import signal
import struct
import threading
import time
from contextlib import suppress
from pathlib import Path

from flows.handlers.context import Context
from flows.tries import process_child
from tests.support.hostile_child.attempts import Aims, attempt, call, prctl

SETTLE_SECONDS = 5.0


@attempt("signals", "signal another process")
def _(aims: Aims, context: Context) -> str:
    os.kill(aims.victim, 0)
    return "signalled"


@attempt("signals", "signal the flow")
def _(aims: Aims, context: Context) -> str:
    os.kill(aims.flow, 0)
    return "signalled"


@attempt("signals", "signal everybody")
def _(aims: Aims, context: Context) -> str:
    os.kill(-1, 0)
    return "signalled"


@attempt("signals", "signal another's group")
def _(aims: Aims, context: Context) -> str:
    os.killpg(os.getpgid(aims.victim), 0)
    return "signalled"


@attempt("signals", "signal another's thread")
def _(aims: Aims, context: Context) -> str:
    call("tgkill", aims.victim, aims.victim, 0)
    return "signalled"


@attempt("signals", "queue a signal")
def _(aims: Aims, context: Context) -> str:
    call("rt_sigqueueinfo", aims.victim, 0, struct.pack("=iiii", 0, 0, -1, 0) + b"\0" * 112)
    return "queued"


@attempt("signals", "signal through a descriptor")
def _(aims: Aims, context: Context) -> str:
    named = call("pidfd_open", aims.victim, 0)
    try:
        call("pidfd_send_signal", named, 0, None, 0)
    finally:
        os.close(named)
    return "signalled"


@attempt("signals", "have the kernel signal another at a pipe's turn")
def _(aims: Aims, context: Context) -> str:
    ears, mouth = os.pipe()
    try:
        fcntl.fcntl(ears, fcntl.F_SETOWN, aims.victim)
        fcntl.fcntl(ears, 10, int(signal.SIGURG))  # F_SETSIG
    finally:
        os.close(ears)
        os.close(mouth)
    return "set"


@attempt("signals", "leave the session")
def _(aims: Aims, context: Context) -> str:
    """Its leader cannot, whatever is allowed; the kernel says so in another word than the filter."""
    try:
        os.setpgid(0, os.getpgid(0))
    except PermissionError:
        if os.getsid(0) != os.getpid() or _refused_by_filter():
            raise
    return "may"


def _refused_by_filter() -> bool:
    """A call without sense is told apart from one that is not allowed."""
    try:
        os.setpgid(0, -1)
    except PermissionError:
        return True
    except OSError:
        return False
    return False


@attempt("signals", "outlive the flow")
def _(aims: Aims, context: Context) -> str:
    prctl(1, int(signal.SIGKILL))  # PR_SET_PDEATHSIG
    return "set"


@attempt("signals", "slow another process down")
def _(aims: Aims, context: Context) -> str:
    os.setpriority(os.PRIO_PROCESS, aims.victim, os.getpriority(os.PRIO_PROCESS, aims.victim))
    return "set"


@attempt("signals", "choose another's processors")
def _(aims: Aims, context: Context) -> str:
    os.sched_setaffinity(aims.victim, os.sched_getaffinity(aims.victim))
    return "set"


@attempt("processes", "fork")
def _(aims: Aims, context: Context) -> str:
    return _children(1)


def _children(most: int) -> str:
    """So many forks that wait, and are ended here."""
    pids: list[int] = []
    try:
        for _number in range(most):
            if (pid := call("clone", int(signal.SIGCHLD), 0, 0, 0, 0)) == 0:
                while True:
                    signal.pause()
            pids.append(pid)
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    return f"{len(pids)} forked"


@attempt("processes", "fork and fork again")
def _(aims: Aims, context: Context) -> str:
    return _children(100)


@attempt("processes", "fork by clone3")
def _(aims: Aims, context: Context) -> str:
    if (pid := call("clone3", struct.pack("=11Q", 0, 0, 0, 0, int(signal.SIGCHLD), 0, 0, 0, 0, 0, 0), 88)) == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return "forked"


@attempt("processes", "a process in namespaces of its own")
def _(aims: Aims, context: Context) -> str:
    new_user = 0x10000000
    if (pid := call("clone", new_user | int(signal.SIGCHLD), 0, 0, 0, 0)) == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return "forked"


@attempt("processes", "start a program")
def _(aims: Aims, context: Context) -> str:
    os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)
    return "run"


@attempt("processes", "become a program")
def _(aims: Aims, context: Context) -> str:
    with suppress(FileNotFoundError):  # the kernel has looked for it
        call("execve", b"/no/such/program", None, None)
    return "may"


@attempt("threads", "as many threads as there is room for")
def _(aims: Aims, context: Context) -> str:
    """After a claim that somebody else counts them from now on."""
    ears, mouth = os.pipe()
    channel = next(each for each in gc.get_objects() if isinstance(each, process_child.Channel))
    channel.hand_over_threads(ears)
    os.close(ears)
    os.close(mouth)
    done, begun = threading.Event(), 0
    threading.stack_size(64 * 1024)
    try:
        while begun <= aims.threads:
            _thread.start_new_thread(done.wait, ())
            begun += 1
    except RuntimeError:
        raise PermissionError(errno.EAGAIN, f"after {begun}") from None
    finally:
        done.set()
        _until_ended()
    return f"{begun} threads"


def _until_ended() -> None:
    deadline = time.monotonic() + SETTLE_SECONDS
    while time.monotonic() < deadline and "Threads:\t2\n" not in Path("/proc/self/status").read_text():
        time.sleep(0.005)


@attempt("tracing", "trace the flow")
def _(aims: Aims, context: Context) -> str:
    seize, detach = 0x4206, 17
    call("ptrace", seize, aims.victim, 0, 0)
    with suppress(OSError):  # it was not stopped
        call("ptrace", detach, aims.victim, 0, 0)
    return "traced"


@attempt("tracing", "read another's memory")
def _(aims: Aims, context: Context) -> str:
    """Where there is none, the kernel says so only to who may look."""
    room = ctypes.create_string_buffer(8)
    here = (ctypes.c_size_t * 2)(ctypes.addressof(room), 8)
    there = (ctypes.c_size_t * 2)(16, 8)
    try:
        call("process_vm_readv", aims.victim, here, 1, there, 1, 0)
    except OSError as error:
        if error.errno != errno.EFAULT:
            raise
    return "looked"


@attempt("tracing", "take another's open file")
def _(aims: Aims, context: Context) -> str:
    named = call("pidfd_open", aims.victim, 0)
    try:
        os.close(call("pidfd_getfd", named, 0, 0))
    finally:
        os.close(named)
    return "taken"


@attempt("tracing", "compare two processes")
def _(aims: Aims, context: Context) -> str:
    return str(call("kcmp", os.getpid(), aims.victim, 1, 0, 0))
