"""The shipped raster workflows, decided by the scheduler and done by the real handlers on real files."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from rio_cogeo.cogeo import cog_validate

from deployments import sample
from flows.compiler import compile_files
from flows.compiler.simulate import Simulation, World, simulate
from flows.handlers.registry import registry
from flows.storage import Zones
from flows.tries import call, check_params
from tests.support.rasters import bronze, context_in

REPOSITORY = Path(__file__).resolve().parents[4]
NAME = "up/dem.tif"
FACTS: dict[str, object] = {
    "asset_id": "alps",
    "version_ordinal": 0,
    "revision": 1,
    "version_label": "v1",
    "request_id": "request-1",
    "refs": {"dataset_id": "dem"},
}


@pytest.fixture(autouse=True)
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flows.handlers.raster.choices.LARGEST_CELL", 512)
    sample.write(bronze(tmp_path, NAME), seed=5, size=1600)


def done(workflow: str, root: Path, monkeypatch: pytest.MonkeyPatch, prefix: str, **inputs: Any) -> Simulation:
    """Run the workflow with every handler that is written; what is only planned answers its example."""

    def worked(work: Any, world: World) -> Any:
        handler = world.handlers[work.node.handler]
        if handler.planned:
            return handler.example.model_dump(mode="json")
        own = context_in(root / work.name, output_prefix=prefix, facts=FACTS)
        return call(handler, check_params(handler, work.params), replace(own, storage=Zones.local(root)))

    monkeypatch.setattr("flows.compiler.simulate._work_output", worked)
    path = REPOSITORY / "workflows" / f"{workflow}.yaml"
    (compiled,) = compile_files([path], registry())
    assert compiled.plan, compiled.faults
    ended = simulate(compiled.plan, {"source": NAME, **inputs}, World(registry()))
    assert ended.succeeded, ended.error
    return ended


def test_both_routes_of_the_ingest_end_in_the_same_product(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    direct = done("raster_ingest", tmp_path, monkeypatch, "direct")
    tiled = done("raster_ingest", tmp_path, monkeypatch, "tiled", memory_limit_mb=1, tile_pixels=512)
    assert direct.outputs
    assert tiled.outputs
    assert (direct.outputs["route"], tiled.outputs["route"]) == ("direct", "tiled")
    assert direct.outputs["bounds"] == tiled.outputs["bounds"]
    paths = [tmp_path / "silver" / str(ended.outputs["cog"]) for ended in (direct, tiled) if ended.outputs]
    for path in paths:
        assert cog_validate(path, strict=True, quiet=True) == (True, [], [])
    with rasterio.open(paths[0]) as one, rasterio.open(paths[1]) as other:
        assert one.profile == other.profile
        np.testing.assert_array_equal(one.read(), other.read())
    assert not list((tmp_path / "runs").rglob("*.tif"))


def test_the_tiled_ingest_leaves_one_product_for_each_tile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = done("raster_tiled", tmp_path, monkeypatch, "tiles", tile_pixels=512)
    assert ended.outputs
    products = list((tmp_path / "silver" / "tiles" / "tiles").glob("*.tif"))
    assert len(products) == ended.outputs["tile_count"] > 4


@pytest.mark.parametrize(
    "inputs",
    [
        {"resampling": "cubic", "overview_resampling": "average", "compression": "zstd", "block_size": 256},
        {"target_crs": "EPSG:3857", "web_optimised": True},
    ],
    ids=str,
)
def test_options_reach_the_product(inputs: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = done("raster_ingest", tmp_path, monkeypatch, "chosen", **inputs)
    assert ended.outputs
    with rasterio.open(tmp_path / "silver" / str(ended.outputs["cog"])) as raster:
        assert raster.profile["compress"] == inputs.get("compression", "deflate")
        assert raster.block_shapes[0][0] == inputs.get("block_size", 512)
        assert raster.crs == inputs.get("target_crs", "EPSG:4326")
