"""What one gateway process holds while it runs."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

import httpx
from fastapi import Request

from domain.rules.rates import Buckets
from domain.shared.authentication import Authentication
from domain.shared.notices import Notices
from gateway.answer_cache import Remembered
from gateway.domain_client.client import DomainClient
from gateway.edge.rate_limit import Rates
from gateway.edge.stream_slots import Streams
from gateway.reads.queries import Queries
from gateway.settings import GatewaySettings


@dataclass(frozen=True)
class Gateway:
    """Made at start, closed at shutdown."""

    settings: GatewaySettings
    queries: Queries
    domain: DomainClient
    serving: httpx.AsyncClient
    targets: httpx.AsyncClient
    console: httpx.AsyncClient
    authentication: Authentication
    rates: Rates
    readers: Buckets
    visitors: Buckets
    notices: Notices
    streams: Streams
    visits: Streams
    batch_turns: Mapping[str, asyncio.Semaphore]  # by platform
    remembered: Remembered = field(default_factory=Remembered)


async def gateway(request: Request) -> Gateway:
    """What the application made at its start."""
    made: Gateway = request.app.state.gateway
    return made
