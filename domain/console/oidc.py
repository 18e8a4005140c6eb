"""Signing in at an OpenID Connect provider: authorization code with PKCE. Knows no tables and no pages.

The provider says who somebody is, by one configured claim. What they may do, our own row of that client says.
"""

import secrets
from dataclasses import dataclass, field
from typing import Any

import httpx

from domain.contracts.problems import ProblemError
from domain.tokens import FETCH_SECONDS, InvalidToken, KeySet, KeysUnavailable, TokenVerifier, fetcher

LONGEST_LIFE_SECONDS = 86_400.0  # of an ID token: it is looked at once, right after it was made
PENDING_SECONDS = 600.0


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
    user_claim: str
    _endpoints: Endpoints | None = field(default=None, repr=False)

    async def begin(self, return_address: str) -> tuple[str, dict[str, Any]]:
        """Where to send the browser, and what to remember until it comes back."""
        endpoints = await self._known()
        verifier, nonce = secrets.token_urlsafe(48), secrets.token_urlsafe(24)
        async with self._client(redirect_uri=return_address) as client:
            address, state = client.create_authorization_url(
                endpoints.authorization, code_verifier=verifier, nonce=nonce
            )
        return address, {"state": state, "nonce": nonce, "verifier": verifier, "return_address": return_address}

    async def finish(self, pending: dict[str, Any], given: dict[str, str]) -> str:
        """Who came back, by the name that the provider's token tells."""
        if not secrets.compare_digest(pending["state"].encode(), given.get("state", "").encode()):
            raise SignInRefused("This answer belongs to another sign-in. Begin again.")
        if "code" not in given:
            raise SignInRefused("The sign-in service did not let you in.")
        endpoints = await self._known()
        token = await self._exchanged(endpoints, pending, given["code"])
        # The standard lets a provider with one key leave its id out.
        life, keys = LONGEST_LIFE_SECONDS, endpoints.keys
        verifier = TokenVerifier(self.issuer, self.client_id, self.user_claim, life, keys, needs_key_id=False)
        try:
            claims = await verifier.claims(token)
            _refuse_foreign(claims, pending["nonce"])
            return verifier.named(claims)
        except InvalidToken as error:
            raise SignInRefused("The sign-in service's answer cannot be believed. Begin again.") from error
        except KeysUnavailable as error:
            raise ProviderUnavailable("Its keys cannot be read. Try again in a moment.") from error

    async def _exchanged(self, endpoints: Endpoints, pending: dict[str, Any], code: str) -> str:
        """The ID token that the code stands for."""
        from authlib.common.errors import AuthlibBaseError

        try:
            async with self._client(redirect_uri=pending["return_address"]) as client:
                answer = await client.fetch_token(
                    endpoints.token,
                    grant_type="authorization_code",
                    code=code,
                    code_verifier=pending["verifier"],
                )
        except AuthlibBaseError as error:
            raise SignInRefused("The sign-in service does not know this sign-in any more. Begin again.") from error
        except (httpx.HTTPError, ValueError) as error:
            raise ProviderUnavailable("Try again in a moment.") from error
        token = answer.get("id_token")
        if not isinstance(token, str):
            raise SignInRefused("The sign-in service did not say who you are.")
        return token

    async def _known(self) -> Endpoints:
        """What the provider says of itself, asked once."""
        if self._endpoints is None:
            address = self.issuer.rstrip("/") + "/.well-known/openid-configuration"
            try:
                async with httpx.AsyncClient(timeout=FETCH_SECONDS, follow_redirects=False, trust_env=False) as client:
                    told = (await client.get(address)).raise_for_status().json()
                self._endpoints = _endpoints(told, self.issuer)
            except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
                raise ProviderUnavailable("Try again in a moment.") from error
        return self._endpoints

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


def _refuse_foreign(claims: dict[str, Any], nonce: str) -> None:
    """A token that was made for another sign-in proves nothing about this browser."""
    if not secrets.compare_digest(str(claims.get("nonce", "")).encode(), nonce.encode()):
        raise InvalidToken("made for another sign-in")


def _endpoints(told: dict[str, Any], issuer: str) -> Endpoints:
    if told["issuer"] != issuer:
        raise ValueError("the provider calls itself otherwise")
    return Endpoints(told["authorization_endpoint"], told["token_endpoint"], KeySet(fetcher(told["jwks_uri"])))
