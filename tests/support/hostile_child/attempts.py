"""The register of attempts, and how each is judged: it got out only if it tells what it got."""

import ctypes
import errno
import os
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from flows.handlers.context import Context

REFUSED, ESCAPED, BROKEN = "refused", "ESCAPED", "broken"

# Numbers on x86_64 and aarch64. One number stands for the same call on all newer architectures.
NUMBERS: dict[str, int | tuple[int, int]] = {
    "truncate": (76, 45), "open_by_handle_at": (304, 265), "name_to_handle_at": (303, 264), "fchmodat": (268, 53),
    "inotify_init1": (294, 26), "inotify_add_watch": (254, 27), "bpf": (321, 280), "perf_event_open": (298, 241),
    "userfaultfd": (323, 282), "add_key": (248, 217), "keyctl": (250, 219), "unshare": (272, 97), "mount": (165, 40),
    "chroot": (161, 51), "personality": (135, 92), "shmget": (29, 194), "shmctl": (31, 195), "msgctl": (71, 187),
    "mq_unlink": (241, 181), "umount2": (166, 39), "mq_open": (240, 180), "msgget": (68, 186),
    "fanotify_init": (300, 262), "ptrace": (101, 117), "process_vm_readv": (310, 270), "kcmp": (312, 272),
    "rt_sigqueueinfo": (129, 138), "tgkill": (234, 131), "clone": (56, 220), "execve": (59, 221),
    "setresuid": (117, 147), "syslog": (103, 116), "capget": (125, 90), "setns": (308, 268), "linkat": (265, 37),
    "memfd_secret": 447, "openat2": 437, "clone3": 435, "io_uring_setup": 425, "pidfd_open": 434,
    "pidfd_send_signal": 424, "pidfd_getfd": 438, "process_madvise": 440,
}  # fmt: skip
_libc = ctypes.PyDLL(None, use_errno=True)  # it keeps the interpreter's lock, so that a fork of it can go on


@dataclass(frozen=True)
class Aims:
    """What a test has laid out for the try to reach. Nothing of it is the try's."""

    secret: str  # a file that only its owner may read
    planted: str  # where nobody but others may write
    source: str  # a source that it may read, and not change
    another: str  # another tenant's, and another's product
    product: str
    victim: int  # another process of the same user
    flow: int
    zygote: str
    stream: str  # addresses that listen, as `socket` takes them
    datagram: str
    path: str
    port: int
    threads: int
    beyond_file_mb: int
    beyond_memory_mb: int


Attempt = Callable[[Aims, Context], object]
ATTEMPTS: dict[str, dict[str, Attempt]] = {}


def attempt(kind: str, name: str) -> Callable[[Attempt], Attempt]:
    """Register it under its class."""

    def register(made: Attempt) -> Attempt:
        names = ATTEMPTS.setdefault(kind, {})
        assert name not in names
        names[name] = made
        return made

    return register


def made(attempts: Mapping[str, Attempt], aims: Aims, context: Context) -> dict[str, str]:
    """What came of each."""
    return {name: _made(one, aims, context) for name, one in attempts.items()}


def _made(one: Attempt, aims: Aims, context: Context) -> str:
    try:
        got = one(aims, context)
    except OSError as error:
        return f"{REFUSED}: {errno.errorcode.get(error.errno or 0, str(error))}"
    except MemoryError:
        return f"{REFUSED}: memory"
    except Exception as error:  # noqa: BLE001 - the test tells it apart from a refusal
        return f"{BROKEN}: {type(error).__name__}: {error}"
    return f"{ESCAPED}: {got}"[:200]


def call(name: str, *arguments: Any) -> int:
    """A system call by its name; its error raised."""
    numbers = NUMBERS[name]
    number = numbers if isinstance(numbers, int) else numbers[platform.machine() == "aarch64"]
    wide = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    result: int = _libc.syscall(ctypes.c_long(number), *wide)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def prctl(option: int, value: int) -> None:
    """As above, for what has a wrapper."""
    if _libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) < 0:
        raise OSError(ctypes.get_errno(), "prctl")
