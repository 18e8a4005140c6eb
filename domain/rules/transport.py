"""Which addresses of services and databases are spoken to in the clear. Pure: resolves no name, opens nothing."""

import ipaddress
from collections.abc import Collection, Iterable
from typing import Final
from urllib.parse import parse_qsl, urlsplit

# `require` encrypts and asks nobody who answers: whoever sits between reads along.
VERIFIED: Final = frozenset({"verify-ca", "verify-full"})
LOCAL_NAMES: Final = frozenset({"localhost", ""})


def is_plain_http(url: str, exempt: Collection[str] = ()) -> bool:
    """Whether what is said to this address could be read on its way: http to another machine."""
    parts = urlsplit(url)
    return parts.scheme.lower() == "http" and not _is_near((parts.hostname or "").rstrip("."), exempt)


def is_plain_database(url: str, exempt: Collection[str] = ()) -> bool:
    """Whether PostgreSQL at this address may be spoken to without TLS, or by TLS with whoever answers."""
    parts = urlsplit(url)
    options = parse_qsl(parts.query)
    modes = {value for name, value in options if name == "sslmode"}
    if modes and modes <= VERIFIED:
        return False
    named = [value for name, value in options if name in {"host", "hostaddr"}]
    hosts = [*_listed(parts.netloc.rpartition("@")[2]), *(host for value in named for host in value.split(","))]
    return not all(_is_near(host, exempt) for host in hosts)


def _listed(netloc: str) -> Iterable[str]:
    """The hosts of an address that may name several, without their ports."""
    for place in netloc.split(","):
        yield place[1 : place.index("]")] if place.startswith("[") and "]" in place else place.partition(":")[0]


def _is_near(host: str, exempt: Collection[str]) -> bool:
    """Whether the host is this machine, or one to which operators say that the way is protected."""
    if host.lower() in LOCAL_NAMES or host.startswith("/") or host.lower() in exempt:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
