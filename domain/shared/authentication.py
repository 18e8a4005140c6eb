"""Finds who holds a credential, alike in every service. Knows neither tables nor routes: services bring their lookups.

Shared by the domain, the gateway and serving, so it may import contracts, rules and tokens, and nothing else of ours.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from domain.contracts.problems import ProblemError
from domain.rules.clearance import Identity
from domain.rules.guesses import Guesses
from domain.shared.tokens import InvalidToken, KeysUnavailable, TokenVerifier, looks_like_token


class Unauthenticated(ProblemError):
    code, status, title = "unauthenticated", 401, "No valid credential was given"


class TooManyGuesses(ProblemError):
    code, status, title = "too-many-wrong-credentials", 429, "Too many wrong credentials came from your address"


class IssuerUnavailable(ProblemError):
    code, status, title = "issuer-unavailable", 503, "Tokens cannot be verified right now"


class Holders(Protocol):
    """The registered clients as this service may read them. It finds active clients only."""

    async def identity(self, secret_hash: str) -> Identity | None: ...

    async def identity_of(self, client_id: str) -> Identity | None: ...


@dataclass(frozen=True)
class Authentication:
    """Looks a credential up, as a key or as a token where an issuer is configured, and slows down who guesses."""

    tokens: TokenVerifier | None = None
    guesses: Guesses = field(default_factory=Guesses)
    seen: set[str] = field(default_factory=set)  # clients that were let in, until somebody takes note of them

    async def identify(self, secret: str, address: str, holders: Holders) -> Identity:
        """Return the holder of a credential that came from this address."""
        self.refuse_guesser(secret, address)
        try:
            holder = await self.holder(secret, holders)
        except Unauthenticated:
            self.note(secret, address, right=False)
            raise
        self.note(secret, address, right=True)
        return holder

    def refuse_guesser(self, secret: str, address: str) -> None:
        if wait := self.guesses.wait_seconds(address, secret_hash(secret)):
            raise TooManyGuesses("Wait, then use the credential that you were given.", retry_after_seconds=wait)

    def knows(self, secret: str, address: str) -> bool:
        """Whether this credential was good at its last use from there. It may have been withdrawn since."""
        return self.guesses.is_known(address, secret_hash(secret))

    def note(self, secret: str, address: str, *, right: bool) -> None:
        """Count whether a credential turned out right or wrong."""
        if right:
            self.guesses.was_right(address, secret_hash(secret))
        else:
            self.guesses.was_wrong(address, secret_hash(secret))

    async def holder(self, secret: str, holders: Holders) -> Identity:
        """Return the credential's holder, or refuse without a word about why."""
        found = await self._found(secret, holders)
        if found is None:
            raise Unauthenticated("This credential is unknown or was withdrawn, or its time is over.")
        self.seen.add(found.client_id)
        return found

    async def _found(self, secret: str, holders: Holders) -> Identity | None:
        if self.tokens is None or not looks_like_token(secret):
            return await holders.identity(secret_hash(secret))
        try:
            client_id = await self.tokens.client_id(secret)
        except InvalidToken:
            return None
        except KeysUnavailable as error:
            raise IssuerUnavailable("The token's issuer does not answer. Try again, or use an API key.") from error
        return await holders.identity_of(client_id)


def secret_hash(secret: str) -> str:
    """Return the stored hash of a credential; secrets are 256 random bits, so a fast hash is enough.

    Keys are looked up by this hash: how long that takes tells about the hash of a guess, which nobody can steer.
    """
    return hashlib.sha256(secret.encode()).hexdigest()


def shown_credential(headers: Mapping[str, str]) -> str | None:
    """The secret of `Authorization: Bearer …` or `X-API-Key`, if there is one. Names of headers are in lower case."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return (token.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")) or None


def required_credential(headers: Mapping[str, str]) -> str:
    """The secret that a caller must show."""
    if (secret := shown_credential(headers)) is None:
        raise Unauthenticated("Send an API key in X-API-Key, or a token in Authorization: Bearer.")
    return secret
