"""Reading a blob by pieces: the same bytes as the blob's, in few requests."""

import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Barrier

import pytest

from flows.handlers.errors import Transient
from flows.handlers.raster import pieces, tiff_pictures
from flows.handlers.raster.pieces import Pieces, kept_of, neighbours
from flows.storage import LocalStore
from flows.storage.readers import RangeReader
from tests.support import hostile

NAME = "up/a.bin"
CONTENT = random.Random(1).randbytes(20_000)  # noqa: S311 - to be the same each time


@dataclass(frozen=True)
class Counting(LocalStore):
    """A zone that is asked for ranges, and notes them."""

    asked: list[tuple[int, int]] = field(default_factory=list)

    def read_range(self, name: str, start: int, length: int) -> bytes:
        self.asked.append((start, length))
        return super().read_range(name, start, length)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Counting:
    """The zone, and pieces so small that a short blob has many."""
    sizes = {"PIECE_BYTES": 100, "AHEAD_BYTES": 300, "LONGEST_AHEAD_BYTES": 1200, "KEPT_BYTES": 4000, "GAP_BYTES": 50}
    for name, size in sizes.items():
        monkeypatch.setattr(pieces, name, size)
    made = Counting(tmp_path)
    made.write_bytes(NAME, CONTENT)
    return made


def far(store: LocalStore) -> Pieces:
    return Pieces(RangeReader(store, NAME, store.size_bytes(NAME) or 0))


def test_reading_by_pieces_gives_the_bytes_of_the_blob(store: Counting) -> None:
    blob, generator = far(store), random.Random(2)  # noqa: S311 - likewise
    for _ in range(2000):
        at, length = generator.randrange(20_500), generator.randrange(generator.choice([10, 300, 3000]))
        assert blob.read(at, length) == CONTENT[at : at + length]
    wanted = [(at, generator.randrange(1, 90)) for at in range(0, 19_000, 91) if generator.random() < 0.7]
    assert blob.ranges(wanted) == [CONTENT[at : at + length] for at, length in wanted]


def test_sequential_reading_fetches_ever_larger_parts(store: Counting) -> None:
    blob = far(store)
    for at in range(0, 20_000, 50):
        blob.read(at, 50)
    assert [length for _, length in store.asked[:5]] == [300, 600, 1200, 1200, 1200]
    assert sum(length for _, length in store.asked) == len(CONTENT)


def test_kept_pieces_stay_within_their_room(store: Counting) -> None:
    blob = far(store)
    for at in range(0, 20_000, 50):
        blob.read(at, 50)
    assert sum(map(len, blob.kept.pieces.values())) == pieces.KEPT_BYTES
    asked = len(store.asked)
    blob.read(19_000, 50)
    assert len(store.asked) == asked
    blob.read(0, 50)
    assert len(store.asked) == asked + 1


def test_ranges_that_lie_close_together_are_fetched_as_one(store: Counting) -> None:
    assert list(neighbours([(0, 10), (10, 5), (60, 5), (116, 5), (100, 5)])) == [
        [(0, 10), (10, 5), (60, 5)],
        [(116, 5)],
        [(100, 5)],
    ]
    far(store).ranges([(0, 10), (40, 2500), (9000, 10)])
    assert store.asked == [(0, 2540), (9000, 300)]


def test_piece_fetched_by_one_reader_is_not_fetched_by_another(
    store: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two threads go through the blob, each with a reader of its own. What is kept suffices, whoever lags behind."""
    monkeypatch.setattr(pieces, "KEPT_BYTES", len(CONTENT))
    blobs = [Pieces(RangeReader(store, NAME, len(CONTENT)), kept_of(store, NAME)) for _ in range(2)]
    starts = Barrier(2)

    def go_through(blob: Pieces) -> bytes:
        starts.wait(60)
        return b"".join(blob.read(at, 50) for at in range(0, 4000, 50))

    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(go_through, blobs)) == [CONTENT[:4000]] * 2
    places = [at for start, length in store.asked for at in range(start, start + length)]
    assert len(places) == len(set(places))
    del blobs
    assert kept_of(store, NAME).pieces == {}


def test_failed_fetch_is_retried_by_a_waiting_reader(store: Counting) -> None:
    class Failing(RangeReader):
        def read(self, start: int, length: int) -> bytes:
            raise Transient("gone")

    kept = kept_of(store, NAME)
    with pytest.raises(Transient):
        Pieces(Failing(store, NAME, len(CONTENT)), kept).read(0, 50)
    assert Pieces(RangeReader(store, NAME, len(CONTENT)), kept).read(0, 50) == CONTENT[:50]


def test_local_file_is_read_without_fetching(store: Counting) -> None:
    with store.reader(NAME) as file:
        blob = Pieces(file)
        assert blob.read(19_990, 50) == CONTENT[-10:]
        assert blob.read(20_010, 50) == b""
    assert store.asked == []


@pytest.mark.parametrize("sample", list(hostile.honest()), ids=lambda sample: sample.name)
def test_a_header_takes_two_requests_at_most(sample: hostile.Sample, tmp_path: Path) -> None:
    store = Counting(tmp_path)
    store.write_bytes(NAME, sample.content)
    blob = far(store)
    assert tiff_pictures.claimed_pictures(blob.read, blob.size_bytes)
    assert len(store.asked) <= 2
