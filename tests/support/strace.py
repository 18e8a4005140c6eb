"""Reads what strace wrote: which files and sockets each process asked for."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CALLS = "trace=open,openat,openat2,creat,execve,socket,connect,sendto"
_CALL = re.compile(r"^(?P<pid>\d+)\s+(?P<call>\w+)\((?P<arguments>.*)$")
_PATH = re.compile(r'"((?:[^"\\]|\\.)*)"')
_NETWORKS = ("AF_INET", "AF_INET6", "AF_NETLINK", "AF_PACKET", "AF_VSOCK")


@dataclass(frozen=True)
class Asked:
    """One call: a file's path, or a kind of socket."""

    pid: int
    path: str | None = None
    network: str | None = None


def asked(log: Path) -> Iterator[Asked]:
    """Every file that was to be opened and every socket of a network, whether or not it was granted."""
    for line in log.read_text(errors="replace").splitlines():
        match = _CALL.match(line)
        if match is None:
            continue
        pid, call, arguments = int(match["pid"]), match["call"], match["arguments"]
        if call in ("socket", "connect", "sendto"):
            if kind := next((name for name in _NETWORKS if f"{name}," in arguments or f"={name}" in arguments), None):
                yield Asked(pid, network=f"{call} {kind}")
        elif path := _PATH.search(arguments):
            yield Asked(pid, path=path[1])
