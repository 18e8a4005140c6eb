"""How often somebody may show wrong credentials. Knows no network: addresses are words, the clock is given."""

import ipaddress
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

IPV6_NEIGHBOURS = 64  # one customer's network: whoever has one address of it has them all


@dataclass
class Guesses:
    """Counts wrong credentials by source. Over the limit, it admits only credentials that were good there lately.

    So those who share an address with a guesser go on, and the guesser learns nothing more. Memory is bounded: what
    was counted longest ago is forgotten first.
    """

    limit: int = 50
    window_seconds: float = 60.0
    places: int = 10_000
    clock: Callable[[], float] = time.monotonic
    _wrong: OrderedDict[str, tuple[int, float]] = field(default_factory=OrderedDict)
    _good: OrderedDict[tuple[str, str], bool] = field(default_factory=OrderedDict)

    def wait_seconds(self, address: str, secret_hash: str) -> int:
        """Return for how long this credential is not checked; 0 where it may be checked now."""
        place = place_of(address)
        count, since = self._wrong.get(place, (0, 0.0))
        rest = since + self.window_seconds - self.clock()
        if count < self.limit or rest <= 0 or (place, secret_hash) in self._good:
            return 0
        return math.ceil(rest)

    def was_wrong(self, address: str, secret_hash: str = "") -> None:
        place, now = place_of(address), self.clock()
        self._good.pop((place, secret_hash), None)
        count, since = self._wrong.get(place, (0, now))
        if now - since >= self.window_seconds:
            count, since = 0, now
        self._keep(self._wrong, place, (count + 1, since))

    def was_right(self, address: str, secret_hash: str) -> None:
        self._keep(self._good, (place_of(address), secret_hash), True)

    def is_known(self, address: str, secret_hash: str) -> bool:
        """Whether this credential was good there when it was last looked at."""
        return (place_of(address), secret_hash) in self._good

    def _keep(self, counted: OrderedDict[Any, Any], key: Hashable, value: object) -> None:
        counted[key] = value
        counted.move_to_end(key)
        if len(counted) > self.places:
            counted.popitem(last=False)


def place_of(address: str) -> str:
    """Return the source of a call: an IPv4 address in one form, or the network of an IPv6 address."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:  # a Unix socket, or a proxy that says no address
        return address[:100]
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is None:
            return str(ipaddress.ip_network((parsed, IPV6_NEIGHBOURS), strict=False))
        parsed = parsed.ipv4_mapped
    return str(parsed)
