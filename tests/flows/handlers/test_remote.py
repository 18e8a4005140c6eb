"""Rasters in a storage account: read by ranges, never as a whole only to look at them."""

import gc
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pytest
from pydantic import SecretStr

from flows.handlers.context import Context
from flows.handlers.errors import InvalidInput, Transient
from flows.handlers.raster import cog, inspect
from flows.handlers.raster.declarations import CreateCogParams, ValidateParams
from flows.storage import Zones, account
from flows.storage.account import Account
from flows.storage.azure import AzureStore
from tests.support import rasters
from tests.support.azurite import KEY, Azurite
from tests.support.flaky_blob import Fault, FlakyBlob

SIDE = 60_416  # 118 tiles a side: 10.95 GB of three bands
PAGE = 512


@pytest.fixture
def context(azurite: Azurite, tmp_path: Path) -> Context:
    zones: Zones = azurite.zones(f"r{uuid4().hex[:12]}-")
    return Context(run_id="run", node_id="node", storage=zones, workdir=tmp_path)


def put_sparse(context: Context, name: str, head: bytes, size_bytes: int) -> None:
    """A blob of pages of which only the first were written; the others cost nothing and read as zeros."""
    bronze: Any = context.storage.bronze
    blob = bronze.account.client.get_blob_client(bronze.container, name)
    blob.create_page_blob(-(-size_bytes // PAGE) * PAGE)
    padded = head.ljust(-(-len(head) // PAGE) * PAGE, b"\0")
    for start in range(0, len(padded), 2**20):
        part = padded[start : start + 2**20]
        blob.upload_page(part, offset=start, length=len(part))


def test_the_header_of_a_huge_blob_is_judged_without_a_look_at_the_rest(context: Context) -> None:
    head, size_bytes = rasters.big_header(SIDE, SIDE)
    assert size_bytes >= 10 * 1000**3
    put_sparse(context, "in/huge.tif", head, size_bytes)
    took, verdicts = [], []
    for _ in range(3):
        begun = time.perf_counter()
        verdicts.append(inspect.validate(ValidateParams(source="in/huge.tif"), context))
        took.append(time.perf_counter() - begun)
    seen = verdicts[0]
    assert verdicts == [seen] * 3
    assert (seen.width, seen.height, seen.band_count, seen.crs) == (SIDE, SIDE, 3, "EPSG:32633")
    assert seen.size_mb > 10_000
    assert seen.sha256 is None
    assert min(took) < 10, took  # a second is usual; to read the whole takes a minute


def test_a_huge_blob_that_is_cut_short_is_refused(context: Context) -> None:
    head, size_bytes = rasters.big_header(SIDE, SIDE)
    put_sparse(context, "in/cut.tif", head, size_bytes // 2)
    with pytest.raises(InvalidInput, match="cut short"):
        inspect.validate(ValidateParams(source="in/cut.tif"), context)


def test_a_remote_raster_becomes_a_product_as_a_local_one_does(context: Context, tmp_path: Path) -> None:
    pixels = np.random.default_rng(7).integers(0, 255, (1, 600, 700), np.uint8)
    file = rasters.write(tmp_path / "in.tif", pixels, nodata=0)
    context.storage.bronze.put_file("in/a b+c.tif", file)
    seen = inspect.validate(ValidateParams(source="in/a b+c.tif"), context)
    assert seen.sha256 == inspect.sha256_of(file, context)
    made = cog.create(CreateCogParams(source="in/a b+c.tif"), context)
    local = rasters.context_in(tmp_path / "local")
    local.storage.bronze.put_file("in/a b+c.tif", file)
    beside = cog.create(CreateCogParams(source="in/a b+c.tif"), local)
    assert made == beside
    assert context.storage.silver.read_bytes(made.cog) == local.storage.silver.read_bytes(beside.cog)


@pytest.mark.parametrize("content", [b"", b"GIF89a", b"II*\0" + b"\xff" * 100])
def test_refusal_of_a_remote_file_does_not_quote_its_url(context: Context, content: bytes) -> None:
    context.storage.bronze.write_bytes("in/x.tif", content)
    with pytest.raises(InvalidInput) as refusal:
        inspect.validate(ValidateParams(source="in/x.tif"), context)
    assert "sig" not in str(refusal.value)
    assert "http" not in str(refusal.value)


@pytest.fixture
def flaky(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FlakyBlob]:
    """An account whose one blob is a raster of many tiles, and which fails when it is told to."""
    monkeypatch.setattr(account, "TRANSPORT", {**account.TRANSPORT, "retry_total": 1, "initial_backoff": 0})
    pixels = np.random.default_rng(7).integers(0, 255, (1, 2048, 2048), np.uint8)
    file = rasters.write(tmp_path / "in.tif", pixels, nodata=0, compress="deflate")
    with FlakyBlob.serving(file.read_bytes()) as blob:
        yield blob


@pytest.fixture
def failing(flaky: FlakyBlob, tmp_path: Path) -> Iterator[Context]:
    """Sources are in that account, products in a folder."""
    secret = SecretStr(f"DefaultEndpointsProtocol=http;AccountName=a;AccountKey={KEY};BlobEndpoint={flaky.url};")
    service = Account(connection_string=secret)
    zones = replace(Zones.local(tmp_path), bronze=AzureStore(service, "bronze"))
    yield Context(run_id="run", node_id="node", storage=zones, workdir=tmp_path)
    service.client.close()  # type: ignore[no-untyped-call]
    with warnings.catch_warnings(action="ignore", category=ResourceWarning):
        gc.collect()  # of an answer that broke off, Azure's client forgets to close the connection


@pytest.mark.parametrize("fault", ["unavailable", "closes", "cut short"])
@pytest.mark.parametrize("good_answers", [0, 2])
def test_failing_storage_is_not_reported_as_invalid_input(
    failing: Context, flaky: FlakyBlob, fault: Fault, good_answers: int, tmp_path: Path
) -> None:
    flaky.fail(fault, after=good_answers)
    with pytest.raises(Transient, match=r"'in/x.tif'") as failure:
        cog.create(CreateCogParams(source="in/x.tif"), failing)
    assert "http" not in str(failure.value)
    assert failure.value.__cause__ is None
    assert not (tmp_path / "silver").exists()


def test_damaged_remote_raster_is_refused_where_all_requests_succeed(failing: Context, flaky: FlakyBlob) -> None:
    flaky.fail("zeros", after=2)
    with pytest.raises(InvalidInput, match="damaged"):
        cog.create(CreateCogParams(source="in/x.tif"), failing)


def test_remote_raster_becomes_a_product_where_all_requests_succeed(failing: Context, flaky: FlakyBlob) -> None:
    made = cog.create(CreateCogParams(source="in/x.tif"), failing)
    assert failing.storage.silver.size_bytes(made.cog) == made.artifacts[0].size_bytes
    assert flaky.good_answers <= -3  # so many answers that a fault after the second is met
