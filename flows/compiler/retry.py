"""How often a node is tried again, and after how long. Pure arithmetic: nobody sleeps here."""

from dataclasses import dataclass
from typing import Any, Literal

Backoff = Literal["fixed", "linear", "exponential"]
DEFAULT_MAX_ATTEMPTS = 3
JITTER = 0.5  # of a delay, at most, is waited less


@dataclass(frozen=True)
class Retry:
    """A retry policy. `max_attempts` counts retries: 5 means six tries, 0 none."""

    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    backoff: Backoff = "exponential"
    initial_delay_seconds: float = 1.0
    max_delay_seconds: float = 300.0
    jitter: bool = True
    delays_seconds: tuple[float, ...] = ()

    def delays(self) -> tuple[float, ...]:
        """Seconds to wait before each retry, one per retry, before any jitter."""
        return tuple(self._delay(number) for number in range(self.max_attempts))

    def wait(self, number: int, chance: float) -> float:
        """Seconds to wait before the retry of this number, from 0. The chance, from 0 to 1, shortens it: no wait is
        longer than its delay, nor than the policy's longest.
        """
        return self._delay(number) * (1 - JITTER * chance if self.jitter else 1)

    def _delay(self, number: int) -> float:
        if self.delays_seconds:
            return self.delays_seconds[min(number, len(self.delays_seconds) - 1)]
        factor = {"fixed": 1.0, "linear": number + 1.0, "exponential": 2.0**number}[self.backoff]
        return min(self.initial_delay_seconds * factor, self.max_delay_seconds)

    @classmethod
    def of(cls, policy: dict[str, Any]) -> "Retry":
        """The policy of a `retry` mapping as written, with what it leaves out."""
        fields = dict(policy)
        delays = tuple(float(delay) for delay in fields.pop("delays_seconds", ()))
        fields.setdefault("max_attempts", len(delays) or DEFAULT_MAX_ATTEMPTS)
        fields.setdefault("jitter", not delays)
        return cls(delays_seconds=delays, **fields)

    def to_json(self) -> dict[str, Any]:
        return {**self.__dict__, "delays_seconds": list(self.delays_seconds)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Retry":
        return cls(**{**data, "delays_seconds": tuple(data["delays_seconds"])})


def merged(defaults: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """A node's policy over its workflow's. Naming delays or a backoff replaces the other of the two."""
    policy = dict(defaults)
    if "backoff" in own:
        policy.pop("delays_seconds", None)
    if "delays_seconds" in own:
        policy.pop("max_attempts", None)
    return policy | own
