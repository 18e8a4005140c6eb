"""Reads a blob in pieces, as raster readers need it: many, small and close together. Knows storage, no GDAL.

A file of this machine is read as it is asked for. Of a blob that lies elsewhere more is fetched than was asked for, and
kept: its store is asked few times, and nothing that GDAL reads differs from what was judged before.
"""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from threading import Condition
from typing import Final
from weakref import WeakValueDictionary

from flows.storage import Store
from flows.storage.readers import Reader

PIECE_BYTES: Final = 64 * 1024
# How much is fetched at least, and how much at most where one fetch follows the other.
AHEAD_BYTES: Final = 256 * 1024
LONGEST_AHEAD_BYTES: Final = 4 * 1024 * 1024
KEPT_BYTES: Final = 32 * 1024 * 1024
# Ranges with no more between them come sooner as one.
GAP_BYTES: Final = 64 * 1024

Range = tuple[int, int]


@dataclass(eq=False)
class Kept:
    """The fetched pieces of one blob, shared by all who have it open: one fetches, others wait."""

    store: Store | None = None
    pieces: "OrderedDict[int, bytes]" = field(default_factory=OrderedDict, repr=False)
    coming: set[int] = field(default_factory=set)
    changed: Condition = field(default_factory=Condition)

    def keep(self, fetched: dict[int, bytes]) -> None:
        """Keep these pieces, dropping those that were unused for the longest time."""
        self.pieces |= fetched
        while len(self.pieces) > KEPT_BYTES // PIECE_BYTES:
            self.pieces.popitem(last=False)


_open: "WeakValueDictionary[tuple[int, str], Kept]" = WeakValueDictionary()


def kept_of(store: Store, name: str) -> Kept:
    """Return the kept pieces of this blob, which live as long as anybody here has it open."""
    return _open.setdefault((id(store), name), Kept(store))  # which holds the store, so that the number stays its own


@dataclass
class Pieces:
    """One open blob. `fault` is why it could not be read any further, noted by readers that cannot raise it."""

    blob: Reader
    kept: Kept = field(default_factory=Kept)
    fault: Exception | None = None
    _end: int = 0  # of what was fetched last
    _ahead: int = AHEAD_BYTES

    @property
    def size_bytes(self) -> int:
        return self.blob.size_bytes

    @property
    def is_far(self) -> bool:
        """Whether each reading is a request to a remote storage."""
        return self.blob.descriptor is None

    def read(self, at: int, length: int) -> bytes:
        """Return the bytes there; fewer where the blob ends before."""
        length = min(length, self.size_bytes - at)
        if length <= 0:
            return b""
        if not self.is_far or length > KEPT_BYTES // 4:
            return self.blob.read(at, length)
        first, end = at // PIECE_BYTES, -(-(at + length) // PIECE_BYTES)
        return b"".join(self._read_pieces(first, end))[at - first * PIECE_BYTES :][:length]

    def ranges(self, wanted: Sequence[Range]) -> list[bytes]:
        """Return the bytes of each of these ordered ranges; neighbours are fetched together."""
        return [content for group in neighbours(wanted) for content in self._read_group(group)]

    def _read_group(self, group: Sequence[Range]) -> Iterator[bytes]:
        start = group[0][0]
        whole = self.read(start, group[-1][0] + group[-1][1] - start)
        return (whole[at - start :][:length] for at, length in group)

    def _read_pieces(self, first: int, end: int) -> list[bytes]:
        """Return these pieces, kept ones or else fetched in one request."""
        kept, wanted = self.kept, range(first, end)
        with kept.changed:
            kept.changed.wait_for(lambda: kept.coming.isdisjoint(wanted))
            held = {number: kept.pieces[number] for number in wanted if number in kept.pieces}
            for number in held:
                kept.pieces.move_to_end(number)
            missing = [number for number in wanted if number not in held]
            if not missing:
                return list(held.values())
            coming = self._pieces_to_fetch(missing[0], missing[-1] + 1)
            kept.coming.update(coming)
        fetched: dict[int, bytes] = {}
        try:
            fetched = self._fetch(coming)
        finally:
            with kept.changed:
                kept.keep(fetched)
                kept.coming.difference_update(coming)
                kept.changed.notify_all()
        return [fetched[number] if number in fetched else held[number] for number in wanted]

    def _pieces_to_fetch(self, first: int, end: int) -> range:
        """Return these pieces and following ones: the more, the longer reading has been sequential."""
        self._ahead = min(2 * self._ahead, LONGEST_AHEAD_BYTES) if first and first == self._end else AHEAD_BYTES
        most = min(max(end, first + self._ahead // PIECE_BYTES), -(-self.size_bytes // PIECE_BYTES))
        there = self.kept.coming | self.kept.pieces.keys()
        self._end = next((number for number in range(end, most) if number in there), most)
        return range(first, self._end)

    def _fetch(self, coming: range) -> dict[int, bytes]:
        at = coming.start * PIECE_BYTES
        content = self.blob.read(at, min(len(coming) * PIECE_BYTES, self.size_bytes - at))
        return {number: content[(number - coming.start) * PIECE_BYTES :][:PIECE_BYTES] for number in coming}


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
