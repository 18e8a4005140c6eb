"""What a folder keeps is on the disk before the call returns: the database keeps checksums of it."""

import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from flows.storage import LocalStore


@contextmanager
def watched(monkeypatch: pytest.MonkeyPatch, root: Path) -> Iterator[list[tuple[str, str]]]:
    """What is brought to the disk and what is renamed, in that order, by names below the root."""
    seen: list[tuple[str, str]] = []
    to_disk, rename = os.fsync, Path.replace

    def named(path: Path) -> str:
        name = path.relative_to(root).as_posix()
        return "part" if ".partial-" in name else name

    def fsync(handle: int) -> None:
        seen.append(("fsync", named(Path(f"/proc/self/fd/{handle}").readlink())))
        to_disk(handle)

    def replace(path: Path, target: Path) -> Path:
        assert path.stat().st_size == len(b"content"), "its content is written before its name"
        seen.append(("rename", named(target)))
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "replace", replace)
    yield seen
    monkeypatch.undo()


def from_another(store: LocalStore) -> None:
    other = LocalStore(store.root.parent / "other")
    other.write_bytes("b", b"content")
    store.copy_from("x/y/a", other, "b")


def from_file(store: LocalStore) -> None:
    file = store.root.parent / "file"
    file.write_bytes(b"content")
    store.put_file("x/y/a", file)


WRITES: dict[str, Callable[[LocalStore], None]] = {
    "bytes": lambda store: store.write_bytes("x/y/a", b"content"),
    "file": from_file,
    "stream": lambda store: store.put_stream("x/y/a", io.BytesIO(b"content"), 7),
    "blob of another zone": from_another,
}


@pytest.mark.parametrize("write", WRITES)
def test_content_and_then_name_are_on_the_disk_when_a_blob_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: str
) -> None:
    store = LocalStore(tmp_path / "zone")
    store.root.mkdir()
    with watched(monkeypatch, tmp_path) as seen:
        WRITES[write](store)
    ours = [act for act in seen if not act[1].startswith("other")][-6:]
    assert ours[-3:] == [("fsync", "part"), ("rename", "zone/x/y/a"), ("fsync", "zone/x/y")]
    assert {("fsync", "zone"), ("fsync", "zone/x")} <= set(ours)  # the folders that it needed, too
    assert store.read_bytes("x/y/a") == b"content"


def test_deleted_blob_does_not_return_after_a_power_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LocalStore(tmp_path)
    store.write_bytes("x/a", b"content")
    with watched(monkeypatch, tmp_path) as seen:
        store.delete("x/a")
        store.delete("x/a")
        store.delete_below("x")
    assert seen == [("fsync", "x"), ("fsync", ".")]
