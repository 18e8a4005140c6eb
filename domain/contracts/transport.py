"""What every process is told of the ways between services: encrypted, unless this is a developer's machine."""

from typing import ClassVar, Self
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from domain.rules.transport import is_plain_database, is_plain_http


class TransportSettings(BaseSettings):
    """Settings that name addresses list them here, and are refused where one could be listened to."""

    # A refusal would quote what was given, secrets included.
    model_config = SettingsConfigDict(env_prefix="CAIRN_", extra="ignore", hide_input_in_errors=True)

    services: ClassVar[tuple[str, ...]] = ()
    databases: ClassVar[tuple[str, ...]] = ()

    development: bool = Field(default=False, description="Allow what only a developer's machine may do")
    plaintext_hosts: tuple[str, ...] = Field(
        default=(), description="Hosts that may be spoken to without TLS, for their network is protected otherwise"
    )

    @model_validator(mode="after")
    def _in_secret(self) -> Self:
        for name in self.services:
            self.refuse_plain_http(f"CAIRN_{name.upper()}", self._told(name))
        for name in self.databases:
            if not self.development and is_plain_database(self._told(name), self._exempt):
                raise ValueError(
                    f"CAIRN_{name.upper()} leads to another machine without TLS that proves who answers: end it with "
                    f"?sslmode=verify-full (or verify-ca). {INSTEAD}"
                )
        return self

    def refuse_plain_http(self, variable: str, url: str) -> None:
        """Refuse an address that others could listen to; the message names no part of it but its host."""
        if not self.development and is_plain_http(url, self._exempt):
            raise ValueError(
                f"{variable} leads to {urlsplit(url).hostname} without TLS: let it begin with https://. {INSTEAD}"
            )

    @property
    def _exempt(self) -> frozenset[str]:
        return frozenset(host.lower() for host in self.plaintext_hosts)

    def _told(self, name: str) -> str:
        value = getattr(self, name)
        return value.get_secret_value() if isinstance(value, SecretStr) else str(value or "")


INSTEAD = (
    "Where the network between them is protected otherwise, name the host in CAIRN_PLAINTEXT_HOSTS; on a developer's "
    "machine set CAIRN_DEVELOPMENT=true."
)
