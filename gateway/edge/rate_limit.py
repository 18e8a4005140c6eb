"""How often a client and its platform may call, and how often data may be read. Each process counts for itself."""

from collections import OrderedDict
from dataclasses import dataclass, field

from domain.rules.clearance import Identity
from domain.rules.guesses import place_of
from domain.rules.rates import Buckets
from domain.shared.authentication import secret_hash
from gateway.errors import TooManyCalls

REMEMBERED = 1_000
SIGN_IN = ("/console/sign-in", "/console/signed-in")
SIGN_IN_COST = 25.0


@dataclass(frozen=True)
class Rates:
    """A bucket for each client, and one that the clients of a platform share."""

    clients: Buckets
    platforms: Buckets
    _refused: OrderedDict[str, Identity] = field(default_factory=OrderedDict)

    def refuse_again(self, credential: str) -> None:
        """Refuse a caller who must still wait without looking the credential up, since others pay for look-ups.

        What is remembered of a credential turns its holder away and never lets anybody in.
        """
        holder = self._refused.get(secret_hash(credential))
        if holder is not None and (wait := self._wait_seconds(holder)):
            raise _too_many_calls(wait)

    def take(self, caller: Identity, credential: str) -> None:
        """Count a call, or refuse it and say when the next one may come. A refused call costs nothing."""
        if wait := self._wait_seconds(caller):
            self._remember(caller, credential)
            raise _too_many_calls(wait)
        self.charge(caller, 1)

    def charge(self, caller: Identity, cost: float) -> None:
        """Charge the cost that a call turned out to have."""
        self.clients.charge(caller.client_id, cost)
        if caller.platform_id is not None:
            self.platforms.charge(caller.platform_id, cost)

    def _wait_seconds(self, caller: Identity) -> int:
        wait = self.clients.wait_seconds(caller.client_id)
        return wait if caller.platform_id is None else max(wait, self.platforms.wait_seconds(caller.platform_id))

    def _remember(self, caller: Identity, credential: str) -> None:
        self._refused[secret_hash(credential)] = caller
        if len(self._refused) > REMEMBERED:
            self._refused.popitem(last=False)


def take_read(readers: Buckets, credential: str | None, address: str) -> None:
    """Count a reading of data by whoever shows this credential, or by the address where none is shown.

    Nobody has looked at the credential yet: it says whose bucket it is and nothing more, and wrong ones are counted as
    guesses of their address.
    """
    _take(readers, reader_of(credential, address), 1.0)


def reader_of(credential: str | None, address: str) -> str:
    """Return whose bucket pays for a reading."""
    return place_of(address) if credential is None else secret_hash(credential)


def take_visit(visitors: Buckets, path: str, address: str) -> None:
    """Count the opening of a console page, script or picture by its network, as cookies prove nothing yet.

    Signing in is looked at by the domain, and perhaps by a provider of identities, for whoever asks.
    """
    _take(visitors, place_of(address), SIGN_IN_COST if path.startswith(SIGN_IN) else 1.0)


def _take(buckets: Buckets, caller: str, cost: float) -> None:
    if wait := buckets.wait_seconds(caller):
        raise _too_many_calls(wait)
    buckets.charge(caller, cost)


def _too_many_calls(wait_seconds: int) -> TooManyCalls:
    return TooManyCalls("Call again when the time in Retry-After has passed.", retry_after_seconds=wait_seconds)
