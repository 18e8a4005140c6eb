"""Requests that end, and the collector's looks at what they left over."""

from pathlib import Path
from typing import Any

from domain.loops.leftover_collector import LeftoverCollector
from domain.rules.leftovers import Retention
from domain.services.operations.leftovers import Collected, Collecting
from flows.handlers.vector.load import table_name
from tests.support.acts import dispatched, submit
from tests.support.leftovers import strays
from tests.support.planting import Worker, at_work
from tests.support.platform import Domain

AT_ONCE = Retention(after_success=0, after_failure=0)
VECTOR = {"data_type": "vector", "source": "uploads/fields.geojson", "refs": {"dataset_id": "d", "resource_id": "v"}}
ALL_OVER = "update app.attempts set disposed_at = now() where state in ('committed', 'failed', 'fenced') returning 1"


def collecting(domain: Domain, patience: Retention = AT_ONCE) -> Collecting:
    return Collecting(domain.service.database, domain.service.zones, patience)


async def swept(domain: Domain, patience: Retention = AT_ONCE) -> Collected:
    """What a look of the collector removes once Prefect says of all flow runs that they are over."""
    domain.rows(ALL_OVER)
    return await LeftoverCollector(collecting(domain, patience), 1).sweep()


def leases_end(domain: Domain) -> None:
    """As if what collectors have begun was begun long ago: the next look goes on with it."""
    domain.rows("update app.requests set collecting_at = collecting_at - interval '6 minutes' returning 1")


def alone(domain: Domain) -> list[str]:
    return strays(domain.database.url(), domain.service.zones)


async def working(domain: Domain, folder: Path, **changes: Any) -> Worker:
    """A vector's ingest, at work."""
    answer = await submit(domain, **VECTOR | changes)
    assert answer.status_code == 202, answer.text
    [flow] = await dispatched(domain)
    return await at_work(flow, folder)


async def committed(worker: Worker, product: Any) -> None:
    table = table_name(product.product)
    worker.finishes(product, table)
    artifacts = [each.model_dump(mode="json") for each in product.artifacts]
    answer = await worker.flow.commit({"validation": {"sha256": "f" * 64}}, artifacts=artifacts)
    assert answer.json()["state"] == "completed", answer.text
