"""The one reader of TIFF directories: their entries, and the bytes of each. Pure, and safe from whoever wrote the file.

Every number is a claim. Nothing is allocated for a claim before it was held against the file's size and a limit, each
directory is visited once, and what does not fit together is `Damaged`. TIFF 6.0 and BigTIFF, both byte orders.
"""

import struct
import sys
from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

MAX_DIRECTORIES: Final = 128
MAX_TAGS: Final = 1000

Read = Callable[[int, int], bytes]
"""Offset and length; may return less at the file's end."""

SUBFILE, WIDTH, HEIGHT, BITS, COMPRESSION, SAMPLES, PLANAR, FORMAT = 254, 256, 257, 258, 259, 277, 284, 339
STRIP_OFFSETS, STRIP_ROWS, STRIP_LENGTHS = 273, 278, 279
TILE_WIDTH, TILE_HEIGHT, TILE_OFFSETS, TILE_LENGTHS = 322, 323, 324, 325
METADATA = 42112
BLOCK_LISTS: Final = (STRIP_OFFSETS, STRIP_LENGTHS, TILE_OFFSETS, TILE_LENGTHS)

_INTEGERS: Final = {1: "B", 3: "H", 4: "I", 13: "I", 16: "Q", 18: "Q"}
_TYPE_BYTES: Final = {
    1: 1,
    2: 1,
    3: 2,
    4: 4,
    5: 8,
    6: 1,
    7: 1,
    8: 2,
    9: 4,
    10: 8,
    11: 4,
    12: 8,
    13: 4,
    16: 8,
    17: 8,
    18: 8,
}


class NotTiff(ValueError):
    """The first bytes are those of something else."""


class Damaged(ValueError):
    """What the header says cannot be. The message says what, for whoever looks into the file."""


class BeyondLimit(ValueError):
    """The header is larger than an honest one needs to be. The message says what and how much."""


@dataclass(frozen=True)
class Form:
    """How a file writes its numbers: which byte comes first, and whether it is a BigTIFF."""

    order: str
    is_big: bool

    @property
    def header_bytes(self) -> int:
        """The file's first bytes, the offset of the first directory included."""
        return 16 if self.is_big else 8

    @property
    def word(self) -> str:
        return "Q" if self.is_big else "I"

    @property
    def word_bytes(self) -> int:
        return 8 if self.is_big else 4

    @property
    def count(self) -> str:
        """How the number of a directory's entries is written."""
        return "Q" if self.is_big else "H"

    @property
    def count_bytes(self) -> int:
        return 8 if self.is_big else 2

    @property
    def entry_bytes(self) -> int:
        return 4 + 2 * self.word_bytes


FORMS: Final = {
    b"II*\0": Form("<", is_big=False),
    b"MM\0*": Form(">", is_big=False),
    b"II+\0": Form("<", is_big=True),
    b"MM\0+": Form(">", is_big=True),
}


@dataclass(frozen=True)
class TagEntry:
    """One entry of a directory. `at` is where its value lies: in the entry itself when it is short."""

    type: int
    count: int
    at: int

    @property
    def size_bytes(self) -> int:
        return self.count * _TYPE_BYTES.get(self.type, 0)


Entries = Mapping[int, TagEntry]
"""A directory by its tags."""


@dataclass(frozen=True)
class TiffFile:
    """A file that begins as a TIFF does."""

    read: Read
    size_bytes: int
    form: Form

    @classmethod
    def of(cls, read: Read, size_bytes: int) -> "TiffFile":
        form = FORMS.get(read(0, 4))
        if form is None:
            raise NotTiff
        return cls(read, size_bytes, form)

    def directories(self) -> Iterator[Entries]:
        """Every directory of the chain, the raster's own first."""
        form, seen = self.form, set[int]()
        if form.is_big and self._numbers(4, "HH") != (8, 0):
            raise Damaged("its first words are not those of a BigTIFF")
        (at,) = self._numbers(form.header_bytes - form.word_bytes, form.word)
        while at:
            if at in seen:
                raise Damaged("its directories run in a circle")
            if len(seen) == MAX_DIRECTORIES:
                raise BeyondLimit(f"it has more than {MAX_DIRECTORIES} directories")
            seen.add(at)
            (count,) = self._numbers(at, form.count)
            if not 0 < count <= MAX_TAGS:
                raise BeyondLimit(f"one of its directories has {count:,} tags; the limit is {MAX_TAGS:,}")
            first = at + form.count_bytes
            yield self._entries(first, count)
            (at,) = self._numbers(first + count * form.entry_bytes, form.word)

    def value(self, entry: TagEntry) -> bytes:
        """An entry's value as it is written."""
        return self._exactly(entry.at, entry.size_bytes)

    def integers(self, tag: int, entry: TagEntry, most: int) -> "array[int]":
        """An entry's values, if they are whole numbers and no more than this."""
        code = _INTEGERS.get(entry.type)
        if code is None or not 0 < entry.count <= most:
            raise Damaged(f"its tag {tag} holds {entry.count:,} values of type {entry.type}")
        numbers = array(code, self.value(entry))
        if (self.form.order == "<") != (sys.byteorder == "little"):
            numbers.byteswap()
        return numbers

    def _entries(self, first: int, count: int) -> Entries:
        form, entries = self.form, dict[int, TagEntry]()
        layout = struct.Struct(f"{form.order}HH{form.word}{form.word}")
        content = self._exactly(first, count * form.entry_bytes)
        for number, (tag, kind, values, value) in enumerate(layout.iter_unpack(content)):
            inline = first + number * form.entry_bytes + 4 + form.word_bytes
            is_short = values * _TYPE_BYTES.get(kind, 0) <= form.word_bytes
            if tag in entries:  # readers differ in which one they believe
                raise Damaged(f"its tag {tag} stands twice in one directory")
            entries[tag] = TagEntry(kind, values, inline if is_short else value)
        return entries

    def _exactly(self, at: int, length: int) -> bytes:
        """The bytes there, all of them."""
        if at < 0 or at + length > self.size_bytes:
            raise Damaged(f"it points to byte {at + length:,}, beyond its end")
        content = self.read(at, length)
        if len(content) != length:
            raise Damaged("it became shorter while it was read")
        return content

    def _numbers(self, at: int, layout: str) -> tuple[int, ...]:
        layout = self.form.order + layout
        return struct.unpack(layout, self._exactly(at, struct.calcsize(layout)))
