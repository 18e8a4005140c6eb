"""The demo: one raster from a partner's hands to a public tile, every step through the front door, and checked."""

import json
import math
import secrets
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from deployments import sample
from deployments.cli.clients import StackClients
from deployments.cli.partner import Watcher, follow, put_in_bronze, send
from flows.handlers.registry import registry
from flows.pools import POOLS

PLATFORM = "ddh"
TILE_ZOOM = 11
TIMEOUT_SECONDS = 300.0
Say = Callable[[str], None]


class DemoFailed(RuntimeError):
    """A part of the demo failed; the message names the part and the log to read."""


@dataclass(frozen=True)
class Demo:
    """One pass with one seed against a running stack."""

    stack: StackClients
    seed: int
    say: Say
    progress: Callable[[], AbstractContextManager[Watcher]]

    def run(self) -> dict[str, Any]:
        """Submit, wait, approve, read back, compare."""
        with self.stack.partner(PLATFORM) as partner, self.stack.anonymous() as public:
            with self._part("submission", "gateway"):
                accepted = self._submit(partner)
            with self._part("processing", POOLS[registry()["raster.create_cog"].pool].worker):
                with self.progress() as watcher:
                    status = follow(partner, accepted["request_id"], watcher, TIMEOUT_SECONDS)
                self._show_status(status)
            result = status["result"]
            with self._part("the gate", "serving"):
                self._expect_hidden(public, result["asset_id"])
            with self._part("approval", "domain"):
                self._approve(accepted["request_id"])
            with self._part("tiles", "serving"):
                tile_url, file = self._fetch_tile(public, result["asset_id"])
            with self._part("catalogue", "serving"):
                item_url = self._fetch_item(public, result)
            with self._part("the pixel check", "serving"):
                pixel = self._check_pixel(public, result["asset_id"])
        return {
            "request_id": accepted["request_id"],
            "tile": tile_url,
            "png": str(file),
            "item": item_url,
            "pixel": pixel,
        }

    @contextmanager
    def _part(self, name: str, service: str) -> Iterator[None]:
        try:
            yield
        except (httpx.HTTPError, AssertionError, KeyError, TypeError, ValueError, TimeoutError, SystemExit) as error:
            log = self.stack.facts["services"][service]["log"]
            raise DemoFailed(f"{name} failed: {type(error).__name__}: {error}\nIts log is {log}") from error

    def _submit(self, partner: httpx.Client) -> dict[str, Any]:
        name = f"demo-{self.seed}-{secrets.token_hex(4)}"
        with tempfile.TemporaryDirectory(prefix="cairn-demo-") as folder:
            file = Path(folder) / f"{name}.tif"
            sample.write(file, self.seed)
            size_mb = file.stat().st_size / 1e6
            source = put_in_bronze(self.stack, file, PLATFORM)
        self.say(
            f"raster of {sample.SIZE_PIXELS} × {sample.SIZE_PIXELS} pixels, {sample.CRS}, {size_mb:.1f} MB: {source}"
        )
        body = {
            "dataset_id": name,
            "resource_id": "elevation",
            "version_id": "1",
            "data_type": "raster",
            "operation": "ingest",
            "source": source,
        }
        accepted = send(partner, body)
        self.say(f"submitted as {PLATFORM}: request {accepted['request_id']}")
        return accepted

    def _show_status(self, status: dict[str, Any]) -> None:
        self.say("the partner's status answer:")
        self.say(json.dumps(status, indent=2))
        if status["status"] != "completed":
            raise ValueError(f"the request is {status['status']}: {(status['problem'] or {}).get('detail')}")

    def _expect_hidden(self, public: httpx.Client, asset_id: str) -> None:
        answer = public.get(f"/tiles/{asset_id}/info")
        if answer.status_code != httpx.codes.NOT_FOUND:
            raise ValueError(f"before any approval the public must see nothing, and got {answer.status_code}")
        self.say("before approval the public gets 404, as it must")

    def _approve(self, request_id: str) -> None:
        with self.stack.staff("reviewer") as reviewer:
            body = {"request_id": request_id, "clearance_level": "public"}
            decision = reviewer.post("/api/platform/approve", json=body).raise_for_status().json()
        self.say(f"approved by the reviewer, clearance {decision['clearance']}")

    def _fetch_tile(self, public: httpx.Client, asset_id: str) -> tuple[str, Path]:
        row, col = sample.pick_pixel(self.seed)
        x, y = tile_of(*sample.lonlat_of(row, col), TILE_ZOOM)
        path = f"/tiles/{asset_id}/WebMercatorQuad/{TILE_ZOOM}/{x}/{y}.png?colormap_name=terrain"
        answer = public.get(path).raise_for_status()
        if not answer.content.startswith(b"\x89PNG"):
            raise ValueError("the tile is not a PNG")
        file = self.stack.state.root / "demo" / f"tile-{self.seed}.png"
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(answer.content)
        url = f"{self.stack.url('gateway')}{path}"
        self.say(f"tile      {url}\n          {file} ({len(answer.content)} bytes)")
        return url, file

    def _fetch_item(self, public: httpx.Client, result: dict[str, Any]) -> str:
        outputs = result["outputs"]
        path = f"/stac/collections/{outputs['collection_id']}/items/{outputs['item_id']}"
        item = public.get(path).raise_for_status().json()
        if item["id"] != outputs["item_id"] or "data" not in item["assets"]:
            raise ValueError("the catalogue answered with another item")
        url = f"{self.stack.url('gateway')}{path}"
        self.say(f"STAC item {url}\n          bbox {[round(number, 4) for number in item['bbox']]}")
        return url

    def _check_pixel(self, public: httpx.Client, asset_id: str) -> dict[str, Any]:
        """Compare one pixel of the served data with the formula that the raster was made from."""
        row, col = sample.pick_pixel(self.seed)
        lon, lat = sample.lonlat_of(row, col)
        answer = public.get(f"/tiles/{asset_id}/point/{lon:.8f},{lat:.8f}").raise_for_status().json()
        served, expected = answer["values"][0], sample.value_at(self.seed, row, col)
        if served != expected:
            raise ValueError(f"row {row}, column {col} is served as {served}, the formula says {expected}")
        self.say(f"pixel     row {row}, column {col} at {lon:.5f}, {lat:.5f}: served {served:.0f} = formula {expected}")
        return {"row": row, "col": col, "served": served, "expected": expected}


def tile_of(lon: float, lat: float, zoom: int) -> tuple[int, int]:
    """The WebMercatorQuad tile that holds the place."""
    scale = 2**zoom
    x = int((lon + 180) / 360 * scale)
    y = int((1 - math.asinh(math.tan(math.radians(lat))) / math.pi) / 2 * scale)
    return x, y
