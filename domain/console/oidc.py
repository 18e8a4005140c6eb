"""Signing in at an OpenID Connect provider: authorization code with PKCE. Knows no tables and no pages.

The provider says who somebody is: by its own name and the subject's, the one pair that it never gives to anybody else.
Which client that is, and what they may do, our own rows say.
"""

import asyncio
import logging
import secrets
import time
from dataclasses import dataclass, field
from typing import Any

import httpx

from domain.console.pending import PendingSignIn
from domain.contracts.problems import ProblemError
from domain.rules.provider import Vouched, faults_of_audience, is_guarded, is_subject
from domain.shared.tokens import (
    FETCH_SECONDS,
    REFRESH_SECONDS,
    InvalidToken,
    KeySet,
    KeysUnavailable,
    TokenVerifier,
    fetcher,
)

log = logging.getLogger("cairn.console")
LONGEST_LIFE_SECONDS = 86_400.0  # of an ID token: it is looked at once, right after it was made


class ProviderUnavailable(ProblemError):
    code, status, title = "provider-unavailable", 503, "The sign-in service does not answer"


class SignInRefused(ProblemError):
    code, status, title = "sign-in-refused", 403, "You were not signed in"


@dataclass(frozen=True)
class Endpoints:
    """What the provider says of itself."""

    authorization: str
    token: str
    keys: KeySet


@dataclass
class Provider:
    """One provider. It is asked about itself at the first sign-in, not when the service starts."""

    issuer: str
    client_id: str
    client_secret: str | None
    scope: str
    development: bool = False  # a provider of this machine may be spoken to by http
    _endpoints: Endpoints | None = field(default=None, repr=False)
    _failed_at: float | None = field(default=None, repr=False)
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock, repr=False)

    async def begin(self, return_address: str) -> tuple[str, PendingSignIn]:
        """Where to send the browser, and what it must bring along when it comes back."""
        endpoints = await self._discover_once()
        verifier, nonce = secrets.token_urlsafe(48), secrets.token_urlsafe(24)
        async with self._client(redirect_uri=return_address) as client:
            address, state = client.create_authorization_url(
                endpoints.authorization, code_verifier=verifier, nonce=nonce
            )
        return address, PendingSignIn(state, nonce, verifier, return_address)

    async def finish(self, pending: PendingSignIn, given: dict[str, str]) -> Vouched:
        """Return the person whom the provider vouches for."""
        if not secrets.compare_digest(pending.state.encode(), given.get("state", "").encode()):
            raise SignInRefused("This answer belongs to another sign-in. Begin again.")
        if given.get("iss", self.issuer) != self.issuer:  # RFC 9207: another provider's answer
            raise SignInRefused("This answer comes from another sign-in service. Begin again.")
        if "code" not in given:
            raise SignInRefused("The sign-in service did not let you in.")
        endpoints = await self._discover_once()
        token = await self._exchange_code(endpoints, pending, given["code"])
        # The standard lets a provider with one key leave its id out.
        life, keys = LONGEST_LIFE_SECONDS, endpoints.keys
        verifier = TokenVerifier(self.issuer, self.client_id, "sub", life, keys, needs_key_id=False)
        try:
            claims = await verifier.claims(token)
            self._refuse_foreign(claims, pending.nonce)
            return Vouched(self.issuer, verifier.named(claims))
        except InvalidToken as error:
            raise SignInRefused("The sign-in service's answer cannot be believed. Begin again.") from error
        except KeysUnavailable as error:
            raise ProviderUnavailable("Its keys cannot be read. Try again in a moment.") from error

    def _refuse_foreign(self, claims: dict[str, Any], nonce: str) -> None:
        """Refuse a token that was made for another sign-in or another client."""
        if not secrets.compare_digest(str(claims.get("nonce", "")).encode(), nonce.encode()):
            raise InvalidToken("made for another sign-in")
        if fault := faults_of_audience(claims, self.client_id):
            raise InvalidToken(fault)
        if not is_subject(claims.get("sub")):
            raise InvalidToken("it names nobody")

    async def _exchange_code(self, endpoints: Endpoints, pending: PendingSignIn, code: str) -> str:
        """Exchange the code for the ID token that it stands for."""
        from authlib.common.errors import AuthlibBaseError

        try:
            async with self._client(redirect_uri=pending.return_address) as client:
                answer = await client.fetch_token(
                    endpoints.token,
                    grant_type="authorization_code",
                    code=code,
                    code_verifier=pending.verifier,
                )
        except AuthlibBaseError as error:
            raise SignInRefused("The sign-in service does not know this sign-in any more. Begin again.") from error
        except (httpx.HTTPError, ValueError) as error:
            raise ProviderUnavailable("Try again in a moment.") from error
        token = answer.get("id_token")
        if not isinstance(token, str):
            raise SignInRefused("The sign-in service did not say who you are.")
        return token

    async def _discover_once(self) -> Endpoints:
        """Return the provider's endpoints, asked for once; after a failure, not again for some seconds."""
        async with self._turn:
            if self._endpoints is None:
                if self._failed_at is not None and time.monotonic() - self._failed_at < REFRESH_SECONDS:
                    raise ProviderUnavailable("Try again in a moment.")
                try:
                    self._endpoints = self._endpoints_of(await self._fetch_discovery())
                except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
                    self._failed_at = time.monotonic()
                    log.warning("the sign-in service cannot be used", extra={"reason": str(error)})
                    raise ProviderUnavailable("Try again in a moment.") from error
            return self._endpoints

    async def _fetch_discovery(self) -> dict[str, Any]:
        address = self.issuer.rstrip("/") + "/.well-known/openid-configuration"
        async with httpx.AsyncClient(timeout=FETCH_SECONDS, follow_redirects=False, trust_env=False) as client:
            told: dict[str, Any] = (await client.get(address)).raise_for_status().json()
        return told

    def _endpoints_of(self, told: dict[str, Any]) -> Endpoints:
        """Return the endpoints, refusing any address on whose way others could listen."""
        if told["issuer"] != self.issuer:
            raise ValueError("the provider calls itself otherwise")
        for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
            if not is_guarded(told[name], self.development):
                raise ValueError(f"its {name} is not an https address")
        return Endpoints(told["authorization_endpoint"], told["token_endpoint"], KeySet(fetcher(told["jwks_uri"])))

    def _client(self, redirect_uri: str) -> Any:
        from authlib.integrations.httpx_client import AsyncOAuth2Client

        return AsyncOAuth2Client(
            self.client_id,
            self.client_secret,
            scope=self.scope,
            redirect_uri=redirect_uri,
            code_challenge_method="S256",
            token_endpoint_auth_method="client_secret_basic" if self.client_secret else "none",
            timeout=FETCH_SECONDS,
            trust_env=False,
        )
