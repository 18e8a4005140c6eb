"""Attempts with a blob that the try was handed open: to do more with it than to read it."""

import errno
import fcntl
import mmap
import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

from flows.handlers.context import Context
from flows.storage.lines import LineReader
from flows.storage.readers import FileReader
from tests.support.hostile_child.attempts import Aims, attempt, call
from tests.support.hostile_child.of_descriptors import channel

SOURCE = "in/a.tif"
GET_ATTRIBUTES, SET_ATTRIBUTES = 0x80086601, 0x40086602  # FS_IOC_GETFLAGS and _SETFLAGS


def _written(file: int) -> str:
    return f"{os.pwrite(file, b'x', 0)} byte"


def _reopened(file: int) -> str:
    again = os.open(f"/proc/self/fd/{file}", os.O_RDWR)
    os.close(again)
    return "opened for writing"


def _mapped(file: int) -> str:
    mmap.mmap(file, 1, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE).close()
    return "mapped for writing"


def _mode_changed(file: int) -> str:
    os.fchmod(file, stat.S_IMODE(os.fstat(file).st_mode))
    return "changed"


def _given(file: int) -> str:
    os.fchown(file, os.geteuid(), -1)
    return "given"


def _touched(file: int) -> str:
    os.utime(file)
    return "touched"


def _cut(file: int) -> str:
    os.ftruncate(file, os.fstat(file).st_size)
    return "cut"


def _words_attached(file: int) -> str:
    os.setxattr(file, "user.was", b"here")
    os.removexattr(file, "user.was")
    return "attached"


def _leased(file: int) -> str:
    """Whoever stores it anew would wait for us."""
    fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return "leased"


def _attributes_set(file: int) -> str:
    held = bytearray(8)
    fcntl.ioctl(file, GET_ATTRIBUTES, held)
    fcntl.ioctl(file, SET_ATTRIBUTES, bytes(held))
    return "set"


def _named_again(file: int) -> str:
    follow = 0x400
    call("linkat", -100, f"/proc/self/fd/{file}".encode(), -100, b"again", follow)
    Path("again").unlink()
    return "named"


def _owned(file: int) -> str:
    """Signals of the kernel's for somebody."""
    fcntl.fcntl(file, fcntl.F_SETOWN, os.getppid())
    return "owned"


OF_BLOBS: dict[str, Callable[[int], str]] = {
    "write it": _written,
    "open it again for writing": _reopened,
    "map it for writing": _mapped,
    "change who may read it": _mode_changed,
    "give it away": _given,
    "make it older": _touched,
    "attach words to it": _words_attached,
    "cut it off": _cut,
    "keep others from writing it": _leased,
    "set its attributes": _attributes_set,
    "give it a second name": _named_again,
    "have the kernel signal the flow for it": _owned,
}


def _with_a_blob(act: Callable[[int], str]) -> Callable[[Aims, Context], str]:
    def attempted(aims: Aims, context: Context) -> str:
        with context.storage.bronze.reader(SOURCE) as blob:
            assert isinstance(blob, FileReader | LineReader)
            if isinstance(blob, FileReader):
                return act(blob.descriptor)
            if act is _written:  # there a byte is a question, and changes nothing
                raise PermissionError(errno.EPERM, "no file")
            return act(blob.line.fileno())

    return attempted


for _name, _act in OF_BLOBS.items():
    attempt("blobs", _name)(_with_a_blob(_act))


def _line(context: Context) -> socket.socket:
    """The line to a blob, or the one to the flow's process, where a blob is a file."""
    blob = context.storage.bronze.reader(SOURCE)
    if isinstance(blob, LineReader):
        return blob.line
    blob.close()
    return channel().socket.dup()


@attempt("blobs", "write from its line to somebody else")
def _(aims: Aims, context: Context) -> str:
    address = f"\0{aims.datagram}"
    with _line(context) as line:
        return f"{line.sendto(b' ', address)} byte"


@attempt("blobs", "call somebody else on its line")
def _(aims: Aims, context: Context) -> str:
    with _line(context) as line:
        line.connect(f"\0{aims.stream}")
    return "connected"
