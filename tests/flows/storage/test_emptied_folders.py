"""Folders that nothing is in go with their last file, under the feet of those who write beside it."""

from pathlib import Path
from threading import Event, Thread

import pytest

from flows.handlers.errors import InvalidInput
from flows.storage import LocalStore
from flows.storage.protocol import ListedBlob


def test_half_written_files_are_listed_and_removed_with_their_folders(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "zone")
    for name in ("a/1/x.tif", "a/1/.partial-0", "a/2/y.tif"):
        path = store.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    listed = list(store.listed("a/1"))
    assert {one.name for one in listed} == {"a/1/x.tif", "a/1/.partial-0"}
    store.remove(listed)
    assert [path.name for path in (store.root / "a").iterdir()] == ["2"]
    store.remove(store.listed())
    assert list(store.root.iterdir()) == []


@pytest.mark.parametrize("name", ["../other/x", "a/../../other/x", "/etc/passwd", "link/x", ""])
def test_removing_blobs_touches_nothing_outside_of_the_zone(tmp_path: Path, name: str) -> None:
    store = LocalStore(tmp_path / "zone")
    other = tmp_path / "other/x"
    other.parent.mkdir()
    other.write_bytes(b"theirs")
    store.write_bytes("a/x", b"ours")
    (store.root / "link").symlink_to(other.parent)
    with pytest.raises(InvalidInput):
        store.remove([ListedBlob(name, 1, 0)])
    assert other.read_bytes() == b"theirs"


def test_writer_recreates_a_folder_removed_meanwhile(tmp_path: Path) -> None:
    """One puts files into a folder that another empties all the time. Neither fails."""
    store, over = LocalStore(tmp_path), Event()

    def empties() -> None:
        while not over.is_set():
            store.remove([ListedBlob("a/b/other", 1, 0)])

    thread = Thread(target=empties)
    thread.start()
    try:
        for number in range(300):
            store.write_bytes("a/b/x", b"content")
            store.append("a/c/y", b"line")
            store.remove([ListedBlob("a/b/x", 7, 0), ListedBlob("a/c/y", 4, 0)])
            assert not (tmp_path / "a/b/x").exists(), number
    finally:
        over.set()
        thread.join()
