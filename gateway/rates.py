"""How often a client and its platform may call. Each process counts for itself."""

from dataclasses import dataclass

from domain.rules.clearance import Identity
from domain.rules.rates import Buckets
from gateway.errors import TooManyCalls


@dataclass(frozen=True)
class Rates:
    """A bucket for each client, and one that the clients of a platform share."""

    clients: Buckets
    platforms: Buckets

    def take(self, caller: Identity) -> None:
        """Count a call, or refuse it and say when the next one may come. A refused call costs nothing."""
        wait = self.clients.wait_seconds(caller.client_id)
        if caller.platform_id is not None:
            wait = max(wait, self.platforms.wait_seconds(caller.platform_id))
        if wait:
            raise TooManyCalls("Call again when the time in Retry-After has passed.", retry_after_seconds=wait)
        self.charge(caller, 1)

    def charge(self, caller: Identity, cost: float) -> None:
        """Count what a call turned out to ask for."""
        self.clients.charge(caller.client_id, cost)
        if caller.platform_id is not None:
            self.platforms.charge(caller.platform_id, cost)
