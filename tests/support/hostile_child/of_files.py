"""Attempts at files: others' content, links, what is said about files, and more than a try may have of them."""

import ctypes
import errno
import mmap
import os
import resource
import socket
import stat
import struct
from contextlib import suppress
from pathlib import Path

from flows.handlers.context import Context
from tests.support.hostile_child.attempts import Aims, attempt, call

HERE = -100  # AT_FDCWD


def _content(path: str | Path) -> str:
    return Path(path).read_bytes()[:20].decode("latin-1") or "nothing"


def _opened(path: str, flags: int, mode: int = 0o600) -> str:
    file = os.open(path, flags, mode)
    os.close(file)
    return "opened"


@attempt("files", "read another's file")
def _(aims: Aims, context: Context) -> str:
    return _content(aims.secret)


@attempt("files", "read it by way of the own root")
def _(aims: Aims, context: Context) -> str:
    return _content(f"/proc/self/root{aims.secret}")


@attempt("files", "read it by way of the own folder")
def _(aims: Aims, context: Context) -> str:
    return _content(os.path.relpath(aims.secret))


@attempt("files", "name it, and open what is named")
def _(aims: Aims, context: Context) -> str:
    named = os.open(aims.secret, os.O_PATH)
    try:
        return _content(f"/proc/self/fd/{named}")
    finally:
        os.close(named)


@attempt("files", "name its folder, and open it below")
def _(aims: Aims, context: Context) -> str:
    folder = os.open(Path(aims.secret).parent, os.O_PATH)
    try:
        file = os.open(Path(aims.secret).name, os.O_RDONLY, dir_fd=folder)
    finally:
        os.close(folder)
    with os.fdopen(file, "rb") as content:
        return content.read(20).decode()


@attempt("files", "read it by openat2")
def _(aims: Aims, context: Context) -> str:
    file = call("openat2", HERE, aims.secret.encode(), struct.pack("=QQQ", os.O_RDONLY, 0, 0), 24)
    with os.fdopen(file, "rb") as content:
        return content.read(20).decode()


@attempt("files", "read it by its handle")
def _(aims: Aims, context: Context) -> str:
    handle = ctypes.create_string_buffer(struct.pack("=Ii", 128, 0) + b"\0" * 128, 136)
    mount = ctypes.c_int()
    call("name_to_handle_at", HERE, aims.secret.encode(), handle, ctypes.byref(mount), 0)
    folder = os.open(context.workdir, os.O_RDONLY)
    try:
        file = call("open_by_handle_at", folder, handle, os.O_RDONLY)
    finally:
        os.close(folder)
    with os.fdopen(file, "rb") as content:
        return content.read(20).decode()


@attempt("files", "list its folder")
def _(aims: Aims, context: Context) -> str:
    return str(list(Path(aims.secret).parent.iterdir()))


@attempt("files", "read the accounts")
def _(aims: Aims, context: Context) -> str:
    return _content("/etc/passwd")


@attempt("files", "write a file where others look")
def _(aims: Aims, context: Context) -> str:
    Path(aims.planted).write_text("was here")
    return "written"


@attempt("files", "make a folder there")
def _(aims: Aims, context: Context) -> str:
    place = Path(f"{aims.planted}-folder")
    place.mkdir()
    place.rmdir()
    return "made"


@attempt("files", "change a source")
def _(aims: Aims, context: Context) -> str:
    return _opened(aims.source, os.O_WRONLY)


@attempt("files", "cut a source off by its name")
def _(aims: Aims, context: Context) -> str:
    call("truncate", aims.source.encode(), Path(aims.source).stat().st_size)
    return "cut"


@attempt("files", "move another's file to the own")
def _(aims: Aims, context: Context) -> str:
    moved = context.workdir / "moved"
    Path(aims.secret).rename(moved)
    moved.rename(aims.secret)
    return "moved"


@attempt("files", "remove a source")
def _(aims: Aims, context: Context) -> str:
    content = Path(aims.source).read_bytes()
    Path(aims.source).unlink()
    Path(aims.source).write_bytes(content)
    return "removed"


@attempt("zones", "read another's upload")
def _(aims: Aims, context: Context) -> str:
    return _content(aims.another)


@attempt("zones", "list all uploads")
def _(aims: Aims, context: Context) -> str:
    return str(list(Path(aims.another).parent.iterdir()))


@attempt("zones", "read another's product")
def _(aims: Aims, context: Context) -> str:
    return _content(aims.product)


@attempt("zones", "change another's product")
def _(aims: Aims, context: Context) -> str:
    return _opened(aims.product, os.O_WRONLY)


@attempt("zones", "put another product in its place")
def _(aims: Aims, context: Context) -> str:
    own, product = context.workdir / "own", Path(aims.product)
    own.write_bytes(product.read_bytes())
    own.rename(product)
    return "put"


@attempt("calls on files", "empty a source as it is opened for reading")
def _(aims: Aims, context: Context) -> str:
    content = Path(aims.source).read_bytes()
    opened = _opened(aims.source, os.O_RDONLY | os.O_TRUNC)
    with suppress(OSError):  # without a way to make good, it is all the more an escape
        Path(aims.source).write_bytes(content)
    return opened


@attempt("calls on files", "change who may read a source")
def _(aims: Aims, context: Context) -> str:
    source = Path(aims.source)
    source.chmod(stat.S_IMODE(source.stat().st_mode))
    return "changed"


@attempt("calls on files", "change who may read a secret")
def _(aims: Aims, context: Context) -> str:
    call("fchmodat", HERE, aims.secret.encode(), 0o600, 0)
    return "changed"


@attempt("calls on files", "change it through what is open for reading")
def _(aims: Aims, context: Context) -> str:
    with Path(aims.source).open("rb") as file:
        os.fchmod(file.fileno(), stat.S_IMODE(os.fstat(file.fileno()).st_mode))
    return "changed"


@attempt("calls on files", "give a source away")
def _(aims: Aims, context: Context) -> str:
    os.chown(aims.source, os.geteuid(), -1)
    return "given"


@attempt("calls on files", "make a source older")
def _(aims: Aims, context: Context) -> str:
    os.utime(aims.source)
    return "touched"


@attempt("calls on files", "attach words to a source")
def _(aims: Aims, context: Context) -> str:
    os.setxattr(aims.source, "user.was", b"here")
    os.removexattr(aims.source, "user.was")
    return "attached"


@attempt("calls on files", "watch another's folder")
def _(aims: Aims, context: Context) -> str:
    watch = call("inotify_init1", 0)
    try:
        return str(call("inotify_add_watch", watch, str(Path(aims.secret).parent).encode(), 0x100))
    finally:
        os.close(watch)


@attempt("calls on files", "watch every file of the disk")
def _(aims: Aims, context: Context) -> str:
    os.close(call("fanotify_init", 0, 0))
    return "watching"


@attempt("links", "a symbolic link to a secret")
def _(aims: Aims, context: Context) -> str:
    (context.workdir / "link").symlink_to(aims.secret)
    return "made"


@attempt("links", "a second name of a source")
def _(aims: Aims, context: Context) -> str:
    os.link(aims.source, context.workdir / "second")
    return "made"


@attempt("links", "a second name of a secret that is only named")
def _(aims: Aims, context: Context) -> str:
    named = os.open(aims.secret, os.O_PATH)
    try:
        follow = 0x400
        call("linkat", HERE, f"/proc/self/fd/{named}".encode(), HERE, str(context.workdir / "third").encode(), follow)
    finally:
        os.close(named)
    return "made"


@attempt("links", "a pipe for whoever reads the product")
def _(aims: Aims, context: Context) -> str:
    os.mkfifo(context.workdir / "pipe")
    return "made"


@attempt("links", "a device")
def _(aims: Aims, context: Context) -> str:
    os.mknod(context.workdir / "device", 0o600 | stat.S_IFCHR, os.makedev(1, 5))
    return "made"


@attempt("links", "a socket for whoever finds it")
def _(aims: Aims, context: Context) -> str:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"/proc/self/cwd/{aims.port}.socket")
    return "made"


@attempt("limits", "a file beyond its limit, without content")
def _(aims: Aims, context: Context) -> str:
    with (context.workdir / "sparse").open("wb") as file:
        os.ftruncate(file.fileno(), aims.beyond_file_mb * 2**20)
    return "made"


@attempt("limits", "a byte beyond the limit")
def _(aims: Aims, context: Context) -> str:
    with (context.workdir / "far").open("wb") as file:
        os.pwrite(file.fileno(), b"x", aims.beyond_file_mb * 2**20)
    return "written"


@attempt("limits", "more memory than its limit")
def _(aims: Aims, context: Context) -> str:
    no_reserve = 0x4000
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | no_reserve
    mmap.mmap(-1, aims.beyond_memory_mb * 2**20, flags=flags).close()
    return "mapped"


@attempt("limits", "more files than its limit")
def _(aims: Aims, context: Context) -> str:
    opened: list[int] = []
    try:
        opened.extend(os.open(os.devnull, os.O_RDONLY) for _ in range(300))
    finally:
        for file in opened:
            os.close(file)
    return "opened"


@attempt("limits", "leave its memory on the disk as it dies")
def _(aims: Aims, context: Context) -> str:
    if resource.getrlimit(resource.RLIMIT_CORE)[1] == 0:
        raise PermissionError(errno.EPERM, "no core")
    return "may"


@attempt("/proc", "read the flow's environment")
def _(aims: Aims, context: Context) -> str:
    return _content(f"/proc/{aims.flow}/environ")


@attempt("/proc", "read the flow's memory")
def _(aims: Aims, context: Context) -> str:
    return _opened(f"/proc/{aims.flow}/mem", os.O_RDONLY)


@attempt("/proc", "write the flow's memory")
def _(aims: Aims, context: Context) -> str:
    return _opened(f"/proc/{aims.flow}/mem", os.O_RDWR)


@attempt("/proc", "list the flow's open files")
def _(aims: Aims, context: Context) -> str:
    return str(len(list(Path(f"/proc/{aims.flow}/fd").iterdir())))


@attempt("/proc", "read a secret by way of the flow's root")
def _(aims: Aims, context: Context) -> str:
    return _content(f"/proc/{aims.flow}/root{aims.secret}")


@attempt("/proc", "list all processes")
def _(aims: Aims, context: Context) -> str:
    return str(len(list(Path("/proc").iterdir())))


@attempt("/proc", "be the last that the kernel ends where memory does")
def _(aims: Aims, context: Context) -> str:
    Path("/proc/self/oom_score_adj").write_text("800")
    return "set"


@attempt("/proc", "list the machine's connections")
def _(aims: Aims, context: Context) -> str:
    return _content("/proc/self/net/unix")


@attempt("/proc", "say what happens to cores")
def _(aims: Aims, context: Context) -> str:
    return _opened("/proc/sys/kernel/core_pattern", os.O_WRONLY)
