"""A blob by its pieces, as readers of rasters want them: many, small and close together. Knows storage, no GDAL.

A file of this machine is read as it is asked for. Of a blob that lies elsewhere more is fetched than was asked for, and
kept: its store is asked few times, and nothing that GDAL reads differs from what was judged before.
"""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

from flows.storage.readers import Reader

PIECE_BYTES: Final = 64 * 1024
# How much is fetched at least, and how much at most where one fetch follows the other.
AHEAD_BYTES: Final = 256 * 1024
LONGEST_AHEAD_BYTES: Final = 4 * 1024 * 1024
KEPT_BYTES: Final = 32 * 1024 * 1024
# Ranges with no more between them come sooner as one.
GAP_BYTES: Final = 64 * 1024

Range = tuple[int, int]


@dataclass
class Pieces:
    """One open blob. `fault` is why it could not be read any further, noted by readers that cannot raise it."""

    blob: Reader
    fault: Exception | None = None
    _kept: "OrderedDict[int, bytes]" = field(default_factory=OrderedDict, repr=False)
    _end: int = 0  # of what was fetched last
    _ahead: int = AHEAD_BYTES
    _turn: Lock = field(default_factory=Lock)

    @property
    def size_bytes(self) -> int:
        return self.blob.size_bytes

    @property
    def is_far(self) -> bool:
        """Whether each reading is a request to somebody else."""
        return self.blob.descriptor is None

    def read(self, at: int, length: int) -> bytes:
        """The bytes there; less of them where the blob ends before."""
        length = min(length, self.size_bytes - at)
        if length <= 0:
            return b""
        if not self.is_far or length > KEPT_BYTES // 4:
            return self.blob.read(at, length)
        first, end = at // PIECE_BYTES, -(-(at + length) // PIECE_BYTES)
        with self._turn:
            found = self._found(first, end)
        return b"".join(found)[at - first * PIECE_BYTES :][:length]

    def ranges(self, wanted: Sequence[Range]) -> list[bytes]:
        """What lies in each of these ranges, which are in their order; neighbours come together."""
        return [content for group in neighbours(wanted) for content in self._group(group)]

    def _group(self, group: Sequence[Range]) -> Iterator[bytes]:
        start = group[0][0]
        whole = self.read(start, group[-1][0] + group[-1][1] - start)
        return (whole[at - start :][:length] for at, length in group)

    def _found(self, first: int, end: int) -> list[bytes]:
        """These pieces, from what is kept or else fetched in one request."""
        missing = [number for number in range(first, end) if number not in self._kept]
        fetched = self._fetched(missing[0], missing[-1] + 1) if missing else {}
        found = [fetched[number] if number in fetched else self._kept[number] for number in range(first, end)]
        for number in range(first, end):
            if number in self._kept:
                self._kept.move_to_end(number)
        self._kept |= fetched
        while len(self._kept) > KEPT_BYTES // PIECE_BYTES:
            self._kept.popitem(last=False)
        return found

    def _fetched(self, first: int, end: int) -> dict[int, bytes]:
        """Pieces from the store, and some that follow: the more, the longer one fetch has followed the other."""
        at = first * PIECE_BYTES
        self._ahead = min(2 * self._ahead, LONGEST_AHEAD_BYTES) if at and at == self._end else AHEAD_BYTES
        length = min(max((end - first) * PIECE_BYTES, self._ahead), self.size_bytes - at)
        content = self.blob.read(at, length)
        self._end = at + length
        return {
            first + number: content[number * PIECE_BYTES :][:PIECE_BYTES]
            for number in range(-(-length // PIECE_BYTES))
        }  # fmt: skip


def neighbours(wanted: Sequence[Range]) -> Iterator[list[Range]]:
    """The ranges in groups of which each is fetched as one."""
    group: list[Range] = []
    for at, length in wanted:
        if group and not 0 <= at - sum(group[-1]) <= GAP_BYTES:
            yield group
            group = []
        group.append((at, length))
    if group:
        yield group
