"""An independent client, OWSLib, finds and executes processes over real sockets."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from owslib.ogcapi.processes import Processes

from tests.support import ogc_shapes
from tests.support.cluster import TestDatabase
from tests.support.doors import Door, running_door

INPUTS = {"dataset_id": "elevation", "resource_id": "dem", "version_id": "1", "source": "uploads/dem.tif"}


@pytest.fixture
async def door(database: TestDatabase, tmp_path: Path) -> AsyncIterator[Door]:
    async with running_door(database, tmp_path) as running:
        yield running


async def test_owslib_executes_a_process_and_follows_its_job(door: Door) -> None:
    found = await asyncio.to_thread(whole_visit, door.url)
    assert {"raster_ingest", "vector_ingest"} <= {one["id"] for one in found["processes"]}
    assert set(INPUTS) <= set(found["process"]["inputs"])
    for name, shape in {
        "landing": ogc_shapes.LANDING,
        "conformance": ogc_shapes.CONFORMANCE,
        "process": ogc_shapes.PROCESS,
        "job": ogc_shapes.STATUS,
        "jobs": ogc_shapes.JOBS,
        "dismissed": ogc_shapes.STATUS,
    }.items():
        assert ogc_shapes.faults(found[name], shape) == [], name
    assert found["location"] == f"{door.url}/ogc/jobs/{found['job']['jobID']}"
    assert (found["job"]["status"], found["dismissed"]["status"]) == ("accepted", "dismissed")
    assert "/ogc/processes/{process_id}/execution" in found["api"]["paths"]
    assert "raster_ingest" in str(door.rows("select submitted ->> 'data_type' || '_' || operation from app.requests"))


def whole_visit(url: str) -> dict[str, Any]:
    """What a user of OWSLib does, in its order. It has no words of its own for jobs, so links are followed."""
    client = Processes(f"{url}/ogc", headers={"X-API-Key": "secret-ddh-dev"})
    seen: dict[str, Any] = {"landing": client.response, "conformance": client.conformance(), "api": client.api()}
    seen["processes"] = client.processes()
    seen["process"] = client.process("raster_ingest")
    seen["started"] = client.execute("raster_ingest", INPUTS, async_=True)
    seen["location"] = client.response_headers["location"]
    path = f"jobs/{seen['location'].rpartition('/')[2]}"
    seen["job"] = client._request(path=path)
    seen["jobs"] = client._request(path="jobs")
    seen["dismissed"] = client._request(method="DELETE", path=path)
    return seen
