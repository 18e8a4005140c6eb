"""Two hosts that serve pool gdal with the documented command, and what becomes of a fan-out that they share.

Hosts are network namespaces. `make hosts` (CAIRN_HOSTS_RUNS) tells the story many times, and with a tiled raster.
"""

import os
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from deployments import sample
from flows.memory.ledger import LedgerEntry, read
from tests.support import rasters
from tests.support.engine_chaos import SCALES, Trial, until
from tests.support.hosts import OURS, STOCK, Host, hosts, until_online

pytestmark = [pytest.mark.stack, pytest.mark.chaos] if os.environ.get("CAIRN_HOSTS_RUNS") else pytest.mark.stack
RUNS = int(os.environ.get("CAIRN_HOSTS_RUNS", "1"))
ITEMS, ITEM_SECONDS = 2000 if RUNS > 1 else 400, 0.3
CUT_SECONDS = 10.0  # scaled as the silence of a child is: 60 s of 60 s
END_SECONDS = 240.0
LEAST_SHARE = 0.4
TILED_SIDE = 4096  # 64 tiles
WORKFLOWS = {
    "shared_items": """
workflow_id: shared_items
version: 1
inputs: {count: {type: integer, default: 20}, seconds: {type: number, default: 0.5}}
nodes:
  start: {type: start, next: first}
  first: {handler: scripted, next: each}
  each:
    type: fan_out
    source: "{{ [0] * inputs.count }}"
    task: {handler: scripted, queue: gdal, params: {seconds: "{{ inputs.seconds }}"}}
    next: all
  all: {type: fan_in, next: end}
  end: {type: end}
"""
}


@pytest.fixture
def two(impatient_stack: Trial, tmp_path: Path) -> Iterator[list[Host]]:
    """Two hosts; the stack's own worker of the pool stands still meanwhile."""
    with impatient_stack.silent("worker-gdal"), hosts(impatient_stack, tmp_path, "ada", "bob") as made:
        yield made


def entries(made: Trial, run_id: str, node: str = "each") -> list[LedgerEntry]:
    return [entry for entry in read(made.store, f"{run_id}/m1", node) if entry.is_completed]


def by_host(found: list[LedgerEntry]) -> Counter[str]:
    """How many items each host did."""
    return Counter(entry.worker.partition("/")[0] for entry in found)


def ended(made: Trial, run_id: str) -> list[LedgerEntry]:
    """Wait for the run's end, which is a good one, and return what is remembered of its items."""
    states = made.until_ended([run_id])
    assert states == {run_id: "completed"}, made.record(run_id)
    return entries(made, run_id)


def both_at_work(found: list[LedgerEntry]) -> float:
    """Since when both hosts have worked: on a busy machine the second one's process may take as long as all items."""
    hosts_found = {entry.worker.partition("/")[0] for entry in found}
    assert len(hosts_found) == 2, hosts_found
    return max(min(one.started_at for one in found if one.worker.startswith(f"{name}/")) for name in hosts_found)


def have_begun(made: Trial, run_id: str, on: list[Host]) -> bool:
    """Whether each of these hosts has done some items."""
    done = by_host(entries(made, run_id))
    return all(done[host.name] > 5 for host in on)


@pytest.mark.parametrize("command", [STOCK, OURS], ids=["stock", "ours"])
def test_items_spread_over_two_hosts_by_need(impatient_stack: Trial, two: list[Host], command: tuple[str, ...]) -> None:
    for host in two:
        host.start_worker(command)
    until_online(impatient_stack, {host.name for host in two})
    for _ in range(RUNS):
        run_id = impatient_stack.start("shared_items", count=ITEMS, seconds=ITEM_SECONDS)
        found = ended(impatient_stack, run_id)
        shares = by_host(found if RUNS > 1 else [entry for entry in found if entry.started_at > both_at_work(found)])
        assert Counter(entry.index for entry in found) == dict.fromkeys(range(ITEMS), 1)
        assert min(shares[host.name] for host in two) / shares.total() >= LEAST_SHARE, shares
        print(f"shared by {dict(shares)}")  # noqa: T201


@pytest.mark.skipif(RUNS == 1, reason="in the long form: GDAL's processes start cold there, one for each tile")
def test_tiles_of_a_raster_spread_over_two_hosts(impatient_stack: Trial, two: list[Host]) -> None:
    source = rasters.bronze(impatient_stack.stack.folder / "storage", "uploads/ddh/hosts.tif")
    sample.write(source, seed=1, size=TILED_SIDE)
    for host in two:
        host.start_worker(STOCK)
    until_online(impatient_stack, {host.name for host in two})
    for number in range(RUNS):
        body = {"dataset_id": "hosts", "resource_id": "tiled", "version_id": str(number + 1), "data_type": "raster"}
        body |= {"operation": "ingest_tiled", "source": "uploads/ddh/hosts.tif"}
        parameters = {"parameters": {"tile_pixels": 512}}
        with impatient_stack.stack.partner() as gateway:
            request_id = (
                gateway.post("/api/platform/submit", json=body | parameters).raise_for_status().json()["request_id"]
            )
        [(run_id,)] = impatient_stack.stack.rows("select run_id from app.runs where request_id = %s", request_id)
        impatient_stack.until_ended([str(run_id)])
        shares = by_host(entries(impatient_stack, str(run_id), "tiles"))
        assert impatient_stack.state(str(run_id)) == "completed"
        assert min(shares[host.name] for host in two) / shares.total() >= LEAST_SHARE, shares
        print(f"n = {number + 1}; tiles shared by {dict(shares)}")  # noqa: T201


def test_run_completes_though_one_host_is_cut_off_and_one_is_killed(impatient_stack: Trial, two: list[Host]) -> None:
    for number in range(RUNS):
        for host in two:
            if not host.workers:
                host.start_worker(STOCK)
        until_online(impatient_stack, {host.name for host in two})
        cut, killed = two if number % 2 else reversed(two)
        run_id = impatient_stack.start("shared_items", count=300, seconds=0.3)
        until(partial(have_begun, impatient_stack, run_id, two), END_SECONDS)
        cut.cut_off()
        time.sleep(1.0)
        killed.kill()
        time.sleep(CUT_SECONDS)
        cut.connect()
        found = ended(impatient_stack, run_id)
        assert Counter(entry.index for entry in found) == dict.fromkeys(range(300), 1), "an item succeeded twice"
        print(f"n = {number + 1}; {SCALES}; cut off for {CUT_SECONDS} s; {dict(by_host(found))}")  # noqa: T201
