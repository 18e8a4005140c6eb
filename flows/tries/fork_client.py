"""How to have a pool's zygote fork a process: spoken by launchers, for flow runs, and by flows, for GDAL tries.

Standard library only, and little of it: launchers load this in a bare interpreter.

One byte says what the fork is to be; with it go its three standard streams and a file that holds its order. The zygote
never reads the order, which is full of secrets: only the fork does.
"""

import array
import contextlib
import json
import os
import socket
import struct

ADDRESS = "CAIRN_ZYGOTE"
FLOW, TRY = b"f", b"t"
ANSWER_SECONDS = 10.0
STREAMS = 4

if False:  # TYPE_CHECKING, without what typing costs a launcher
    from typing import Any


def connect_to_zygote(name: "str | None") -> "socket.socket | None":
    """The zygote of this worker, if it runs as the same user: it is about to be given our environment."""
    if not name:
        return None
    zygote = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    zygote.settimeout(ANSWER_SECONDS)
    try:
        zygote.connect("\0" + name)
        if peer(zygote)[1] == os.getuid():
            return zygote
    except OSError:
        pass
    zygote.close()
    return None


def peer(connection: socket.socket) -> "tuple[int, int]":
    """The process that connected and its user, as the kernel knows them."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, uid, _ = struct.unpack("3i", credentials)
    return pid, uid


def ask_for_fork(
    zygote: socket.socket, kind: bytes, order: "dict[str, Any]", streams: "tuple[int, int, int]"
) -> "int | None":
    """Ask the zygote for a fork; return its pid, or None if the zygote refuses or is gone."""
    with in_nameless_file(order) as file:
        descriptors = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [*streams, file]))]
        try:
            zygote.sendmsg([kind], descriptors)
            answer = read_line(zygote)
        except OSError:
            return None
    return json.loads(answer).get("pid") if answer else None


def exit_code(zygote: socket.socket) -> "int | None":
    """Wait for the end of the fork; None where the zygote died, and its forks with it."""
    zygote.settimeout(None)
    answer = read_line(zygote)
    return int(json.loads(answer)["exit"]) if answer else None


def read_line(zygote: socket.socket) -> bytes:
    """One line of the zygote's answer; empty where it is gone."""
    received = b""
    with contextlib.suppress(InterruptedError, ConnectionError):
        while not received.endswith(b"\n"):
            byte = zygote.recv(1)  # a line at a time: the next one comes when the fork ends
            if not byte:
                return b""
            received += byte
    return received


@contextlib.contextmanager
def in_nameless_file(content: "dict[str, Any]") -> "Any":
    """A file without a name that holds the content: however long it is, nobody waits until somebody reads it."""
    file = os.memfd_create("order")
    try:
        with open(file, "wb", closefd=False) as stream:
            stream.write(json.dumps(content).encode())
        os.lseek(file, 0, os.SEEK_SET)
        yield file
    finally:
        os.close(file)
