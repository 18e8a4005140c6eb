"""Every shipped workflow and plan that takes submissions, on both of its routes, as a partner submits it.

All are sent at once, so that the stack works on them together.
"""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import rasterio

from deployments import sample
from deployments.stack.state import REPOSITORY
from flows.compiler import compile_files
from flows.handlers.registry import registry
from flows.storage import Zones
from tests.support import vectors
from tests.support.clock import until
from tests.support.stack import RunningStack

pytestmark = pytest.mark.stack
RASTER, VECTOR = "uploads/ddh/submitted.tif", "uploads/ddh/submitted.gpkg"
SIZE_PIXELS = 2300  # a tile is at least 2,048 pixels wide
WAIT_SECONDS = 300.0
TILED = {"tile_pixels": 512}
# By a name of ours: kind of data, operation, parameters.
SENT: Mapping[str, tuple[str, str, Mapping[str, Any]]] = {
    "direct": ("raster", "ingest", {}),
    "by its size in tiles": ("raster", "ingest", {**TILED, "memory_limit_mb": 1}),
    "in tiles": ("raster", "ingest_tiled", TILED),
    "staged": ("raster", "ingest_staged", {}),
    "vector": ("vector", "ingest", {}),
}


@pytest.fixture(scope="module")
def results(stack: RunningStack, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, dict[str, Any]]:
    """What the partner is told of each once it has ended."""
    folder, bronze = tmp_path_factory.mktemp("submitted"), Zones.local(stack.folder / "storage").bronze
    sample.write(folder / "submitted.tif", 9, size=SIZE_PIXELS)
    bronze.put_file(RASTER, folder / "submitted.tif")
    bronze.put_file(VECTOR, vectors.write(folder / "submitted.gpkg", vectors.squares(40, side=0.001)))
    with ThreadPoolExecutor(len(SENT)) as at_once:
        told = at_once.map(lambda name: ended(stack, name), SENT)
        return dict(zip(SENT, told, strict=True))


def ended(stack: RunningStack, name: str) -> dict[str, Any]:
    kind, operation, parameters = SENT[name]
    body: dict[str, Any] = {"dataset_id": "submitted", "resource_id": name, "version_id": "1", "data_type": kind}
    body |= {"operation": operation, "source": VECTOR if kind == "vector" else RASTER, "parameters": dict(parameters)}
    with stack.partner() as gateway:
        request_id = gateway.post("/api/platform/submit", json=body).raise_for_status().json()["request_id"]

        def status() -> dict[str, Any]:
            found: dict[str, Any] = gateway.get(f"/api/platform/status/{request_id}").raise_for_status().json()
            return found

        until(lambda: status()["status"] not in {"pending", "processing"}, WAIT_SECONDS)
        return status()


def test_everything_that_accepts_submissions_is_submitted_here() -> None:
    files = [*(REPOSITORY / "workflows").glob("*.yaml"), *(REPOSITORY / "workflows" / "plans").glob("*.yaml")]
    compiled = compile_files(sorted(files), registry())
    accepted = {pair for one in compiled for pair in ((one.plan or one.request_plan).accepted_pairs())}  # type: ignore[union-attr]
    assert {(kind, operation) for kind, operation, _ in SENT.values()} == accepted


@pytest.mark.parametrize("name", SENT)
def test_submission_completes(results: Mapping[str, dict[str, Any]], name: str) -> None:
    assert results[name]["status"] == "completed", results[name]


def test_routes_of_a_raster_are_those_that_were_asked_for(results: Mapping[str, dict[str, Any]]) -> None:
    outputs = {name: results[name]["result"]["outputs"] for name in SENT}
    assert outputs["direct"]["route"] == "direct"
    assert outputs["by its size in tiles"]["route"] == "tiled"
    assert outputs["in tiles"]["tile_count"] == len(outputs["in tiles"]["item_ids"]) > 1
    assert outputs["staged"]["cog"] != outputs["direct"]["cog"]
    assert outputs["vector"]["feature_count"] == 40


def test_all_routes_make_the_same_pixels_and_leave_no_parts(
    stack: RunningStack, results: Mapping[str, dict[str, Any]]
) -> None:
    silver = stack.folder / "storage" / "silver"
    made = {}
    for name in ("direct", "by its size in tiles", "staged"):
        with rasterio.open(silver / results[name]["result"]["outputs"]["cog"]) as raster:
            made[name] = raster.read()
    assert made["direct"].any()
    assert np.array_equal(made["direct"], made["by its size in tiles"])
    assert np.array_equal(made["direct"], made["staged"])
    asset = results["by its size in tiles"]["result"]["asset_id"]
    assert len(list((silver / "assets" / asset).rglob("*.tif"))) == 1
