"""Reading a blob by pieces: the same bytes as the blob's, in few requests."""

import random
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from flows.handlers.raster import pieces, tiff
from flows.handlers.raster.pieces import Pieces
from flows.storage import LocalStore
from tests.support import hostile

NAME = "up/a.bin"


@dataclass(frozen=True)
class Counting(LocalStore):
    """A local zone that notes what was asked of it."""

    asked: list[tuple[int, int]] = field(default_factory=list)

    def read_range(self, name: str, start: int, length: int) -> bytes:
        self.asked.append((start, length))
        return super().read_range(name, start, length)


@pytest.fixture
def store(tmp_path: Path) -> Counting:
    return Counting(tmp_path)


def test_gives_the_bytes_of_the_blob(store: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "AHEAD_BYTES", 100)
    generator = random.Random(1)  # noqa: S311 - to be the same each time
    content = generator.randbytes(2000)
    store.write_bytes(NAME, content)
    blob = Pieces(store, NAME)
    assert blob.size_bytes == 2000
    for _ in range(500):
        at, length = generator.randrange(2100), generator.randrange(300)
        assert blob.read(at, length) == content[at : at + length]


@pytest.mark.parametrize("sample", list(hostile.honest()), ids=lambda sample: sample.name)
def test_a_header_takes_two_requests_at_most(sample: hostile.Sample, store: Counting) -> None:
    store.write_bytes(NAME, sample.content)
    blob = Pieces(store, NAME)
    assert tiff.directories(blob.read, blob.size_bytes)
    assert len(store.asked) <= 2
