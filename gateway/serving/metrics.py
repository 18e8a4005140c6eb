"""What Prometheus reads of serving: for operators and whoever holds the token. The front door does not lead here."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from fastapi import FastAPI, Request, Response
from prometheus_client.metrics_core import CounterMetricFamily, Metric

from domain.shared.authentication import shown_credential
from domain.shared.metrics import MEDIA_TYPE, Metering, connections, is_token
from gateway.serving.access import identity_of
from gateway.serving.lookup import Lookup
from gateway.serving.problems import NOT_FOUND

OPERATORS = frozenset({"operator", "admin"})


class Cache(Protocol):
    """A cache that counts how often it had the answer."""

    hits: int
    misses: int


async def metrics(request: Request) -> Response:
    """The figures of this process. Who may not read them is told what is told of all that is not there."""
    if not is_token(shown_credential(request.headers), request.app.state.metrics_token):
        identity = await identity_of(request)
        if identity is None or identity.role not in OPERATORS:
            raise NOT_FOUND
    metering: Metering = request.app.state.metering
    return Response(metering.text(), media_type=MEDIA_TYPE)


def of_caches(caches: Mapping[str, Cache]) -> Callable[[], Iterable[Metric]]:
    """Return a function that reads how often each cache had the answer, and how often not."""

    def asked() -> Iterable[Metric]:
        family = CounterMetricFamily("cairn_serving_cache", "Questions to a cache", labels=("cache", "result"))
        for name, cache in caches.items():
            family.add_metric([name, "hit"], cache.hits)
            family.add_metric([name, "miss"], cache.misses)
        yield family

    return asked


def of_pools(lookup: Lookup, features: FastAPI) -> Callable[[], Iterable[Metric]]:
    """Return a function that reads the connections for lookups, and those for layers by asyncpg."""

    def asked() -> Iterable[Metric]:
        of_layers: Any = features.state.pool
        used = of_layers.get_size() - of_layers.get_idle_size()
        yield connections([("lookup", *lookup.connections()), ("layers", used, of_layers.get_max_size())])

    return asked
