"""Conversion in forks of the warm process, which has imported all that opens files of its own, PROJ among them."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from uuid import uuid4

import pytest

from deployments.stack.owner import tied
from domain.contracts.runs import RunFacts
from flows.storage import Zones
from flows.tries import one_try
from flows.tries.fork_client import ADDRESS
from flows.tries.one_try import Care, Try
from tests.support import vectors

FACTS = RunFacts(id="run", request_id="request", received_at=datetime(2026, 1, 1, tzinfo=UTC), attempt=1)
ZYGOTE = "from deployments.warm import zygote; zygote.PRELOADED = (); zygote.main()"


@pytest.fixture
def warm(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A zygote of the gdal pool; starting cold in spite of it fails."""
    name = f"cairn-test-{uuid4().hex}"
    environment = {ADDRESS: name, "PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(tied(sys.executable, "-c", ZYGOTE, "gdal"), env=environment)
    deadline = time.monotonic() + 60
    while not listens(name):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    monkeypatch.setenv(ADDRESS, name)
    monkeypatch.setattr("flows.tries.process_parent.Interpreter", None)
    yield
    process.kill()
    process.wait()


def listens(name: str) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex("\0" + name) == 0


@pytest.mark.usefixtures("warm")
def test_forks_read_and_reproject_as_fresh_processes_do(tmp_path: Path) -> None:
    """A fork that took its own file for PROJ's database would find no table in the one and no CRS in the other."""
    zones = Zones.local(tmp_path)
    for ending in ("gpkg", "fgb", "geojson"):
        vectors.write(tmp_path / "bronze" / "up" / f"fields.{ending}", vectors.squares(5))
        params = {"source": f"up/fields.{ending}", "target_crs": "EPSG:32633"}
        made = one_try.run_try(Try("node", "vector.convert", params, FACTS, 120), Care(zones, Event(), lambda *_: None))
        assert (made["feature_count"], made["crs"]) == (5, "EPSG:32633")
        assert made["bounds_native"][0] == pytest.approx(479_650, abs=1000)
