"""A service's figures for Prometheus. Shared by all services: it knows none of them.

What labels a series is ours: templates of routes, methods of HTTP, classes of statuses. Never a path, an id or anything
that somebody sent, for each new value is a series that is kept until the process ends.
"""

import hmac
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, Final

from prometheus_client import CollectorRegistry, Histogram, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from pydantic import SecretStr

METRICS_PATH: Final = "/metrics"
MEDIA_TYPE: Final = CONTENT_TYPE_LATEST
METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
CLASSES: Final = ("none", "1xx", "2xx", "3xx", "4xx", "5xx")
SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

Scope = MutableMapping[str, Any]
App = Callable[[Scope, Any, Any], Awaitable[None]]


class Metering:
    """The figures of one application, apart from those of others in the process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._seconds = Histogram(
            "cairn_http_request_seconds",
            "Time until an answer began, by the route's template and the class of its status",
            ("method", "route", "status"),
            buckets=SECONDS,
            registry=self.registry,
        )
        self._series: dict[tuple[str, str, int], Histogram] = {}

    def note(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one answer. The series is looked up here, since the library's own lookup takes longer than all else."""
        known = (method, route, status // 100)
        if (series := self._series.get(known)) is None:
            series = self._series[known] = self._seconds.labels(method, route, CLASSES[known[2]])
        series.observe(seconds)

    def add(self, metrics: Callable[[], Iterable[Metric]]) -> None:
        """Add figures that are computed whenever somebody reads them."""
        self.registry.register(_CollectorOnDemand(metrics))

    def text(self) -> bytes:
        return generate_latest(self.registry)


class _CollectorOnDemand(Collector):
    def __init__(self, metrics: Callable[[], Iterable[Metric]]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics()

    def describe(self) -> Iterable[Metric]:
        return []  # else the registry asks for figures when it only wants names, before the application has started


class RequestMeter:
    """ASGI: counts how each request was answered. Mounted applications have a meter of their own."""

    def __init__(self, app: App, metering: Metering, prefix: str = "", mounts: Iterable[str] = ()) -> None:
        self.app = app
        self.metering = metering
        self.prefix = prefix
        self.mounts = tuple(f"{mount}/" for mount in mounts)

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or (self.mounts and scope["path"].startswith(self.mounts)):
            await self.app(scope, receive, send)
            return
        began, status = time.perf_counter(), 0

        async def noting(message: Any) -> None:
            nonlocal status
            if not status and message["type"] == "http.response.start":
                status = message["status"]
                self._note(scope, status, began)
            await send(message)

        try:
            await self.app(scope, receive, noting)
        except Exception:
            if not status:
                status = 500
                self._note(scope, status, began)
            raise
        finally:
            if not status:  # whoever asked has gone
                self._note(scope, status, began)

    def _note(self, scope: Scope, status: int, began: float) -> None:
        # FastAPI tells a route with the prefix of the router that it was included by; else the route's path is whole.
        included = scope.get("fastapi", {}).get("effective_route_context")
        template = getattr(included or scope.get("route"), "path", None)
        route = "unmatched" if template is None else self.prefix + template
        method = scope["method"] if scope["method"] in METHODS else "other"
        self.metering.note(method, route, status, time.perf_counter() - began)


def connections(pools: Iterable[tuple[str, float, float]]) -> Metric:
    """Return figures of the process's database connections, by use: how many are busy, and how many there may be."""
    family = GaugeMetricFamily(
        "cairn_database_connections", "Connections of this process's pools", labels=("pool", "kind")
    )
    for name, used, most in pools:
        family.add_metric([name, "used"], used)
        family.add_metric([name, "most"], most)
    return family


def is_token(secret: str | None, token: SecretStr | None) -> bool:
    """Whether somebody showed the token of CAIRN_METRICS_TOKEN."""
    if secret is None or token is None:
        return False
    return hmac.compare_digest(secret.encode(), token.get_secret_value().encode())
