"""What one request reads: as much as it was asked for and there is memory for, and never all of many bands."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import rasterio
from fastapi import FastAPI
from rasterio.transform import from_bounds

from gateway.forwarding.reading_headers import COST
from gateway.serving.memory_budget import MemoryBudget
from tests.gateway.serving.conftest import Served
from tests.gateway.serving.test_bands import Make, made, path_of, publish, tile_of
from tests.gateway.serving.test_tiles import decoded

__all__ = ["made"]
# The files that are written here are no products: those have overviews.
pytestmark = pytest.mark.filterwarnings("ignore:The dataset has no Overviews")
WIDE = "WebMercatorQuad/9/277/179"  # over the file of many bands
MEGABYTE = 1024**2


@pytest.fixture(scope="module")
def many(served: Served) -> Iterator[str]:
    """256 bands of 2048 x 2048 fractions, 8.6 GB of pixels, hardly any of them stored."""
    path = served.root / "silver" / "many.tif"
    profile: dict[str, Any] = {"count": 256, "width": 2048, "height": 2048, "dtype": "float64"}
    place = {"crs": "EPSG:4326", "transform": from_bounds(14, 47, 15, 48, 2048, 2048)}
    layout = {"tiled": True, "blockxsize": 64, "blockysize": 64, "interleave": "pixel", "sparse_ok": True}
    with rasterio.open(path, "w", driver="GTiff", compress="deflate", **profile, **place, **layout):
        pass
    publish(served, "bands-many", "many.tif", None)
    yield "bands-many"
    path.unlink()


def peak_bytes(app: FastAPI) -> int:
    """The most memory that this process, and the one that draws for it, had since they were last asked to forget."""
    return sum(_told(folder, "VmHWM") for folder in _processes(app))


def _processes(app: FastAPI) -> list[Path]:
    drawing = [str(each.process.pid) for each in app.state.heavy._all]
    assert len(drawing) == 1
    return [Path("/proc", name) for name in ("self", *drawing)]


def _told(process: Path, name: str) -> int:
    found = re.search(rf"{name}:\s+(\d+) kB", (process / "status").read_text())
    assert found
    return int(found[1]) * 1024


def forget_peak(app: FastAPI) -> int:
    for process in _processes(app):
        (process / "clear_refs").write_text("5")
    return sum(_told(process, "VmRSS") for process in _processes(app))


@pytest.mark.parametrize("path", [f"{WIDE}.png?tilesize=2048", "preview.png?max_size=2048", "preview/2048x2048.png"])
async def test_default_picture_of_many_bands_takes_memory_of_its_own_bands(
    path: str, many: str, app: FastAPI, client: httpx.AsyncClient
) -> None:
    assert (await client.get("/tiles/open/preview/2048x2048.npy")).status_code == 200  # so there is what draws them
    before = forget_peak(app)
    answer = await client.get(f"/tiles/{many}/{path}")
    assert answer.status_code == 200, answer.text
    assert peak_bytes(app) - before < 384 * MEGABYTE  # what a request may have; all bands are 8,600


@pytest.mark.parametrize(
    ("path", "sides", "remedies"),
    [
        (f"{WIDE}.tif?tilesize=256", "256 x 256", "at most 8 of them with bidx"),
        (f"{WIDE}.npy?tilesize=1024", "1,024 x 1,024", "at most 8 of them with bidx"),
        ("preview.tif", "1,024 x 1,024", "at most 240 x 240 pixels"),
        ("statistics", "1,024 x 1,024", "at most 8 of them with bidx"),
        ("preview/2048x2048.tif", "2,048 x 2,048", "at most 3 of them with bidx"),
    ],
)
async def test_request_for_too_much_is_told_what_would_be_allowed(
    path: str, sides: str, remedies: str, many: str, client: httpx.AsyncClient
) -> None:
    answer = await client.get(f"/tiles/{many}/{path}")
    told = answer.json()
    assert (answer.status_code, told["code"]) == (422, "too-large"), told
    assert f"256 bands of {sides} pixels (float64)" in told["detail"]
    assert "one request may take 384 MB" in told["detail"]
    assert remedies in told["detail"]


async def test_request_within_the_advised_limits_is_answered(many: str, client: httpx.AsyncClient) -> None:
    for path in ("preview/2048x2048.tif?bidx=256&bidx=2&bidx=1", "preview.tif?max_size=200", "statistics?bidx=256"):
        answer = await client.get(f"/tiles/{many}/{path}")
        assert answer.status_code == 200, answer.text
    assert len((await client.get(f"/tiles/{many}/point/14.5,47.5")).json()["values"]) == 256


async def test_picture_of_a_long_strip_is_bounded_on_both_sides(served: Served, client: httpx.AsyncClient) -> None:
    strip: dict[str, Any] = {"count": 1, "width": 4, "height": 60_000, "dtype": "uint8", "crs": "EPSG:4326"}
    place = from_bounds(14, 47, 14.001, 48, 4, 60_000)
    with rasterio.open(
        served.root / "silver/strip.tif", "w", driver="GTiff", transform=place, sparse_ok=True, tiled=True,
        blockxsize=128, blockysize=128, compress="deflate", **strip
    ):  # fmt: skip
        pass
    publish(served, "bands-strip", "strip.tif", None)
    for query, code in (("width=2048", "too-large"), ("width=20&dst_crs=EPSG:3857", "invalid-parameters")):
        answer = await client.get(f"/tiles/bands-strip/preview.png?{query}")
        assert (answer.status_code, answer.json()["code"]) == (422, code)
    assert (await client.get("/tiles/bands-strip/preview.png?height=64")).status_code == 200


async def test_memory_of_concurrent_pictures_is_bounded(many: str, app: FastAPI, client: httpx.AsyncClient) -> None:
    """The others hold all memory there is: nothing is read, and the reader is told to ask again."""
    budget = app.state.budget
    app.state.budget = MemoryBudget(1024 * MEGABYTE, 384 * MEGABYTE, 0)
    try:
        async with app.state.budget.share(1020 * MEGABYTE):
            answer = await client.get(f"/tiles/{many}/preview.png")
        assert (answer.status_code, answer.json()["code"]) == (503, "busy")
        assert answer.headers["retry-after"] == "5"
        assert (await client.get(f"/tiles/{many}/preview.png")).status_code == 200
        assert app.state.budget.free_bytes == 1024 * MEGABYTE
    finally:
        app.state.budget = budget


# --- what the reader says ---


@pytest.mark.parametrize(
    ("query", "code", "said"),
    [
        ("bidx=1&bidx=2", "cannot-render", "bidx names 2"),
        ("bidx=1&bidx=2&bidx=3&bidx=4", "cannot-render", "bidx names 4"),
        ("bidx=5", "invalid-parameters", "bidx names band 5; this raster has 4 bands, numbered from 1."),
        ("bidx=0", "invalid-parameters", "bidx names band 0"),
        ("colormap_name=viridis", "cannot-render", "Name one with bidx."),
    ],
)
async def test_undrawable_picture_is_refused_with_the_reason(
    query: str, code: str, said: str, made: Make, client: httpx.AsyncClient
) -> None:
    product, asset = made("4-nir", "uint16")
    for path in (f"{path_of(tile_of(product))}.png", "preview.png"):
        answer = await client.get(f"/tiles/{asset}/{path}?{query}")
        assert (answer.status_code, answer.json()["code"]) == (422, code), answer.text
        assert said in answer.json()["detail"]


async def test_readers_rendering_wins_over_the_default(made: Make, client: httpx.AsyncClient, served: Served) -> None:
    product, asset = made("4-nir", "uint16")
    with rasterio.open(served.root / "silver" / product.cog) as raster:
        values = raster.read().astype("float64")
        valid = raster.dataset_mask() > 0
    asked = "preview.png?bidx=4&bidx=2&bidx=1&rescale=0,3000&rescale=0,6000&rescale=0,9000"
    image = decoded((await client.get(f"/tiles/{asset}/{asked}")).content)
    for channel, number, high in zip(image, (4, 2, 1), (3000, 6000, 9000), strict=False):
        wanted = np.clip(values[number - 1] / high, 0, 1) * 255
        assert np.abs(channel - wanted)[valid].max() <= 1
    painted = decoded((await client.get(f"/tiles/{asset}/preview.png?bidx=4&colormap_name=viridis")).content)
    assert len(painted) == 4
    raw = decoded((await client.get(f"/tiles/{asset}/preview.tif?bidx=4&bidx=1")).content)
    assert (raw[0][valid] == values[3][valid]).all()
    assert (raw[1][valid] == values[0][valid]).all()


@pytest.mark.parametrize("forgotten", ["percentiles", "everything"])
@pytest.mark.parametrize("case", [("8", "float32"), ("5", "int16"), ("2-alpha", "uint16")])
async def test_product_of_an_earlier_release_is_drawn(
    case: tuple[str, str], forgotten: str, made: Make, client: httpx.AsyncClient, served: Served
) -> None:
    """Of older ones no percentiles are known; of those of other workflows perhaps nothing."""
    product, asset = made(*case)
    now = decoded((await client.get(f"/tiles/{asset}/preview.png")).content).astype(int)
    older = [band.model_dump(exclude={"percentile_2", "percentile_98"}) for band in product.bands]
    publish(served, f"{asset}-older", product.cog, older if forgotten == "percentiles" else None)
    then = decoded((await client.get(f"/tiles/{asset}-older/preview.png")).content).astype(int)
    assert then.shape == now.shape
    assert (then[-1] == now[-1]).all()
    opaque = now[-1] > 0
    assert np.abs(then - now)[:-1][:, opaque].mean() < 12
    assert np.ptp(then[:-1][:, opaque]) > 200


@pytest.mark.parametrize(
    ("path", "cost"),
    [
        (f"{WIDE}.png", 1.0),
        (f"{WIDE}.png?tilesize=2048", 2048**2 / (3 * 512**2)),
        ("preview/2048x2048.tif?bidx=1&bidx=2&bidx=3", 16.0),
        ("point/14.5,47.5", 1.0),
    ],
)
async def test_answer_states_its_cost(path: str, cost: float, many: str, client: httpx.AsyncClient) -> None:
    """In tiles of the usual size and colours: its reader may read so much less often."""
    answer = await client.get(f"/tiles/{many}/{path}")
    assert answer.status_code == 200, answer.text
    assert float(answer.headers[COST]) == pytest.approx(cost, abs=0.01)
