"""What every kind of store does, shown on each: a folder, and containers of a storage account (Azurite)."""

import hashlib
import os
import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import IO
from uuid import uuid4

import pytest

from flows.handlers.errors import InvalidInput, SourceChanged, Stopped
from flows.storage import LocalStore, StampedStore, Store, Zones
from flows.storage.protocol import ListedBlob
from flows.storage.readers import chunks
from tests.support.azurite import Azurite

LARGE = random.Random(7).randbytes(9 * 1024 * 1024)  # noqa: S311 - two blocks of an upload, three pieces of a download


@pytest.fixture
def large(tmp_path: Path) -> Path:
    file = tmp_path / "large"
    file.write_bytes(LARGE)
    return file


def test_blob_is_written_read_and_deleted(store: Store) -> None:
    store.write_bytes("a/b", b"one")
    store.write_bytes("a/b", b"two")
    assert (store.read_bytes("a/b"), store.size_bytes("a/b")) == (b"two", 3)
    store.delete("a/b")
    store.delete("a/b")
    assert store.size_bytes("a/b") is None


def test_an_empty_blob_is_a_blob(store: Store) -> None:
    store.write_bytes("withdrawn/x", b"")
    assert store.size_bytes("withdrawn/x") == 0
    assert store.read_bytes("withdrawn/x") == b"".join(store.chunks("withdrawn/x")) == b""
    assert store.read_range("withdrawn/x", 0, 4) == b""


def test_names_with_any_allowed_character_are_kept_apart(store: Store) -> None:
    names = ["a/b c+d.tif", "a/b=c@d.tif", "a/b_c-d.tif", "a/b c d.tif"]
    for name in names:
        store.write_bytes(name, name.encode())
    assert [store.read_bytes(name) for name in names] == [name.encode() for name in names]
    assert store.names("a") == sorted(names)


def test_reading_a_missing_blob_is_refused_by_name(store: Store) -> None:
    acts: list[Callable[[], object]] = [
        lambda: store.readable_path("a/b"), lambda: store.read_bytes("a/b"), lambda: list(store.chunks("a/b")),
        lambda: store.read_range("a/b", 0, 4), lambda: store.reader("a/b"),
    ]  # fmt: skip
    for act in acts:
        with pytest.raises(InvalidInput, match="There is no blob 'a/b'"):
            act()


@pytest.mark.parametrize("name", ["", "../x", "a//b", "a/../b", ".hidden", "a?b", "a%2fb", "/etc/passwd"])
def test_hostile_names_are_refused_before_anything_is_asked(store: StampedStore, name: str) -> None:
    acts: list[Callable[[str], object]] = [
        store.readable_path, store.reader, store.size_bytes, store.read_bytes, store.delete, store.names,
        store.delete_below, lambda name: store.write_bytes(name, b""), lambda name: store.append(name, b""),
        lambda name: list(store.listed(name)),
    ]  # fmt: skip
    for act in acts:
        with pytest.raises(InvalidInput, match="is not a blob name"):
            act(name)


def test_large_file_is_read_back_unchanged(store: Store, large: Path) -> None:
    store.put_file("a/large", large)
    assert store.size_bytes("a/large") == len(LARGE)
    digest = hashlib.sha256()
    for chunk in store.chunks("a/large"):
        assert len(chunk) <= 4 * 1024 * 1024
        digest.update(chunk)
    assert digest.digest() == hashlib.sha256(LARGE).digest()
    assert store.read_range("a/large", 5_000_000, 1000) == LARGE[5_000_000:5_001_000]
    assert store.read_range("a/large", len(LARGE) - 2, 1000) == LARGE[-2:]
    assert store.read_range("a/large", len(LARGE) + 5, 10) == b""


def test_open_blob_is_read_at_any_place(store: Store, large: Path) -> None:
    store.put_file("a/large", large)
    with store.reader("a/large") as blob:
        assert blob.size_bytes == len(LARGE)
        for start, length in ((5_000_000, 1000), (len(LARGE) - 2, 1000), (len(LARGE) + 5, 10), (7, 0)):
            assert blob.read(start, length) == LARGE[start : start + length]
        assert b"".join(chunks(blob)) == LARGE


def test_reader_of_a_blob_that_is_replaced_mixes_no_two_contents(store: Store) -> None:
    """What was opened is read to its end as it was, or not at all."""
    store.write_bytes("a/b", b"first" * 1000)
    with store.reader("a/b") as blob:
        assert blob.read(0, 5) == b"first"
        store.write_bytes("a/b", b"other" * 1000)
        with store.reader("a/b") as newer:
            assert newer.read(0, 5) == b"other"
            assert newer.version != blob.version
        with suppress(SourceChanged):
            assert blob.read(5, 5) == b"first"


def test_storage_account_refuses_ranges_of_a_replaced_blob(azurite: Azurite) -> None:
    store = azurite.zones(f"x{uuid4().hex[:12]}-").bronze
    store.write_bytes("a/b", b"first" * 1000)
    with store.reader("a/b") as blob:
        store.write_bytes("a/b", b"other" * 1000)
        with pytest.raises(SourceChanged, match="The source changed while it was read"):
            blob.read(5, 5)


@pytest.mark.parametrize("write", [lambda file: file.write(b"!"), lambda file: file.truncate(2000)])
def test_file_changed_while_it_is_read_is_noticed(tmp_path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Whoever sends files into a folder need not give each a new one, as our stores do."""
    store = LocalStore(tmp_path)
    store.write_bytes("a/b", b"first" * 1000)
    os.utime(tmp_path / "a/b", ns=(0, 0))  # clocks of file systems tick slowly
    with store.reader("a/b") as blob:
        assert blob.read(0, 5) == b"first"
        with (tmp_path / "a/b").open("r+b") as file:
            write(file)
        with pytest.raises(SourceChanged):
            blob.read(5, 5)


def test_a_transfer_that_is_stopped_leaves_no_blob(zones: Zones, large: Path) -> None:
    def stop(moved: int) -> None:
        raise Stopped("The run was asked to stop.")

    with pytest.raises(Stopped):
        zones.silver.put_file("a/large", large, stop)
    zones.bronze.put_file("a/large", large)
    with pytest.raises(Stopped):
        LocalStore(large.parent / "elsewhere").copy_from("a/large", zones.bronze, "a/large", stop)
    assert zones.silver.size_bytes("a/large") is None


def test_transfer_reports_its_progress_in_bytes(zones: Zones, large: Path) -> None:
    told: list[int] = []
    zones.silver.put_file("a/large", large, told.append)
    LocalStore(large.parent / "elsewhere").copy_from("a/large", zones.silver, "a/large", told.append)
    assert told == sorted(told[: told.index(0, 1)]) + sorted(told[told.index(0, 1) :])
    assert max(told) >= len(LARGE) - 4 * 1024 * 1024


def test_blob_is_copied_between_zones_of_any_kind(zones: Zones, large: Path) -> None:
    elsewhere = LocalStore(large.parent / "elsewhere")
    zones.bronze.put_file("in/large", large)
    zones.external.copy_from("out/large", zones.bronze, "in/large")
    elsewhere.copy_from("out/large", zones.external, "out/large")
    zones.silver.copy_from("back/large", elsewhere, "out/large")
    assert zones.silver.read_bytes("back/large") == LARGE


def test_lines_appended_concurrently_stay_whole(store: Store) -> None:
    lines = [f"{number}\n".encode() for number in range(40)]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda line: store.append("ledger/n.jsonl", line), lines))
    assert sorted(store.read_bytes("ledger/n.jsonl").splitlines(keepends=True)) == sorted(lines)
    assert store.size_bytes("ledger/n.jsonl") == sum(map(len, lines))


def test_folder_lists_only_its_direct_blobs(store: Store) -> None:
    for name in ("run/a.json", "run/b.json", "run/deeper/c.json", "runner/d.json"):
        store.write_bytes(name, b"{}")
    assert store.names("run") == ["run/a.json", "run/b.json"]
    assert store.names("nothing") == []


def test_deleting_a_folder_removes_everything_below_it_and_nothing_beside(store: Store) -> None:
    for name in ("run/a.json", "run/deeper/c.json", "runner/d.json"):
        store.write_bytes(name, b"{}")
    assert store.delete_below("run") == ["run/a.json", "run/deeper/c.json"]
    assert store.delete_below("run") == []
    assert store.names("runner") == ["runner/d.json"]


def test_blobs_below_a_folder_are_listed_and_removed_by_listing(store: StampedStore) -> None:
    before = time.time() - 60
    for name in ("run/a.json", "run/deeper/c.json", "runner/d.json"):
        store.write_bytes(name, name.encode())
    listed = {one.name: one for one in store.listed("run")}
    assert {name: one.size_bytes for name, one in listed.items()} == {"run/a.json": 10, "run/deeper/c.json": 17}
    assert all(before < one.written_at < before + 3600 for one in listed.values())
    store.remove([listed["run/deeper/c.json"], ListedBlob("run/nothing.json", 1, 0)])
    assert sorted(one.name for one in store.listed()) == ["run/a.json", "runner/d.json"]
    assert list(store.listed("nothing")) == []


def test_new_blob_is_written_once_and_whoever_wrote_it_may_ask_again(store: Store) -> None:
    assert store.write_new("taken/1", b"first")
    assert not store.write_new("taken/1", b"second")
    assert store.write_new("taken/1", b"first"), "its answer may have been lost"
    assert store.read_bytes("taken/1") == b"first"
    assert store.names("taken") == ["taken/1"]


def test_of_many_that_write_a_new_blob_one_succeeds(store: Store) -> None:
    with ThreadPoolExecutor(8) as threads:
        for number in range(5):
            name = f"taken/{number}"
            took = list(threads.map(lambda who, name=name: store.write_new(name, b"%d" % who), range(8)))
            assert took.count(True) == 1
            assert store.read_bytes(name) == b"%d" % took.index(True)
