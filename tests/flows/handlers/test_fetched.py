"""Sources from addresses, through every workflow that takes one: each ends well, and no secret is written down."""

import asyncio
import json
import ssl
from collections.abc import Callable
from ipaddress import IPv4Network, ip_address
from pathlib import Path
from typing import Any

import pytest

from domain.rules.addresses import AddressPolicy
from domain.rules.sources import SourcePolicy
from flows.handlers import origins, quarantine
from flows.handlers.quarantine import FetchLimits
from tests.support import hostile, worked
from tests.support.receiver import Received, Reply, running_receiver

HOST = "data.example.org"
CANARY = "cAnArY0123456789"
RASTER = next(hostile.honest()).content
TABLE = b"Name,lon,lat\nx,14.7,47.5\ny,14.8,47.6\n"
Run = Callable[[Path, pytest.MonkeyPatch, str], Any]


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Production's guard, but for plain http on loopback."""
    addresses = AddressPolicy(https_only=False, ports=None, networks=(IPv4Network("127.0.0.1/32"),))
    policy = SourcePolicy(frozenset({HOST}), addresses)
    guard = FetchLimits(policy, 10_000_000, 20.0, ssl.create_default_context(), lambda *_: [ip_address("127.0.0.1")])
    monkeypatch.setattr(quarantine, "_guard_of_settings", lambda: guard)


def one(workflow: str) -> Run:
    return lambda root, monkeypatch, url: worked.done(workflow, root, monkeypatch, "runs/one", source=url).outputs


WAYS: dict[str, tuple[Run, bytes, str]] = {
    "raster": (one("raster_ingest"), RASTER, "/a/dem.tif"),
    "tiles": (one("raster_tiled"), RASTER, "/a/dem.tif"),
    "staged": (
        lambda root, monkeypatch, url: worked.staged("raster_ingest_staged", root, monkeypatch, source=url),
        RASTER,
        "/a/dem.tif",
    ),
    "vector": (one("vector_ingest"), TABLE, "/a/fields.csv"),
}


@pytest.mark.parametrize("way", WAYS)
async def test_source_at_an_address_is_ingested_without_recording_its_secret(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, content, path = WAYS[way]
    asked: list[str] = []

    def reply(request: Received) -> Reply:
        asked.append(request.path)
        return Reply(200, {}, content)

    async with running_receiver() as server:
        server.reply = reply
        url = server.url.replace("127.0.0.1", HOST).replace("/hook", f"{path}?sig={CANARY}&x={CANARY}")
        outputs = await asyncio.to_thread(run, tmp_path, monkeypatch, url)
    assert asked == [f"{path}?sig={CANARY}&x={CANARY}"]
    assert CANARY not in json.dumps(outputs, default=str)
    kept = [file for zone in ("bronze", "silver", "runs") for file in (tmp_path / zone).rglob("*") if file.is_file()]
    assert [file for file in kept if CANARY.encode() in file.read_bytes() or CANARY in str(file)] == []
    items = [file for file in kept if file.name in {"item.json", "items.ndjson"}]
    assert [f"{HOST}:" in file.read_text() and path in file.read_text() for file in items] == [True]


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("uploads/dem.tif", "uploads/dem.tif"),
        ("https://data.example.org/a/dem.tif", "https://data.example.org/a/dem.tif"),
        ("https://data.example.org:8443/a.tif?sig=secret#secret", "https://data.example.org:8443/a.tif"),
        ("https://user:secret@data.example.org/a.tif", "https://data.example.org/a.tif"),
        ("https://secret@[::1]/a.tif?secret", "https://[::1]/a.tif"),
        ("https://us@er:secret@data.example.org/a.tif", "https://data.example.org/a.tif"),
        ("https://[secret/a.tif", "an address"),
        ("mailto:secret@example.org", "an address"),
    ],
)
def test_address_is_shown_without_its_secrets(source: str, told: str) -> None:
    assert origins.shown(source) == told
