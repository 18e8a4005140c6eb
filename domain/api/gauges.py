"""The domain's gauges: read from the database when somebody asks, and not more often than every ten seconds.

Figures of several processes of the domain are the same, for they are of one database: let Prometheus take the maximum.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field

from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import QueuePool

from domain.db import Database
from domain.repositories.gauges import Gauges, Row
from domain.repositories.listening import ListeningSpans
from domain.repositories.pools import Pools
from domain.shared.loop_lag import LoopLag
from domain.shared.metrics import connections
from flows.pools import POOLS

log = logging.getLogger("cairn.metrics")
FRESH_SECONDS = 10.0
# Name, meaning, label, question, and the label's values that are told also where there is nothing of them.
FIGURES: tuple[tuple[str, str, str, Callable[[Gauges], Awaitable[Sequence[Row]]], tuple[str, ...]], ...] = (
    (
        "cairn_requests_open", "Requests that have not ended", "status",
        Gauges.open_requests, ("pending", "processing"),
    ),
    (
        "cairn_attempts_live", "Attempts that have not ended", "state",
        Gauges.live_attempts, ("ready", "sending", "sent", "started"),
    ),
    (
        "cairn_attempts_ended_last_hour", "Attempts of the last hour's runs, by what became of them", "outcome",
        Gauges.ended_attempts, ("committed", "failed", "fenced"),
    ),
    (
        "cairn_queue_oldest_seconds", "Age of the oldest attempt that waits to be sent", "pool",
        Gauges.oldest_waiting, tuple(POOLS),
    ),
    ("cairn_relay_leases_overdue", "Attempts that a relay took and did not send", "", Gauges.overdue_leases, ()),
    (
        "cairn_callbacks_open", "Callbacks that have not arrived and are tried again", "state",
        Gauges.open_callbacks, ("ready", "sending"),
    ),
    ("cairn_callback_lag_seconds", "How late the most belated callback is", "", Gauges.callback_lag, ()),
    ("cairn_pool_beacon_age_seconds", "Since a worker of the pool was heard of", "pool", Gauges.beacons, ()),
)  # fmt: skip
LISTENING = "How long heartbeats could be taken without a gap, by the processes together"
OWN_LAG = "How late this process's event loop woke somebody, at worst, in the last half minute"
LAG = "How late the event loop of the pool's worst worker woke, at worst, in the last half minute"
OF_POOLS = {
    "workers": "Workers that were heard of lately",
    "waiting": "Attempts that wait for the pool",
    "unroutable": "Runs that wait for a pool that nobody serves",
}


@dataclass
class DomainGauges:
    """Keeps the figures that were read last. It shows none while the database is away."""

    database: Database
    silence_seconds: float
    gap_seconds: float
    lag: LoopLag = field(default_factory=LoopLag)
    clock: Callable[[], float] = time.monotonic
    _read_at: float = field(default=float("-inf"), init=False)
    _metrics: list[Metric] = field(default_factory=list, init=False)
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    async def refresh(self) -> None:
        """Read again the figures that are too old, once for all who ask together."""
        async with self._turn:
            if self.clock() - self._read_at < FRESH_SECONDS:
                return
            self._read_at = self.clock()
            try:
                self._metrics = await self._read()
            except (SQLAlchemyError, OSError) as error:
                log.warning("figures could not be read", extra={"error": type(error).__name__})
                self._metrics = []

    def metrics(self) -> Iterable[Metric]:
        up = _gauge("cairn_domain_database_up", "Whether the last reading of these figures went well", "")
        up.add_metric([], 1.0 if self._metrics else 0.0)
        own = _filled("cairn_loop_lag_seconds", OWN_LAG, "", [("", self.lag.worst_seconds)], ())
        return [up, *self._metrics, own, *self._connections()]

    async def _read(self) -> list[Metric]:
        async with self.database.transaction() as session:
            gauges = Gauges(session)
            told = [
                _filled(name, words, label, await question(gauges), always)
                for name, words, label, question, always in FIGURES
            ]
            pools = await Pools(session).figures(self.silence_seconds)
            moment = await ListeningSpans(session).moment(self.gap_seconds)
        listening = _filled("cairn_listening_seconds", LISTENING, "", [("", moment.seconds)], ())
        by_pool = [
            _filled(f"cairn_pool_{name}", words, "pool", [(row["pool"], row[name]) for row in pools], ())
            for name, words in OF_POOLS.items()
        ]
        lags = [(row["pool"], row["loop_lag"]) for row in pools if row["loop_lag"] is not None]
        lag = _filled("cairn_worker_loop_lag_seconds", LAG, "pool", lags, ())
        return [*told, *by_pool, listening, lag]

    def _connections(self) -> Iterable[Metric]:
        pool = self.database.engine.pool
        if isinstance(pool, QueuePool):  # its asyncio kin is one, too
            yield connections([("app", pool.checkedout(), pool.size())])


def _gauge(name: str, told: str, label: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, told, labels=(label,) if label else ())


def _filled(name: str, told: str, label: str, rows: Sequence[Row], always: Iterable[str]) -> Metric:
    """Return a gauge with its values; labels in `always` have 0 where there is no row."""
    family = _gauge(name, told, label)
    for value_of, value in (dict.fromkeys(always, 0.0) | dict(rows)).items():
        family.add_metric([value_of] if label else [], value)
    return family
