"""Where a database is and how one logs in: by the password of its URL, or by a token of Microsoft Entra's.

A token is asked for at each new connection and lives for about an hour; a connection that is open stays open. Azure's
library keeps it until shortly before its end. It is imported where a token is first wanted.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, Literal, Protocol

import psycopg
from psycopg.conninfo import conninfo_to_dict
from pydantic import Field, SecretStr

from domain.contracts.transport import TransportSettings
from domain.rules.database_timeouts import liveness_options
from domain.shared.database_connection import Answering, SurelyClosed

SCOPE: Final = "https://ossrdbms-aad.database.windows.net/.default"


class Token(Protocol):
    @property
    def token(self) -> str: ...


class Credential(Protocol):
    """What azure-identity's credentials are: they keep their tokens, and may be asked from several threads."""

    def get_token(self, *scopes: str) -> Token: ...


@dataclass(frozen=True)
class DatabaseAddress:
    """A database's address. `credential` gives the password of each connection; without one the URL has it."""

    url: str = field(repr=False)
    credential: Credential | None = field(default=None, repr=False)

    async def connect(self, **options: Any) -> psycopg.AsyncConnection:
        """Open a connection that may be silent for long, as listening ones are."""
        return await SurelyClosed.connect(self.url, **await self.login(options))

    async def connect_to_ask(self, **options: Any) -> Answering:
        """Open a connection whose server must answer in time."""
        return await Answering.connect(self.url, **await self.login(options))

    async def login(self, fixed: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return what a connection is opened with beside the URL; the URL's own timeouts win."""
        said = {**conninfo_to_dict(self.url), **(fixed or {})}
        options: dict[str, Any] = {**(fixed or {}), **liveness_options(said)}
        if self.credential is not None:
            options["password"] = await self._token(self.credential)
        return options

    def options(self, **fixed: Any) -> Callable[[], Awaitable[dict[str, Any]]]:
        """Return a function that a pool calls for the options of each new connection."""

        async def asked() -> dict[str, Any]:
            return await self.login(fixed)

        return asked

    @property
    def password(self) -> Callable[[], Awaitable[str]] | None:
        """Return what a library calls for the password; None where the URL has it."""
        if (credential := self.credential) is None:
            return None
        return lambda: self._token(credential)

    @staticmethod
    async def _token(credential: Credential) -> str:
        return (await asyncio.to_thread(credential.get_token, SCOPE)).token


class DatabaseSettings(TransportSettings):
    """How a service logs in to its database."""

    database_auth: Literal["password", "entra"] = Field(
        default="password", description="entra: log in with a token of the machine's identity; the URL has no password"
    )

    def address(self, url: SecretStr) -> DatabaseAddress:
        credential = machine() if self.database_auth == "entra" else None
        return DatabaseAddress(url.get_secret_value(), credential)


@cache
def machine() -> Credential:
    """Return the identity of this machine, found once because that takes long."""
    try:
        from azure.identity import DefaultAzureCredential
    except ModuleNotFoundError as error:
        raise ValueError(
            "CAIRN_DATABASE_AUTH=entra needs the package azure-identity: install cairn-platform[entra]."
        ) from error
    return DefaultAzureCredential()
