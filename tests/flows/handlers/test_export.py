"""Copies to the external zone and their removal, on local zones: whole, verified, repeatable, and never left behind."""

import hashlib
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest

from domain.contracts.artifacts import Artifact
from flows.handlers.context import Context
from flows.handlers.errors import HandlerError, Stopped
from flows.handlers.export import CopyParams, ExportResult, Withdrawn, WithdrawParams, copy, withdraw
from flows.storage import LocalStore, Zones
from flows.storage.protocol import Check, go_on

DESTINATION = "asset/0-r1/export"


def context(root: Path, zones: Zones | None = None, stop: Event | None = None) -> Context:
    (root / "work").mkdir(exist_ok=True)
    made = zones or Zones.local(root)
    return Context(run_id="r", node_id="n", storage=made, workdir=root / "work", stop_event=stop or Event())


def artifacts(root: Path, *contents: bytes) -> list[Artifact]:
    """Files in the silver zone as a run would have recorded them."""
    made = []
    for number, content in enumerate(contents):
        name = f"assets/asset/0-r1/a1/file{number}.tif"
        Zones.local(root).silver.write_bytes(name, content)
        sha256 = hashlib.sha256(content).hexdigest()
        size = len(content)
        made.append(
            Artifact(role="cog", zone="silver", name=name, media_type="image/tiff", sha256=sha256, size_bytes=size)
        )
    return made


def export(root: Path, *contents: bytes, zones: Zones | None = None, stop: Event | None = None) -> ExportResult:
    params = CopyParams(artifacts=artifacts(root, *contents), destination=DESTINATION)
    return copy(params, context(root, zones, stop))


def out(root: Path) -> list[Path]:
    return [path for path in (root / "external").rglob("*") if path.is_file()]


def test_export_writes_copies_named_by_content(tmp_path: Path) -> None:
    made = export(tmp_path, b"one" * 1000, b"two")
    assert made.external_blob_path == DESTINATION
    for copied, content in zip(made.artifacts, (b"one" * 1000, b"two"), strict=True):
        assert copied.zone == "external"
        assert copied.name == f"{DESTINATION}/cog-{copied.sha256[:16]}.tif"
        assert Zones.local(tmp_path).external.read_bytes(copied.name) == content


def test_second_try_writes_only_missing_or_partial_copies(tmp_path: Path) -> None:
    first = export(tmp_path, b"one", b"two")
    kept, broken = (tmp_path / "external" / artifact.name for artifact in first.artifacts)
    broken.write_bytes(b"tw0")
    before = kept.stat().st_ino
    assert export(tmp_path, b"one", b"two") == first
    assert (kept.stat().st_ino, broken.read_bytes()) == (before, b"two")


def test_file_that_changed_since_its_run_is_not_exported(tmp_path: Path) -> None:
    listed = artifacts(tmp_path, b"one")
    Zones.local(tmp_path).silver.write_bytes(listed[0].name, b"0ne")
    with pytest.raises(HandlerError, match="checksum differs"):
        copy(CopyParams(artifacts=listed, destination=DESTINATION), context(tmp_path))
    assert out(tmp_path) == []


def test_equal_files_are_exported_once(tmp_path: Path) -> None:
    made = export(tmp_path, b"one", b"two", b"one")
    assert [Zones.local(tmp_path).external.read_bytes(one.name) for one in made.artifacts] == [b"one", b"two"]


def test_progress_of_an_export_is_counted_in_bytes(tmp_path: Path) -> None:
    """Of one file that is most of all too, which would otherwise be done at once."""
    told: list[tuple[float, str]] = []
    listed = artifacts(tmp_path, b"x" * 20_000_000, b"y" * 5_000_000)
    given = replace(context(tmp_path), progress=lambda fraction, text: told.append((fraction, text)))
    copy(CopyParams(artifacts=listed, destination=DESTINATION), given)
    fractions = [fraction for fraction, _ in told]
    assert fractions == sorted(fractions)
    assert any(0 < fraction < 0.8 for fraction in fractions)
    assert told[-1] == (1.0, "25,000,000 of 25,000,000 bytes")


def test_stopped_export_writes_nothing(tmp_path: Path) -> None:
    stop = Event()
    stop.set()
    with pytest.raises(Stopped):
        export(tmp_path, b"one", stop=stop)
    assert out(tmp_path) == []


def test_a_withdrawal_removes_copies_and_halves_of_copies(tmp_path: Path) -> None:
    made = export(tmp_path, b"one", b"two")
    (tmp_path / "external" / DESTINATION / ".partial-x").write_bytes(b"half")
    other = tmp_path / "external/asset/0-r1/other/cog.tif"
    other.parent.mkdir()
    other.write_bytes(b"of another export")
    gone = withdraw(WithdrawParams(external_blob_path=DESTINATION), context(tmp_path))
    assert gone.removed == sorted(artifact.name for artifact in made.artifacts)
    assert out(tmp_path) == [other]
    assert withdraw(WithdrawParams(external_blob_path=DESTINATION), context(tmp_path)).removed == []


def test_withdrawn_destination_is_not_exported_again(tmp_path: Path) -> None:
    withdraw(WithdrawParams(external_blob_path=DESTINATION), context(tmp_path))
    with pytest.raises(Withdrawn):
        export(tmp_path, b"one")
    assert out(tmp_path) == []


@pytest.mark.parametrize("moment", ["before", "after"])
def test_withdrawal_during_an_export_leaves_no_copy(tmp_path: Path, moment: str) -> None:
    """Around each write of a worker that was fenced and has not heard of it."""
    zones = Zones.local(tmp_path)

    class Interrupted(LocalStore):
        def put_file(self, name: str, source: Path, check: Check = go_on) -> None:
            if moment == "before":
                withdraw(WithdrawParams(external_blob_path=DESTINATION), context(tmp_path))
            super().put_file(name, source)
            if moment == "after":
                withdraw(WithdrawParams(external_blob_path=DESTINATION), context(tmp_path))

    meeting = Zones(zones.bronze, zones.silver, Interrupted(tmp_path / "external"), zones.runs)
    with pytest.raises(HandlerError):
        export(tmp_path, b"one", b"two", zones=meeting)
    assert out(tmp_path) == []
