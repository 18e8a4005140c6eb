"""Attempts at the network, at others' sockets, and at the zygote."""

import errno
import json
import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

from flows.handlers.context import Context
from flows.tries import fork_client
from tests.support.hostile_child.attempts import Aims, attempt

SETTLE_SECONDS = 5.0


def _connect(family: int, kind: int, address: Any) -> str:
    with socket.socket(family, kind) as line:
        line.settimeout(1)
        line.connect(address)
    return "connected"


@attempt("sockets", "a connection to an address")
def _(aims: Aims, context: Context) -> str:
    return _connect(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", aims.port))


@attempt("sockets", "a connection by IPv6")
def _(aims: Aims, context: Context) -> str:
    socket.socket(socket.AF_INET6).close()
    return "made"


@attempt("sockets", "a datagram")
def _(aims: Aims, context: Context) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
        return str(line.sendto(b"x", ("127.0.0.1", aims.port)))


@attempt("sockets", "talk to the kernel's routes")
def _(aims: Aims, context: Context) -> str:
    socket.socket(socket.AF_NETLINK, socket.SOCK_RAW).close()
    return "made"


@attempt("sockets", "read all packets")
def _(aims: Aims, context: Context) -> str:
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0x0300).close()
    return "made"


@attempt("sockets", "talk to the machine below")
def _(aims: Aims, context: Context) -> str:
    socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM).close()
    return "made"


@attempt("sockets", "a socket of the kernel's ciphers")
def _(aims: Aims, context: Context) -> str:
    socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET).close()
    return "made"


@attempt("sockets", "connect to an abstract name")
def _(aims: Aims, context: Context) -> str:
    return _connect(socket.AF_UNIX, socket.SOCK_STREAM, f"\0{aims.stream}")


@attempt("sockets", "connect to a socket's file")
def _(aims: Aims, context: Context) -> str:
    return _connect(socket.AF_UNIX, socket.SOCK_DGRAM, aims.path)


@attempt("sockets", "listen under an abstract name")
def _(aims: Aims, context: Context) -> str:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0{aims.stream}-planted")
        listener.listen()
    return "listening"


def _sent_by_a_pair(address: str) -> str:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with ours, theirs:
        return f"{ours.sendto(b'x', address)} byte"


@attempt("sockets", "write from a pair to an abstract name")
def _(aims: Aims, context: Context) -> str:
    return _sent_by_a_pair(f"\0{aims.datagram}")


@attempt("sockets", "write from a pair to a socket's file")
def _(aims: Aims, context: Context) -> str:
    return _sent_by_a_pair(aims.path)


def _zygote(aims: Aims) -> socket.socket:
    line = socket.socket(socket.AF_UNIX)
    line.settimeout(SETTLE_SECONDS)
    line.connect(f"\0{aims.zygote}")
    return line


def _ordered(aims: Aims, kind: bytes) -> str:
    """A fork of the zygote is an escape, whatever it was told to be: nobody has confined it yet."""
    with _zygote(aims) as zygote, Path(os.devnull).open() as nothing:
        files = [nothing.fileno()] * fork_client.STREAMS
        with suppress(BrokenPipeError, ConnectionResetError):  # who does not hear us out refuses us too
            socket.send_fds(zygote, [kind], files)
        answer = fork_client.read_line(zygote)
    if not answer:
        raise PermissionError(errno.EPERM, "not answered")
    return f"forked {json.loads(answer)['pid']}"


@attempt("orders", "have the zygote fork a try without confinement")
def _(aims: Aims, context: Context) -> str:
    return _ordered(aims, fork_client.TRY)


@attempt("orders", "have the zygote fork a flow run")
def _(aims: Aims, context: Context) -> str:
    return _ordered(aims, fork_client.FLOW)
