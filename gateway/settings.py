"""The gateway's settings."""

from functools import lru_cache

from pydantic import Field, HttpUrl, SecretStr
from pydantic_settings import SettingsConfigDict

from domain.tokens import TokenSettings


class GatewaySettings(TokenSettings):
    """Environment variables `CAIRN_*`."""

    model_config = SettingsConfigDict(env_prefix="CAIRN_", extra="ignore")

    database_gateway_url: SecretStr = Field(description="PostgreSQL as role cairn_gateway, which can only read views")
    domain_url: HttpUrl = Field(description="The domain service")
    serving_url: HttpUrl = Field(description="The serving process: tiles and STAC")
    service_token: SecretStr = Field(description="The gateway's own credential: it may submit, and nothing else")
    max_body_bytes: int = Field(default=1_000_000, ge=1024, description="Largest request body that is read")
    domain_timeout_seconds: float = Field(default=15.0, gt=0, description="How long the domain may take to answer")


@lru_cache
def settings() -> GatewaySettings:
    """The settings of this process."""
    return GatewaySettings()
