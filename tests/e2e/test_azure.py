"""The whole raster workflow with its zones in a storage account (Azurite), and no signature anywhere afterwards."""

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote
from uuid import uuid4

import httpx
import psycopg
import pytest
import rasterio
import redis

from deployments import sample
from deployments.stack.postgres import find_cluster
from deployments.stack.state import StackState
from flows.storage import ZONES, Zones
from tests.support.azurite import Azurite
from tests.support.cluster import open_folder
from tests.support.stack import RunningStack

pytestmark = pytest.mark.stack
PREFIX = "e2e-"
REFS = ("--ref", "dataset_id=bad", "--ref", "resource_id=b", "--ref", "version_id=1")
CANARY = "cAnArY0123456789%2BcAnArY0123456789%2FcAnArY%3D"


@pytest.fixture(scope="module")
def zones(azurite: Azurite) -> Zones:
    return azurite.zones(PREFIX)


@pytest.fixture(scope="module")
def remote(azurite: Azurite, zones: Zones) -> Iterator[RunningStack]:
    """A stack that keeps nothing of its zones on this machine."""
    with open_folder("remote") as folder, RunningStack(folder, azurite.settings(PREFIX)).up() as running:
        yield running


@pytest.fixture(scope="module")
def outcome(remote: RunningStack, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One raster all the way to its reader, and one that GDAL chokes on half way."""
    made: dict[str, Any] = remote.json("demo", "--seed", "21")
    damaged = tmp_path_factory.mktemp("damaged") / "damaged.tif"
    sample.write(damaged, seed=3, size=1024)
    with rasterio.open(damaged) as raster:
        start = int(raster.get_tag_item("BLOCK_OFFSET_2_2", "TIFF", bidx=1))
    content = bytearray(damaged.read_bytes())
    content[start : start + 40] = bytes(40)
    damaged.write_bytes(content)
    refused = remote.cairn("submit", str(damaged), *REFS)
    assert refused.returncode == 1, refused.stdout + refused.stderr
    assert "cannot be unpacked" in refused.stdout + refused.stderr
    return made


def test_a_raster_goes_all_the_way_through_a_storage_account(
    remote: RunningStack, outcome: dict[str, Any], zones: Zones
) -> None:
    row, col = sample.pick_pixel(21)
    assert outcome["pixel"]["served"] == sample.value_at(21, row, col)
    assert not any((remote.folder / "storage" / zone).exists() for zone in ZONES)
    [(name, size)] = remote.rows("select name, size_bytes from app.artifacts where role = 'cog' and zone = 'silver'")
    assert zones.silver.size_bytes(name) == size
    item = httpx.get(outcome["item"]).json()
    url = item["assets"]["data"]["href"]
    whole, part = httpx.get(url), httpx.get(url, headers={"Range": "bytes=100-199"})
    assert (whole.status_code, len(whole.content)) == (200, size)
    assert (part.status_code, part.content) == (206, whole.content[100:200])
    assert whole.content == zones.silver.read_bytes(name)


def test_no_signature_is_in_any_log_database_or_blob(
    remote: RunningStack, outcome: dict[str, Any], azurite: Azurite
) -> None:
    assert outcome
    used = signatures(azurite)
    assert used, "nothing was read by a signed URL: serving reads products so"
    assert places_with(used, remote, azurite) == []


def test_search_for_signatures_finds_a_planted_one(remote: RunningStack, azurite: Azurite, zones: Zones) -> None:
    with planted(remote, zones):
        found = places_with([CANARY], remote, azurite)
    for place in ("logs/planted.log", "database cairn", "database prefect", "redis", "blob runs/planted/x"):
        assert any(name.endswith(place) for name in found), (place, found)


def signatures(azurite: Azurite) -> list[str]:
    """Every signature that the account was shown: it logs what it is asked."""
    asked = azurite.log.read_text(errors="replace")
    return sorted(set(re.findall(rf"/{PREFIX}\w+/\S*[?&]sig=([^&\s\"]+)", asked)))


def places_with(secrets: list[str], stack: RunningStack, azurite: Azurite) -> list[str]:
    """Where any of these is written, as it travels in a URL or as it is."""
    wanted = re.compile(
        b"|".join(re.escape(form.encode()) for one in secrets for form in {one, unquote(one), quote(unquote(one))})
    )
    found = [str(path) for path in files(stack.folder) if wanted.search(content_of(path))]
    found += [f"database {name}" for name in ("cairn", "prefect") if wanted.search(dump(stack, name))]
    if any(wanted.search(content) for content in redis_contents(stack)):
        found.append("redis")
    service = azurite.account.client
    for zone in ZONES:
        container = service.get_container_client(f"{PREFIX}{zone}")
        names = list(container.list_blob_names())
        found += [f"blob {zone}/{name}" for name in names if wanted.search(container.download_blob(name).readall())]
    return found


def content_of(path: Path) -> bytes:
    """Nothing of what is gone since it was listed: the database drops caches of its own while we look."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def files(folder: Path) -> list[Path]:
    """Everything the stack wrote on this machine: logs, Prefect's home, the database's own files and its log."""
    return [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]


def dump(stack: RunningStack, database: str) -> bytes:
    url = stack.url("postgres").rpartition("/")[0] + f"/{database}"
    program = find_cluster(StackState(stack.folder)).binaries / "pg_dump"
    return subprocess.run([str(program), "--inserts", url], capture_output=True, check=True).stdout


def redis_client(stack: RunningStack) -> "redis.Redis":
    password = StackState(stack.folder).secrets["redis"]
    return redis.Redis(host="127.0.0.1", port=stack.facts()["ports"]["redis"], password=password)


def redis_contents(stack: RunningStack) -> Iterator[bytes]:
    with redis_client(stack) as client:
        for key in client.scan_iter():
            kind = client.type(key)
            if kind == b"string":
                yield client.get(key) or b""
            elif kind == b"stream":
                yield repr(client.xrange(key)).encode()


@contextmanager
def planted(stack: RunningStack, zones: Zones) -> Iterator[None]:
    """A signature in one place of each kind."""
    url = f"https://a.blob.core.windows.net/c/b.tif?sp=r&sig={CANARY}"
    log = stack.folder / "logs/planted.log"
    log.write_text(f"GET {url}\n")
    zones.runs.write_bytes("planted/x", url.encode())
    with stack.prefect() as prefect:
        prefect.post("/variables/", json={"name": "planted", "value": url}).raise_for_status()
    table = f"planted_{uuid4().hex[:8]}"
    with psycopg.connect(stack.url("postgres"), autocommit=True) as connection, redis_client(stack) as client:
        connection.execute(f"create table app.{table} as select %s::text as url".encode(), [url])
        client.set("planted", url)
        try:
            yield
        finally:
            connection.execute(f"drop table app.{table}".encode())
            client.delete("planted")
            log.unlink()
            zones.runs.delete("planted/x")
