"""Large copies within this machine: a stop is heard in time, and half a file is never a blob."""

from collections.abc import Callable
from pathlib import Path

import pytest

from flows.handlers.context import Context
from flows.handlers.errors import Stopped
from flows.storage import LocalStore, Store, Zones
from flows.storage.local import PIECE_BYTES

HEARD_SECONDS = 2.0
SIZE = 64 * PIECE_BYTES


@pytest.fixture
def context(tmp_path: Path) -> Context:
    (tmp_path / "work").mkdir()
    return Context(run_id="run", node_id="node", storage=Zones.local(tmp_path), workdir=tmp_path / "work")


@pytest.fixture
def large(context: Context) -> Path:
    """Half a gigabyte that takes no place before it is copied."""
    path = Path(str(context.workdir)) / "large"
    with path.open("wb") as file:
        file.truncate(SIZE)
    return path


@pytest.mark.parametrize("way", ["put", "copy"])
def test_stop_during_a_large_copy_ends_it_at_the_next_piece(way: str, context: Context, large: Path) -> None:
    """Before the next piece, for which a disk of 40 MB a second takes no longer than a stop may take to be heard."""
    told: list[int] = []

    def check(moved: int) -> None:
        told.append(moved)
        context.check(moved)
        if moved == 3 * PIECE_BYTES:
            context.stop_event.set()

    with pytest.raises(Stopped):
        moved(way, context.storage.silver, large, check)
    assert told == [number * PIECE_BYTES for number in range(5)]
    assert PIECE_BYTES / 40e6 < HEARD_SECONDS
    assert context.storage.silver.size_bytes("a/large") is None
    silver = context.storage.silver
    assert isinstance(silver, LocalStore)
    assert [path for path in silver.root.rglob("*") if path.is_file()] == []


def moved(way: str, store: Store, large: Path, check: Callable[[int], None]) -> None:
    if way == "put":
        store.put_file("a/large", large, check)
    else:
        store.copy_from("a/large", LocalStore(large.parent), "large", check)


def test_large_copy_is_whole_and_reports_every_piece(context: Context, large: Path) -> None:
    with large.open("r+b") as file:
        for place in (0, PIECE_BYTES - 1, 5 * PIECE_BYTES, SIZE - 3):
            file.seek(place)
            file.write(b"%d" % (place % 7))
    told: list[int] = []
    context.storage.silver.put_file("a/large", large, told.append)
    assert told == [number * PIECE_BYTES for number in range(SIZE // PIECE_BYTES + 1)]
    with large.open("rb") as before, Path(context.storage.silver.readable_path("a/large")).open("rb") as after:
        while piece := before.read(PIECE_BYTES):
            assert after.read(PIECE_BYTES) == piece
        assert after.read() == b""
