"""How often somebody may call: a bucket each, refilled steadily. Knows no network; the clock is given."""

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Buckets:
    """Lets a call through while the caller has a token left, then charges what it cost.

    A dear call may so leave a debt, which is paid by waiting: whoever sends a thousand things at once is served, and
    waits longer for the next. Memory is bounded: who called longest ago is forgotten first.
    """

    per_second: float
    burst: float
    places: int = 10_000
    clock: Callable[[], float] = time.monotonic
    _balances: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict)

    def wait_seconds(self, caller: str) -> int:
        """How long this caller has to wait before the next call; 0 where it may call now."""
        missing = 1.0 - self._balance(caller)
        return max(0, math.ceil(missing / self.per_second)) if missing > 0 else 0

    def debt_seconds(self, caller: str) -> float:
        """How long it takes until everything that this caller was charged is paid."""
        return max(0.0, -self._balance(caller) / self.per_second)

    def charge(self, caller: str, cost: float = 1.0) -> None:
        """Take the cost of a call, even beyond what the bucket holds."""
        self._balances[caller] = (self._balance(caller) - cost, self.clock())
        self._balances.move_to_end(caller)
        if len(self._balances) > self.places:
            self._balances.popitem(last=False)

    def _balance(self, caller: str) -> float:
        balance, since = self._balances.get(caller, (self.burst, self.clock()))
        return min(self.burst, balance + (self.clock() - since) * self.per_second)
