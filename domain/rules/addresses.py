"""Which addresses we are willing to call when a partner names them. Pure: no resolver, no socket.

A URL is judged twice: as text when it is submitted, and by every address its name resolves to when it is called.
Whoever connects must connect to an address that was judged here, not to the name again.
"""

import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

MAX_LENGTH = 2000
MAX_NAME = 253
LABEL = re.compile(r"^(?!-)[a-z0-9-]{1,63}(?<!-)$")
VISIBLE_ASCII = re.compile(r"^[!-~]+$")
NUMERIC = re.compile(r"^(0x[0-9a-f]*|[0-9]+)$")
# Names that only mean something inside a network: nobody's public endpoint ends so.
PRIVATE_SUFFIXES = ("localhost", "local", "internal", "intranet", "lan", "corp", "home", "home.arpa", "localdomain")

# Python's `is_global` lets Azure's wire server, NAT64, 6to4 and multicast pass, and changes between versions.
# These tables do not. IPv4: everything but these is public.
NOT_PUBLIC_V4 = tuple(
    ipaddress.IPv4Network(network)
    for network in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "168.63.129.16/32", "169.254.0.0/16",
        "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24",
        "192.168.0.0/16", "192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/3",
    )
)  # fmt: skip
# IPv6: only global unicast is public, and of it not what carries an IPv4 address inside or is documentation.
PUBLIC_V6 = ipaddress.IPv6Network("2000::/3")
NOT_PUBLIC_V6 = tuple(
    ipaddress.IPv6Network(network)
    for network in ("2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20")
)


@dataclass(frozen=True)
class AddressPolicy:
    """What is allowed. The defaults are production's; only development lists networks or allows http."""

    https_only: bool = True
    ports: frozenset[int] | None = frozenset({443, 8443})
    networks: tuple[Network, ...] = ()


@dataclass(frozen=True)
class Target:
    """A URL that passed, in the parts that a connection is made of: nobody needs to parse it again."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        """The Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == {"https": 443, "http": 80}[self.scheme] else f"{host}:{self.port}"


class RefusedAddress(ValueError):
    """This address is not called. The message says why, for whoever named it."""


def parse(url: str, policy: AddressPolicy) -> Target:
    """The URL's parts, or why it is refused."""
    if len(url) > MAX_LENGTH or not VISIBLE_ASCII.match(url) or "\\" in url:
        raise RefusedAddress(f"A URL has at most {MAX_LENGTH} visible ASCII characters, and no backslash.")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise RefusedAddress("This is not a URL.") from None
    scheme = parts.scheme.lower()
    if scheme not in ({"https"} if policy.https_only else {"https", "http"}):
        raise RefusedAddress("The URL must start with https://.")
    if "@" in parts.netloc:
        raise RefusedAddress("A URL must carry no user name or password.")
    if "#" in url:
        raise RefusedAddress("A URL must have no fragment (#…).")
    port = (443 if scheme == "https" else 80) if port is None else port
    if policy.ports is not None and port not in policy.ports:
        allowed = ", ".join(str(known) for known in sorted(policy.ports))
        raise RefusedAddress(f"Port {port} is not called. Use one of {allowed}.")
    host = _host(parts.netloc, (parts.hostname or "").lower(), policy)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(scheme, host, port, path)


def _host(netloc: str, host: str, policy: AddressPolicy) -> str:
    """The host as one address in canonical form or one public name; anything in between is refused."""
    if netloc.startswith("["):
        return str(judged(_literal(host), policy))
    labels = host.split(".")
    if len(host) > MAX_NAME:
        raise RefusedAddress(f"A host name has at most {MAX_NAME} characters.")
    if NUMERIC.match(labels[-1]):  # resolvers read 127.1, 0x7f.1 and 2130706433 as addresses; we read one form only
        return str(judged(_literal(host), policy))
    if any(not LABEL.match(label) for label in labels):
        raise RefusedAddress("The host is not a name in ASCII (use the xn-- form of an international name).")
    is_private = len(labels) == 1 or any(host == suffix or host.endswith(f".{suffix}") for suffix in PRIVATE_SUFFIXES)
    if is_private and not policy.networks:
        raise RefusedAddress(f"{host} is not a public name.")
    return host


def _literal(text: str) -> Address:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        raise RefusedAddress("An address must be written as four decimal numbers, or as IPv6 in brackets.") from None


def judged(address: Address, policy: AddressPolicy) -> Address:
    """Return the address if it may be called, else refuse it."""
    if isinstance(address, ipaddress.IPv6Address) and address.scope_id is not None:
        raise RefusedAddress("An address must have no zone (%…).")
    if any(address in network for network in policy.networks if network.version == address.version):
        return address
    if not is_public(address):
        raise RefusedAddress(f"{address} is not a public address.")
    return address


def is_public(address: Address) -> bool:
    """True if the address belongs to the open internet. IPv4 inside IPv6 is not unwrapped: it is not public."""
    if isinstance(address, ipaddress.IPv4Address):
        return not any(address in network for network in NOT_PUBLIC_V4)
    return address in PUBLIC_V6 and not any(address in network for network in NOT_PUBLIC_V6)
