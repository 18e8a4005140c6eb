"""What a taken-over try hands over or claims: open files, sizes, names. Real processes, a confined one each."""

import io
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from domain.contracts.names import Named
from flows.handlers.errors import Crashed, ForeignProduct, StorageForbidden
from flows.handlers.registry import registry
from flows.storage import Zones
from flows.tries import one_try, storage_broker
from flows.tries.file_from_try import Bounds, HandedFile
from flows.tries.one_try import Care, Try
from tests.support.run_facts import HOME, SECOND_ATTEMPT

SECRET = b"worker-token-canary"


def run(root: Path, what: str, heard: dict[str, float] | None = None, **params: Any) -> dict[str, Any]:
    one = Try("n", "probe.gdal", {"what": what, **params}, SECOND_ATTEMPT, 60)
    metric = {} if heard is None else heard
    care = Care(Zones.local(root / "zones"), Event(), lambda *_: None, metric.__setitem__)
    seen: dict[str, Any] = one_try.run_try(one, care)["seen"]
    return seen


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file that only we may read, and that no zone holds."""
    file = tmp_path / "secret"
    file.write_bytes(SECRET)
    file.chmod(0o600)
    Zones.local(tmp_path / "zones").bronze.write_bytes("in/a.bin", b"0123456789")
    return file


def stored(root: Path) -> list[bytes]:
    return [file.read_bytes() for file in sorted((root / "zones/silver").rglob("*")) if file.is_file()]


def hand_over(root: Path, secret: Path, only: str = "") -> dict[str, Any]:
    return run(root, "hand over", name="in/a.bin", target=str(secret), flow=os.getpid(), only=only)


def test_try_can_hand_over_only_its_own_files(tmp_path: Path, secret: Path, start: str) -> None:
    seen = hand_over(tmp_path, secret)
    honest = {what for what in seen if what.startswith("honest")}
    assert {seen[what] for what in honest} == {"taken"}
    refused = {what: told for what, told in seen.items() if what not in honest}
    assert len(refused) == 11
    assert set(refused.values()) <= {"StorageForbidden", "PermissionError"}
    assert stored(tmp_path) == [b"own", b"own"]
    assert secret.read_bytes() == SECRET


def test_file_opened_again_through_its_descriptor_is_refused(
    tmp_path: Path, secret: Path, start: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: the broker as it was before, which opened what it was handed with rights of its own."""

    class Reopened(io.FileIO):
        def __init__(self, file: int, _: Bounds) -> None:
            super().__init__(f"/proc/self/fd/{file}")
            self.size = os.fstat(self.fileno()).st_size

        def __del__(self) -> None:
            self.close()

    monkeypatch.setattr(storage_broker, "HandedFile", Reopened)
    planted = "another's file, named only"
    assert hand_over(tmp_path, secret, only=planted) == {planted: "taken"}
    assert stored(tmp_path) == [SECRET]


def test_malformed_metric_is_refused(tmp_path: Path, start: str) -> None:
    heard: dict[str, float] = {}
    run(tmp_path, "measure everything", heard)
    assert len(heard) == 100
    assert max(map(len, heard)) < 10


@pytest.fixture
def own(tmp_path: Path) -> Path:
    file = tmp_path / "own"
    file.write_bytes(b"0123456789" * 1000)
    return file


@pytest.fixture
def bounds(tmp_path: Path) -> Bounds:
    return Bounds.of(tmp_path, 20_000)


def test_handed_file_is_read_from_its_beginning(own: Path, bounds: Bounds) -> None:
    with own.open("r+b") as file:
        file.seek(500)
        handed = HandedFile(file.fileno(), bounds)
        assert (handed.size, handed.read(4), handed.seek(-3, os.SEEK_END), handed.read(9)) == (
            10_000,
            b"0123",
            9997,
            b"789",
        )
        assert handed.read(4) == b""
        handed.seek(0)
        with pytest.raises(io.UnsupportedOperation):
            handed.read()


def too_large(own: Path) -> int:
    os.truncate(own, 2**40)
    return os.open(own, os.O_RDONLY)


def of_two_names(own: Path) -> int:
    os.link(own, own.with_name("other"))
    return os.open(own, os.O_RDONLY)


OTHERS: dict[str, Callable[[Path], int]] = {
    "named only": lambda own: os.open(own, os.O_PATH),
    "for writing": lambda own: os.open(own, os.O_WRONLY),
    "of another disk": lambda own: os.open("/proc/self/status", os.O_RDONLY),
    "of memory": lambda own: os.memfd_create("m"),
    "a folder": lambda own: os.open(own.parent, os.O_RDONLY),
    "a pipe": lambda own: os.pipe()[0],
    "of a terabyte of nothing": too_large,
    "of two names": of_two_names,
}


@pytest.mark.parametrize("opened", OTHERS.values(), ids=OTHERS)
def test_handed_file_that_is_no_plain_own_file_is_refused(
    own: Path, bounds: Bounds, opened: Callable[[Path], int]
) -> None:
    file = opened(own)
    try:
        with pytest.raises(StorageForbidden):
            HandedFile(file, bounds)
    finally:
        os.close(file)


def test_call_without_its_handed_file_is_refused(bounds: Bounds) -> None:
    with pytest.raises(StorageForbidden):
        HandedFile(None, bounds)


@pytest.mark.parametrize("size", [5_000, 15_000])
def test_handed_file_that_changes_while_read_is_refused(own: Path, bounds: Bounds, tmp_path: Path, size: int) -> None:
    store = Zones.local(tmp_path / "zones").silver
    with own.open("rb") as file:
        handed = HandedFile(file.fileno(), bounds)
        assert handed.read(10)
        os.truncate(own, size)
        with pytest.raises(StorageForbidden, match="must not change"):
            store.put_stream("a/b", handed, handed.size)
    assert store.size_bytes("a/b") is None
    assert not any(path.is_file() for path in (tmp_path / "zones").rglob("*"))


ARTIFACT = {
    "role": "cog", "zone": "silver", "name": f"{HOME}/a2/cog.tif", "media_type": "image/tiff", "sha256": "0" * 64,
    "size_bytes": 1,
}  # fmt: skip
HONEST: dict[str, Any] = {
    "source": "in/a.tif", "product": f"{HOME}/a2/cog.tif", "parts": [f"{HOME}/a1/0.tif"], "artifacts": [ARTIFACT],
}  # fmt: skip


def claim(root: Path, **claimed: Any) -> dict[str, Any]:
    params = {"source": "in/a.tif", "claimed": HONEST | claimed}
    one = Try("n", "probe.claim", params, SECOND_ATTEMPT, 60)
    return one_try.run_try(one, Care(Zones.local(root), Event(), lambda *_: None))


def test_result_keeps_only_the_fields_that_its_handler_declares(tmp_path: Path, start: str) -> None:
    assert claim(tmp_path, more="of it") == HONEST | {"artifacts": [ARTIFACT | {"bbox": None}]}
    with pytest.raises(Crashed, match="no result of it"):
        claim(tmp_path, product=7)


FOREIGN: list[dict[str, Any]] = [
    {"product": "assets/other/0-r1/a1/cog.tif"},
    {"product": "assets/asset/0-r10/a1/cog.tif"},
    {"product": "assets/asset/0-r1"},
    {"product": f"{HOME}/../0-r2/a1/cog.tif"},
    {"product": f"{HOME}//a1/cog.tif"},
    {"product": f"{HOME}/a1/%2e%2e/cog.tif"},
    {"product": "/etc/passwd"},
    {"source": "uploads/other/secret.tif"},
    {"parts": [f"{HOME}/a1/0.tif", "assets/other/0-r1/a1/0.tif"]},
    {"artifacts": [ARTIFACT | {"name": "assets/other/0-r1/a1/cog.tif"}]},
    {"artifacts": [ARTIFACT | {"zone": "external"}]},
    {"artifacts": [ARTIFACT | {"zone": "bronze"}]},
    {"artifacts": [ARTIFACT | {"role": "stac_item"}]},
    {"artifacts": [ARTIFACT | {"role": "stac_items"}]},
    {"artifacts": [ARTIFACT | {"role": "stac_collection"}]},
]


@pytest.mark.parametrize("claimed", FOREIGN, ids=str)
def test_result_that_names_foreign_blobs_is_refused(tmp_path: Path, claimed: dict[str, Any]) -> None:
    """In the flow's own process: the child's claim is judged there, whatever the child is."""
    handler, named = registry()["raster.create_cog"], Named({"in/a.tif"})
    from tests.support import probes

    one = Try("n", "probe.claim", {}, SECOND_ATTEMPT, 60)
    handler = replace(handler, result=probes.Made)
    assert one_try.checked_result(handler, one, HONEST, named)["product"] == HONEST["product"]
    with pytest.raises(ForeignProduct, match="Nothing of it was taken") as refusal:
        one_try.checked_result(handler, one, HONEST | claimed, named)
    assert (refusal.value.code, refusal.value.retryable, refusal.value.partner_may_read) == (
        "foreign-product",
        False,
        False,
    )


def test_try_that_claims_anothers_product_fails(tmp_path: Path, start: str) -> None:
    with pytest.raises(ForeignProduct):
        claim(tmp_path, product="assets/other/0-r1/a1/cog.tif")


GDAL = sorted(name for name, each in registry().items() if each.pool == "gdal" and not each.planned)


def names_in(value: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where in the result blobs are named: every text that has a folder, but media types."""
    if isinstance(value, dict):
        return [found for key, each in value.items() if key != "media_type" for found in names_in(each, (*place, key))]
    if isinstance(value, list):
        return [found for key, each in enumerate(value) for found in names_in(each, (*place, key))]
    return [place] if isinstance(value, str) and "/" in value else []


@pytest.mark.parametrize("name", GDAL)
def test_every_name_in_every_result_of_a_process_that_opens_files_is_judged(name: str) -> None:
    """A handler that is added with a name of a plain text is found here."""
    handler = registry()[name]
    example = handler.example.model_dump(mode="json")
    text = handler.example.model_dump_json().replace("rasters/asset/", "assets/asset/")
    example = handler.result.model_validate_json(text).model_dump(mode="json")
    named = Named({"uploads/dem.tif", "uploads/roads.gpkg"})
    one = Try("n", name, {}, SECOND_ATTEMPT, 60)
    assert one_try.checked_result(handler, one, example, named) == example
    for *path, last in names_in(example):
        spoilt = handler.result.model_validate_json(text).model_dump(mode="json")
        inner: Any = spoilt
        for step in path:
            inner = inner[step]
        inner[last] = "assets/other/0-r1/a1/cog.tif"
        with pytest.raises(ForeignProduct):
            one_try.checked_result(handler, one, spoilt, named)
