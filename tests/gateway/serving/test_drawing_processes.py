"""Heavy pictures are drawn in a process of their own: the same pictures, and everybody else is served meanwhile."""

import asyncio
import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from hypothesis import given
from hypothesis import strategies as st

from gateway.forwarding.reading_headers import READER, USUAL_PIXELS
from gateway.serving import picture_limits
from gateway.serving.drawing_orders import Order
from gateway.serving.drawing_processes import DrawingProcess, HeavyPictures
from gateway.serving.picture_limits import Size, is_heavy
from tests.gateway.serving.test_bands import Make, made, path_of, tile_of
from tests.gateway.serving.test_tiles import OWNER, STRANGER, TILE_PATH
from tests.support.clock import eventually, until

__all__ = ["made"]
pytestmark = [
    pytest.mark.filterwarnings("ignore:The dataset has no Overviews"),
    pytest.mark.filterwarnings("ignore:'max_size' will be ignored"),
]
HEAVY = "/tiles/open/preview/2048x2048"
MEGABYTE = 1024**2
NICE_FIELD = 16  # of what follows a process's name in /proc/PID/stat


def process_of(app: FastAPI) -> DrawingProcess:
    """The one that there is."""
    pictures_apart: HeavyPictures = app.state.heavy
    [process] = pictures_apart._all
    return process


@contextmanager
def stopped(process: DrawingProcess) -> Iterator[None]:
    """It does nothing and is not gone."""
    os.kill(process.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process.process.pid, signal.SIGCONT)


def told(pid: int, file: str) -> str:
    return Path(f"/proc/{pid}/{file}").read_text()


def niceness(pid: int) -> int:
    return int(told(pid, "stat").rpartition(")")[2].split()[NICE_FIELD])


@given(st.integers(1, 256), st.integers(1, 2048), st.integers(1, 2048))
def test_picture_larger_than_a_usual_preview_is_heavy(count: int, height: int, width: int) -> None:
    """The usual preview in colours is the largest of the former."""
    size = Size(height, width)
    assert is_heavy(count, size) == (count * height * width > 4 * USUAL_PIXELS)
    assert not is_heavy(3, Size(min(height, 512), min(width, 512)))


@pytest.mark.parametrize(
    ("path", "name", "dtype"),
    [
        ("preview/2048x2048.png", "1", "uint16"),
        ("preview/1200x1100.png", "8", "float32"),
        ("preview/2048x2048.png?rescale=0,3000&colormap_name=viridis", "2-alpha", "uint16"),
        ("preview/600x600.npy", "13", "int16"),
        ("preview?max_size=2000&width=2000&height=1900", "3", "uint8"),
        ("tile.tif?tilesize=1400", "4-nir", "uint16"),
        ("tile?tilesize=2000&buffer=2", "2-alpha", "int16"),
        ("statistics?width=1024&height=1024", "5", "int16"),
    ],
)
async def test_heavy_picture_equals_the_one_drawn_in_process(
    path: str,
    name: str,
    dtype: str,
    made: Make,
    app: FastAPI,
    client: httpx.AsyncClient,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    product, asset = made(name, dtype)
    url = f"/tiles/{asset}/" + path.replace("tile", path_of(tile_of(product)), 1 if path.startswith("tile") else 0)
    asked, draw = list[Order](), app.state.heavy.draw

    async def noting(order: Order) -> object:
        asked.append(order)
        return await draw(order)

    monkeypatch.setattr(app.state.heavy, "draw", noting)
    apart = await client.get(url)
    assert apart.status_code == 200, apart.text[:300]
    assert len(asked) == 1
    monkeypatch.setattr(picture_limits, "HEAVY_COST", float("inf"))
    here = await client.get(url)
    assert len(asked) == 1
    assert apart.content == here.content
    assert dict(apart.headers) == dict(here.headers)


async def test_tiles_are_answered_while_a_heavy_picture_is_drawn(app: FastAPI, client: httpx.AsyncClient) -> None:
    """Also for whoever asked for the heavy one: it takes none of the four readings that they have at a time."""
    assert (await client.get(f"{HEAVY}.npy")).status_code == 200
    with stopped(process_of(app)):
        asked = asyncio.create_task(client.get(f"{HEAVY}.npy", headers={READER: "a"}))
        await eventually(lambda: not app.state.heavy.turns.free)
        for reader in ("a", "b"):
            tile = await client.get(f"/tiles/open/{TILE_PATH}.png", headers={READER: reader})
            assert tile.status_code == 200
        assert not asked.done()
    assert (await asked).status_code == 200


async def test_refused_heavy_picture_is_answered_like_a_usual_one(app: FastAPI, client: httpx.AsyncClient) -> None:
    inner = "/tiles/inner/preview/2048x2048"
    assert [(await client.get(f"{inner}.npy", headers=who)).status_code for who in (OWNER, STRANGER)] == [200, 404]
    with stopped(process_of(app)):  # whoever may not read it is told so without its help
        assert (await client.get(f"{inner}.npy", headers=STRANGER)).json()["code"] == "not-found"
    for query, code in (("rescale=high", 422), ("nodata=none-of-these", 422), ("colormap_name=loud", 422)):
        assert (await client.get(f"{HEAVY}.png?{query}")).status_code == code, query
    outside = await client.get("/tiles/open/WebMercatorQuad/12/1/1.tif?tilesize=2048")
    assert (outside.status_code, outside.json()["code"]) == (404, "outside-bounds")


@pytest.mark.parametrize(("seconds", "ended", "status"), [(0.2, "stopped", 503), (60.0, "killed", 500)])
async def test_drawing_process_without_an_answer_is_replaced(
    seconds: float, ended: str, status: int, app: FastAPI, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await client.get(f"{HEAVY}.npy")).status_code == 200
    before, free = process_of(app), app.state.budget.free_bytes
    with monkeypatch.context() as patched:
        patched.setattr(app.state.heavy, "_draw_seconds", seconds)
        os.kill(before.process.pid, signal.SIGSTOP)
        asked = asyncio.create_task(client.get(f"{HEAVY}.npy"))
        await eventually(lambda: not app.state.heavy._idle)
        if ended == "killed":
            before.process.kill()
        answer = await asked
    assert answer.status_code == status, answer.text
    assert before.process.returncode == -signal.SIGKILL
    assert (await client.get(f"{HEAVY}.npy")).status_code == 200
    assert process_of(app) is not before
    assert (app.state.heavy.turns.free, app.state.budget.free_bytes) == (1, free)


async def test_drawing_process_that_ended_at_rest_is_replaced(app: FastAPI, client: httpx.AsyncClient) -> None:
    """It ends by itself where whoever started it is gone."""
    assert (await client.get(f"{HEAVY}.npy")).status_code == 200
    drawing = process_of(app)
    assert told(drawing.process.pid, "oom_score_adj").strip() == "1000"
    most = re.search(r"Max data size +(\d+)", told(drawing.process.pid, "limits"))
    assert most
    assert int(most[1]) < 2048 * MEGABYTE
    assert drawing.process.stdin
    drawing.process.stdin.close()
    assert drawing.process.wait(60) == 0
    assert (await client.get(f"{HEAVY}.npy")).status_code == 200


def test_drawing_process_has_low_priority_and_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CAIRN_DATABASE_SERVING_URL", "CAIRN_STORAGE_ACCOUNT_KEY", "PGPASSWORD"):
        monkeypatch.setenv(name, "a-secret")
    mine, drawing = niceness(os.getpid()), DrawingProcess(64 * MEGABYTE, 7)
    try:
        until(lambda: niceness(drawing.process.pid) == min(19, mine + 7))
        assert "a-secret" not in told(drawing.process.pid, "environ")
    finally:
        drawing.end()


async def test_drawing_process_that_cannot_start_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/bin/false")
    apart = HeavyPictures(1, 64 * MEGABYTE, 0, 60.0, 60.0)
    order = Order(path="/", query="", name="", driver="VRT", environment={}, indexes=[], stretch=None)
    with pytest.raises(Exception, match="Ask again"):
        await apart.draw(order)
    assert not apart._all
    apart.close()
