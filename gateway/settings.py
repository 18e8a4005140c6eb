"""The gateway's settings."""

import asyncio
from collections import defaultdict
from functools import lru_cache
from typing import ClassVar

from pydantic import Field, HttpUrl, SecretStr
from pydantic_settings import SettingsConfigDict

from domain.rules.rates import Buckets
from domain.shared.database_address import DatabaseSettings
from domain.shared.tokens import TokenSettings
from gateway.edge.rate_limit import Rates
from gateway.forwarding.proxy_rules import ProxyTarget


class GatewaySettings(TokenSettings, DatabaseSettings):
    """Environment variables `CAIRN_*`."""

    model_config = SettingsConfigDict(env_prefix="CAIRN_", extra="ignore")

    services: ClassVar = ("public_url", "domain_url", "serving_url", "jwt_jwks_url")
    databases: ClassVar = ("database_gateway_url",)

    database_gateway_url: SecretStr = Field(description="PostgreSQL as role cairn_gateway, which can only read views")
    public_url: HttpUrl | None = Field(
        default=None, description="Where the world reaches us: links begin so. None: as the caller asked"
    )
    domain_url: HttpUrl = Field(description="The domain service")
    serving_url: HttpUrl = Field(description="The serving process: tiles and STAC")
    service_token: SecretStr = Field(
        description="The gateway's own credential: it may submit and cancel, and nothing else"
    )
    max_body_bytes: int = Field(default=1_000_000, ge=1024, description="Largest request body that is read")
    max_body_depth: int = Field(default=32, ge=4, le=200, description="Deepest nesting of a body's lists and objects")
    client_calls_per_second: float = Field(
        default=100.0, gt=0, description="How often a client may call, in the long run"
    )
    client_calls_burst: float = Field(default=500.0, ge=1, description="How many calls a client may make at once")
    platform_calls_per_second: float = Field(default=200.0, gt=0, description="How often a platform's clients may call")
    platform_calls_burst: float = Field(default=1000.0, ge=1, description="How many calls a platform may make at once")
    reads_per_second: float = Field(
        default=200.0, gt=0, description="How often a credential, or an address without one, may read data"
    )
    reads_burst: float = Field(default=400.0, ge=1, description="How many tiles and other data it may read at once")
    console_visits_per_second: float = Field(
        default=50.0, gt=0, description="How often an address may open pages of the console; signing in counts as 25"
    )
    console_visits_burst: float = Field(default=600.0, ge=1, description="How many of them it may open at once")
    refusals_per_second: float = Field(
        default=50.0, gt=0, description="How many refusals an address is told at once; others it waits for a second"
    )
    bodies_mb: int = Field(
        default=64,
        ge=8,
        description="What the bodies of all requests at once may take; without a credential, a quarter",
    )
    batch_concurrency: int = Field(
        default=8, ge=1, le=64, description="Submissions of a platform's batches handed in at a time"
    )
    max_head_bytes: int = Field(default=32_768, ge=1024, description="Largest head of a request: line and headers")
    head_seconds: float = Field(default=10.0, gt=0, description="How long the head of a request may take to arrive")
    body_seconds: float = Field(default=60.0, gt=0, description="How long its body may take")
    body_bytes_per_second: float = Field(
        default=2000.0, gt=0, description="How fast it has to come, when CAIRN_HEAD_SECONDS of waiting are used up"
    )
    write_seconds: float = Field(
        default=30.0, gt=0, description="How long a client may take nothing of what is being sent to it"
    )
    write_bytes_per_second: float = Field(
        default=2000.0, gt=0, description="How fast an answer has to be taken, when that time is used up"
    )
    streams_per_address: int = Field(
        default=40, ge=1, description="Answers with data on their way to one address, or IPv6 /64, at a time"
    )
    streams_at_once: int = Field(
        default=400, ge=4, description="Such answers to all; the last quarter goes to those who read few"
    )
    console_streams_per_address: int = Field(
        default=80, ge=1, description="Answers of the console on their way to one address, or IPv6 /64, at a time"
    )
    console_streams_at_once: int = Field(
        default=400, ge=4, description="Such answers to all; the last quarter goes to those who read few"
    )
    keep_alive_seconds: int = Field(default=65, gt=0, description="How long a connection may rest between two requests")
    proxy_targets: dict[str, ProxyTarget] = Field(
        default_factory=dict, description="Internal services that operators may reach, by name"
    )
    domain_timeout_seconds: float = Field(default=15.0, gt=0, description="How long the domain may take to answer")

    def rates(self) -> Rates:
        """Make empty buckets for callers."""
        return Rates(
            Buckets(self.client_calls_per_second, self.client_calls_burst),
            Buckets(self.platform_calls_per_second, self.platform_calls_burst),
        )

    def readers(self) -> Buckets:
        """Make empty buckets for readers of tiles, features and the catalogue."""
        return Buckets(self.reads_per_second, self.reads_burst)

    def visitors(self) -> Buckets:
        """Make empty buckets for visitors of the console."""
        return Buckets(self.console_visits_per_second, self.console_visits_burst)

    def batch_turns(self) -> defaultdict[str, asyncio.Semaphore]:
        """Make the places that all batches of a platform share."""
        return defaultdict(lambda: asyncio.Semaphore(self.batch_concurrency))


@lru_cache
def settings() -> GatewaySettings:
    """The settings of this process."""
    return GatewaySettings()
