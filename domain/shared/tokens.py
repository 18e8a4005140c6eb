"""Verifies JWTs of an outside issuer by its published keys. They are verified here and never issued.

A token says which client calls, and nothing else is believed of it: role and platform are those of our own row, so
that revoking the client works at once and no issuer can make somebody staff.
"""

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from pydantic import Field, HttpUrl, SecretStr, model_validator
from pydantic_settings import BaseSettings

if TYPE_CHECKING:
    from jwt import PyJWK

log = logging.getLogger("cairn.tokens")
ALGORITHMS = {"RS256": "RSA", "ES256": "EC"}
FRESH_SECONDS = 300.0
KEPT_SECONDS = 3600.0
REFRESH_SECONDS = 10.0
FETCH_SECONDS = 5.0
MAX_KEYS = 32
MAX_BYTES = 64_000
MAX_TOKEN = 8_000
LEEWAY_SECONDS = 30.0

Fetch = Callable[[], Awaitable[bytes]]


class InvalidToken(Exception):
    """This token proves nothing. Callers tell no more than that."""


class KeysUnavailable(Exception):
    """The issuer's keys cannot be fetched, and none that were fetched before are young enough."""


@dataclass
class KeySet:
    """The issuer's keys. An unknown key id refetches them, but not more often than every ten seconds."""

    fetch: Fetch
    clock: Callable[[], float] = time.monotonic
    _keys: dict[str | None, "PyJWK"] = field(default_factory=dict)
    _had_at: float | None = None
    _asked_at: float | None = None
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def key(self, kid: str | None) -> "PyJWK":
        """The key of this id; without one the only key, if there is no other."""
        if self._named(kid) is None or self._age() > FRESH_SECONDS:
            async with self._turn:  # one fetch for all who wait
                if self._named(kid) is None or self._age() > FRESH_SECONDS:
                    await self._refresh()
        if self._age() > KEPT_SECONDS:
            raise KeysUnavailable("The token issuer's keys cannot be read.")
        if (found := self._named(kid)) is None:
            raise InvalidToken("unknown key")
        return found

    def _named(self, kid: str | None) -> "PyJWK | None":
        if kid is not None:
            return self._keys.get(kid)
        return next(iter(self._keys.values())) if len(self._keys) == 1 else None

    def _age(self) -> float:
        return float("inf") if self._had_at is None else self.clock() - self._had_at

    async def _refresh(self) -> None:
        """Fetch the keys, unless that was tried just now. After a failure the earlier keys stay."""
        if self._asked_at is not None and self.clock() - self._asked_at < REFRESH_SECONDS:
            return
        self._asked_at = self.clock()
        try:
            self._keys = _usable_keys(await self.fetch())
            self._had_at = self.clock()
        except (ValueError, OSError) as error:
            log.warning(
                "the issuer's keys could not be fetched", extra={"error": type(error.__cause__ or error).__name__}
            )


def _usable_keys(body: bytes) -> dict[str | None, "PyJWK"]:
    """Return the keys that verify signatures, skipping others, as for encryption.

    Without an id a key is kept only where it is the only one: nothing could tell it from others.
    """
    from jwt import PyJWK, PyJWKError

    if len(body) > MAX_BYTES:
        raise ValueError("the key set is too large")
    listed = json.loads(body)["keys"] if isinstance(json.loads(body), dict) else []
    keys: dict[str | None, PyJWK] = {}
    unnamed: list[PyJWK] = []
    for entry in listed[:MAX_KEYS]:
        if not isinstance(entry, dict) or entry.get("use", "sig") != "sig":
            continue
        if entry.get("kty") not in ALGORITHMS.values() or "d" in entry:
            continue
        try:
            key = PyJWK.from_dict(entry)
        except PyJWKError:
            continue
        if isinstance(kid := entry.get("kid"), str):
            keys[kid] = key
        elif kid is None:
            unnamed.append(key)
    return keys or ({None: unnamed[0]} if len(unnamed) == 1 else {})


@dataclass(frozen=True)
class TokenVerifier:
    """Checks signature, issuer, audience and times, and tells the client that the token names."""

    issuer: str
    audience: str
    client_claim: str
    max_seconds: float
    keys: KeySet
    needs_key_id: bool = True

    async def client_id(self, token: str) -> str:
        """The client that this token was issued to."""
        return self.named(await self.claims(token))

    async def claims(self, token: str) -> dict[str, Any]:
        """What the token says, once it is known to be the issuer's and meant for us, and still good."""
        import jwt

        if len(token) > MAX_TOKEN:
            raise InvalidToken("too long")
        try:
            header = jwt.get_unverified_header(token)
        except jwt.PyJWTError as error:
            raise InvalidToken(str(error)) from error
        algorithm, kid = header.get("alg"), header.get("kid")
        if algorithm not in ALGORITHMS or not (isinstance(kid, str) or (kid is None and not self.needs_key_id)):
            raise InvalidToken("algorithm")
        key = await self.keys.key(kid)
        if key.key_type != ALGORITHMS[algorithm]:
            raise InvalidToken("the key is not of the algorithm's kind")
        try:
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=[algorithm],
                audience=self.audience,
                issuer=self.issuer,
                leeway=LEEWAY_SECONDS,
                options={"require": ["exp", "iat", "iss", "aud"], "strict_aud": False},
            )
        except jwt.PyJWTError as error:
            raise InvalidToken(str(error)) from error
        if claims["exp"] - claims["iat"] > self.max_seconds:
            raise InvalidToken("it lives too long")
        return claims

    def named(self, claims: dict[str, Any]) -> str:
        """Return the client that verified claims name."""
        client = claims.get(self.client_claim)
        if not isinstance(client, str) or not client:
            raise InvalidToken("it names no client")
        return client


class TokenSettings(BaseSettings):
    """Settings of credentials that every service has: token issuer, metrics token, how often it reports last uses."""

    jwt_issuer: str | None = Field(default=None, description="`iss` of tokens; with audience and key set, or none")
    jwt_audience: str | None = Field(default=None, description="`aud` of tokens that are meant for us")
    jwt_jwks_url: HttpUrl | None = Field(default=None, description="Where the issuer publishes its keys")
    jwt_client_claim: str = Field(default="client_id", description="The claim that names the client")
    jwt_max_seconds: float = Field(default=900, gt=0, description="Longest life of a token that is believed")
    metrics_token: SecretStr | None = Field(
        default=None, min_length=16, description="Who shows this may read /metrics; else operators only"
    )
    last_used_seconds: float = Field(
        default=60, gt=0, description="How often it is written down which clients were let in"
    )

    @model_validator(mode="after")
    def _all_or_none(self) -> Self:
        if len({self.jwt_issuer is None, self.jwt_audience is None, self.jwt_jwks_url is None}) > 1:
            raise ValueError("Set all of CAIRN_JWT_ISSUER, CAIRN_JWT_AUDIENCE and CAIRN_JWT_JWKS_URL, or none of them")
        return self

    def token_verifier(self) -> TokenVerifier | None:
        """Return the verifier of tokens where an issuer is configured."""
        if self.jwt_issuer is None or self.jwt_audience is None or self.jwt_jwks_url is None:
            return None
        keys = KeySet(fetcher(str(self.jwt_jwks_url)))
        return TokenVerifier(self.jwt_issuer, self.jwt_audience, self.jwt_client_claim, self.jwt_max_seconds, keys)


def fetcher(url: str) -> Fetch:
    """Reads the key set at this address. The address is an operator's setting, never a token's word."""

    async def fetch() -> bytes:
        import httpx

        try:
            async with httpx.AsyncClient(timeout=FETCH_SECONDS, follow_redirects=False, trust_env=False) as client:
                return (await client.get(url)).raise_for_status().content
        except httpx.HTTPError as error:
            raise ConnectionError("the issuer's keys cannot be fetched") from error

    return fetch


def looks_like_token(secret: str) -> bool:
    """Whether the secret has three parts with dots between; our own keys have not."""
    return secret.count(".") == 2
