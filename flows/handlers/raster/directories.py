"""Reads and writes the directories of TIFFs that this project wrote itself. Knows the format, no library.

Not for strangers' files: what stands there is believed. Little-endian, tiled, TIFF 6.0 and BigTIFF.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final

SUBFILE, WIDTH, TILE_WIDTH, TILE_OFFSETS, TILE_LENGTHS = 254, 256, 322, 324, 325
# What makes a TIFF a tiled one. The size of its blocks does not tell: one tile may be as wide as the picture.
TILED: Final = frozenset({TILE_WIDTH, TILE_OFFSETS, TILE_LENGTHS})
REDUCED: Final = 1
MASK: Final = 4
_LONG, _LONG8 = 4, 16
_TYPE_BYTES: Final = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4, 16: 8}
_CODES: Final = {3: "H", 4: "I", 16: "Q"}


@dataclass(frozen=True)
class Form:
    """How wide numbers are written."""

    is_big: bool

    @property
    def header(self) -> bytes:
        """The file's first bytes, up to where the offset of the first directory goes."""
        return b"II+\0" + struct.pack("<HH", 8, 0) if self.is_big else b"II*\0"

    @property
    def header_bytes(self) -> int:
        return 16 if self.is_big else 8

    @property
    def word(self) -> str:
        return "Q" if self.is_big else "I"

    @property
    def word_bytes(self) -> int:
        return 8 if self.is_big else 4

    @property
    def count_layout(self) -> str:
        return "<Q" if self.is_big else "<H"

    def pack(self, number: int) -> bytes:
        return struct.pack(f"<{self.word}", number)


@dataclass(frozen=True)
class Tag:
    """One field of a directory, its values as they are written."""

    type: int
    count: int
    value: bytes

    def numbers(self) -> tuple[int, ...]:
        return struct.unpack(f"<{self.count}{_CODES[self.type]}", self.value)


Directory = dict[int, Tag]


def read_all(file: BinaryIO) -> list[Directory]:
    """Every directory of the file, in its order."""
    return list(_chain(file))


def _chain(file: BinaryIO) -> Iterator[Directory]:
    file.seek(0)
    form = Form(is_big=file.read(4) == b"II+\0")
    file.seek(form.header_bytes - form.word_bytes)
    (at,) = _unpacked(file, f"<{form.word}")
    while at:
        file.seek(at)
        (count,) = _unpacked(file, form.count_layout)
        entry = struct.Struct(f"<HH{form.word}{form.word_bytes}s")
        entries = list(entry.iter_unpack(file.read(count * entry.size)))
        (at,) = _unpacked(file, f"<{form.word}")
        yield {tag: _tag(file, form, *rest) for tag, *rest in entries}


def _unpacked(file: BinaryIO, layout: str) -> tuple[int, ...]:
    return struct.unpack(layout, file.read(struct.calcsize(layout)))


def _tag(file: BinaryIO, form: Form, kind: int, count: int, inline: bytes) -> Tag:
    length = count * _TYPE_BYTES[kind]
    if length <= form.word_bytes:
        return Tag(kind, count, inline[:length])
    file.seek(struct.unpack(f"<{form.word}", inline)[0])
    return Tag(kind, count, file.read(length))


def offsets_tag(form: Form, numbers: list[int]) -> Tag:
    """Places in the file."""
    return Tag(_LONG8 if form.is_big else _LONG, len(numbers), struct.pack(f"<{len(numbers)}{form.word}", *numbers))


def number_tag(*numbers: int) -> Tag:
    """Whole numbers below 2³²."""
    return Tag(_LONG, len(numbers), struct.pack(f"<{len(numbers)}I", *numbers))


def size_bytes(directory: Directory, form: Form) -> int:
    """What the directory takes in a file, its long values included."""
    entries = struct.calcsize(form.count_layout) + len(directory) * (4 + 2 * form.word_bytes) + form.word_bytes
    return entries + sum(_even(len(tag.value)) for tag in directory.values() if len(tag.value) > form.word_bytes)


def written(directory: Directory, form: Form, at: int, *, is_last: bool) -> bytes:
    """The directory as bytes that begin at `at`; the next one follows directly."""
    end = at + size_bytes(directory, form)
    head = struct.pack(form.count_layout, len(directory))
    values_at = at + len(head) + len(directory) * (4 + 2 * form.word_bytes) + form.word_bytes
    entries, values = b"", b""
    for number, tag in sorted(directory.items()):
        entries += struct.pack("<HH", number, tag.type) + form.pack(tag.count)
        if len(tag.value) <= form.word_bytes:
            entries += tag.value.ljust(form.word_bytes, b"\0")
        else:
            entries += form.pack(values_at + len(values))
            values += tag.value.ljust(_even(len(tag.value)), b"\0")
    return head + entries + form.pack(0 if is_last else end) + values


def _even(length: int) -> int:
    return length + length % 2
