"""What a GDAL try may do with storage: rules as a table, and real tries whose zones are in a storage account."""

import threading
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Any
from uuid import uuid4

import pytest

from domain.contracts.names import Named
from domain.contracts.runs import RunFacts
from flows.handlers.errors import Crashed, HandlerError, InvalidInput, SourceChanged, StorageForbidden
from flows.handlers.registry import registry
from flows.storage import Zones
from flows.storage.lines import BYTES
from flows.tries import one_try
from flows.tries.file_from_try import Bounds
from flows.tries.one_try import Care, Try
from flows.tries.storage_broker import MOST_LINES, Grants, StorageBroker
from tests.support.azurite import Azurite
from tests.support.clock import until

FACTS = RunFacts(id="run", request_id="request", received_at=datetime(2026, 1, 1, tzinfo=UTC), attempt=1)
MINE = Grants(frozenset({"in/a.tif"}), home="runs/run", output="runs/run/a2")


@pytest.mark.parametrize(
    ("act", "zone", "name", "allowed"),
    [
        ("open", "bronze", "in/a.tif", True),
        ("readable_path", "bronze", "in/a.tif", False),
        ("open", "silver", "in/a.tif", False),
        ("open", "bronze", "in/b.tif", False),
        ("names", "bronze", "in", False),
        ("open", "silver", "runs/run/a1/plain.tif", True),
        ("open", "silver", "runs/running/a1/plain.tif", False),
        ("names", "runs", "runs/run", True),
        ("open", "external", "runs/run/a1/x", False),
        ("put", "silver", "runs/run/a2/cog.tif", True),
        ("put", "silver", "runs/run/a1/cog.tif", False),
        ("put", "bronze", "runs/run/a2/cog.tif", False),
        ("put", "bronze", "in/a.tif", False),
        ("put", "external", "runs/run/a2/cog.tif", False),
        ("delete", "silver", "in/a.tif", False),
        ("delete_below", "silver", "runs/run/a2", True),
        ("delete_below", "silver", "runs/run", False),
        ("copy_from", "silver", "runs/run/a2/cog.tif", True),
        ("__class__", "silver", "runs/run/a2/cog.tif", False),
    ],
)
def test_broker_allows_exactly_the_acts_of_the_table(act: str, zone: str, name: str, allowed: bool) -> None:
    assert MINE.allow(act, zone, name) is allowed


def test_try_may_read_only_parameters_declared_as_blob_names() -> None:
    """A text that an earlier result made up is no name: it would have the next try read what nobody gave it."""
    handler = registry()["raster.mosaic"]
    part = {"id": "0_0", "column": 0, "row": 0, "width": 1, "height": 1, "cog": "assets/x/0-r1/a1/0.tif"}
    band = {"dtype": "uint8", "nodata": None, "minimum": 0, "maximum": 0, "mean": 0, "stddev": 0, "valid_percent": 0}
    told = {"unit": "uploads/other/b.tif", "description": "uploads/other/c.tif"}
    named = Named()
    one_try.check_params(
        handler,
        {"source": "in/a.tif", "tiles": [{**part, "bands": [{**band, **told}], "crs": "uploads/other/d.tif"}]},
        named,
    )
    found = Grants.of(named.names, "assets/x/0-r1/a2")
    assert found.named == {"in/a.tif", "assets/x/0-r1/a1/0.tif"}
    assert (found.home, found.output) == ("assets/x/0-r1", "assets/x/0-r1/a2")


def test_source_that_was_replaced_between_two_openings_of_a_try_is_refused(tmp_path: Path) -> None:
    """It would take the header of one content for that of another. What the try makes itself, it may make again."""
    zones = Zones.local(tmp_path)
    answers: list[object] = []
    broker = StorageBroker(zones, MINE, Event(), lambda message, file=None: answers.append(message), Bounds(0, 0))

    def open_twice(zone: str, name: str) -> None:
        for content in (b"first", b"other"):
            getattr(zones, zone).write_bytes(name, content)
            broker._answered({"act": "open", "zone": zone, "name": name}, None)

    open_twice("silver", "runs/run/a2/cog.tif")
    with pytest.raises(SourceChanged):
        open_twice("bronze", "in/a.tif")
    assert answers == [{"stored": 5}] * 3


@pytest.fixture
def zones(azurite: Azurite) -> Zones:
    return azurite.zones(f"b{uuid4().hex[:12]}-")


def run(zones: Zones, what: str, timeout_seconds: float = 60, **params: Any) -> dict[str, Any]:
    one = Try("n", "probe.gdal", {"what": what, **params}, FACTS, timeout_seconds, memory="run/m1")
    seen: dict[str, Any] = one_try.run_try(one, Care(zones, Event(), lambda *_: None))["seen"]
    return seen


def test_try_reads_and_writes_zones_without_a_credential(zones: Zones, start: str) -> None:
    zones.bronze.write_bytes("in/a.bin", b"0123456789" * 1_000_000)
    made = ["runs/run/a1/copy", "runs/run/a1/small"]
    seen = run(zones, "store", name="in/a.bin")
    assert seen == {
        "size": 10_000_000, "head": "0123", "chunks": 3, "content": 10_000_000, "appended": "one two ",
        "names": made, "deleted": made,
    }  # fmt: skip
    assert zones.silver.read_bytes("runs/run/a1/out/kept") == b"0123456789" * 1_000_000


@pytest.mark.parametrize(
    ("what", "error", "message"),
    [
        ("read another's", StorageForbidden, "may not open 'in/b.bin' in 'bronze'"),
        ("write bronze", StorageForbidden, "may not put 'in/a.bin' in 'bronze'"),
        ("ask without waiting", Crashed, "without waiting for answers"),
        ("send a pipe", StorageForbidden, "Content goes through a file"),
        ("read nothing", InvalidInput, "There is no blob 'in/a.bin'"),
    ],
)
def test_broker_refuses_foreign_names_and_acts(
    zones: Zones,
    start: str,
    what: str,
    error: type[HandlerError],
    message: str,
) -> None:
    zones.bronze.write_bytes("in/b.bin", b"another's")
    with pytest.raises(error, match=message):
        run(zones, what, name="in/a.bin")


def test_line_answers_bounded_ranges_and_the_number_of_lines_is_bounded(zones: Zones, start: str) -> None:
    zones.bronze.write_bytes("in/a.bin", b"0123456789")
    seen = run(zones, "ask for everything", name="in/a.bin")
    assert seen == {
        "0,4": [BYTES, 4],
        f"8,{2**40}": [BYTES, 2],
        f"{2**63},4": [BYTES, 0],
        f"0,{2**63}": [BYTES, 10],
        "refused": ["StorageForbidden", MOST_LINES],
        "again": "0123",
    }


def test_no_line_outlives_its_try(zones: Zones, start: str) -> None:
    zones.bronze.write_bytes("in/a.bin", b"0123456789")
    run(zones, "ask for everything", name="in/a.bin")
    until(lambda: "line" not in [thread.name for thread in threading.enumerate()])
