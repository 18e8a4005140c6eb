"""Free ports, without two stacks of one machine choosing the same one in the same moment."""

import atexit
import itertools
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Self

PREFERRED = {"gateway": 8000, "domain": 8001, "serving": 8002, "prefect": 4200, "postgres": 5433, "redis": 6390}
HOST = "127.0.0.1"
SEARCH = 200
# Below what Linux gives to outgoing connections (32768 and up), above what programs are usually set to.
UNUSED = range(20_000, 32_000)
KEPT = 50  # of a process's own claims: whatever asked before has long been listening


class NoFreePort(RuntimeError):
    """Nothing near the preferred port is free."""


@dataclass
class PortClaims:
    """Ports this process has claimed for its services, for as long as the block lasts.

    The services bind them only later, so each claim is also the binding of an abstract socket named after the port:
    the kernel lets one process hold it and frees it when that process dies.
    """

    _claims: list[socket.socket] = field(default_factory=list)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.forget_but(0)

    def forget_but(self, newest: int) -> None:
        """End all claims but so many of the newest."""
        while len(self._claims) > newest:
            self._claims.pop(0).close()

    def claim(self, preferred: int) -> int:
        """The preferred port, or the next one that neither a program nor another stack has taken."""
        for port in range(preferred, preferred + SEARCH):
            if self._claim_name(port):
                if is_free(port):
                    return port
                self._claims.pop().close()
        raise NoFreePort(f"No free port between {preferred} and {preferred + SEARCH - 1}.")

    def _claim_name(self, port: int) -> bool:
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            claim.bind(f"\0cairn-port-{port}")
        except OSError:
            claim.close()
            return False
        self._claims.append(claim)
        return True


def any_port() -> int:
    """Return a free port that no other asker here gets while its server starts.

    A port that the kernel picks is free only now: a second process may be given it before the server listens.
    """
    claims, places = _of_this_process()
    claims.forget_but(KEPT)
    return claims.claim(next(places))


@cache
def _of_this_process() -> tuple[PortClaims, Iterator[int]]:
    claims = PortClaims()
    atexit.register(claims.forget_but, 0)
    start = os.getpid() * SEARCH  # so that processes seldom have to pass over each other's
    return claims, (UNUSED[number % (len(UNUSED) - SEARCH)] for number in itertools.count(start))


def is_free(port: int) -> bool:
    """Whether nothing listens there now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # Connections that linger in TIME_WAIT after a stop must not push the next start to another port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True
