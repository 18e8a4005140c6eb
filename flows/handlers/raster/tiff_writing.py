"""Writes the directories of TIFFs, and reads whole those that this project wrote. Knows the format, no library.

Not for strangers' files: all that their directories hold would be kept. Little-endian, tiled, TIFF 6.0 and BigTIFF.
"""

import struct
from dataclasses import dataclass
from os import SEEK_END
from typing import BinaryIO, Final

from flows.handlers.raster.tiff_directories import TILE_LENGTHS, TILE_OFFSETS, TILE_WIDTH, Form, TiffFile

# What makes a TIFF a tiled one. The size of its blocks does not tell: one tile may be as wide as the picture.
TILED: Final = frozenset({TILE_WIDTH, TILE_OFFSETS, TILE_LENGTHS})
REDUCED: Final = 1
MASK: Final = 4
CLASSIC, BIG = Form("<", is_big=False), Form("<", is_big=True)
_LONG, _LONG8 = 4, 16
_CODES: Final = {3: "H", 4: "I", 16: "Q"}


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

    def read(at: int, length: int) -> bytes:
        file.seek(at)
        return file.read(length)

    tiff = TiffFile.of(read, file.seek(0, SEEK_END))
    return [
        {number: Tag(entry.type, entry.count, tiff.value(entry)) for number, entry in entries.items()}
        for entries in tiff.directories()
    ]


def file_header(form: Form) -> bytes:
    """The file's first bytes, up to where the offset of the first directory goes."""
    return b"II+\0" + struct.pack("<HH", 8, 0) if form.is_big else b"II*\0"


def packed(form: Form, number: int) -> bytes:
    """A place or a length as it is written."""
    return struct.pack(f"<{form.word}", number)


def offsets_tag(form: Form, numbers: list[int]) -> Tag:
    """Places in the file."""
    return Tag(_LONG8 if form.is_big else _LONG, len(numbers), struct.pack(f"<{len(numbers)}{form.word}", *numbers))


def number_tag(*numbers: int) -> Tag:
    """Whole numbers below 2³²."""
    return Tag(_LONG, len(numbers), struct.pack(f"<{len(numbers)}I", *numbers))


def size_bytes(directory: Directory, form: Form) -> int:
    """What the directory takes in a file, its long values included."""
    entries = form.count_bytes + len(directory) * form.entry_bytes + form.word_bytes
    return entries + sum(_even(len(tag.value)) for tag in directory.values() if len(tag.value) > form.word_bytes)


def written(directory: Directory, form: Form, at: int, *, is_last: bool) -> bytes:
    """The directory as bytes that begin at `at`; the next one follows directly."""
    end = at + size_bytes(directory, form)
    head = struct.pack(f"<{form.count}", len(directory))
    values_at = at + len(head) + len(directory) * form.entry_bytes + form.word_bytes
    entries, values = b"", b""
    for number, tag in sorted(directory.items()):
        entries += struct.pack("<HH", number, tag.type) + packed(form, tag.count)
        if len(tag.value) <= form.word_bytes:
            entries += tag.value.ljust(form.word_bytes, b"\0")
        else:
            entries += packed(form, values_at + len(values))
            values += tag.value.ljust(_even(len(tag.value)), b"\0")
    return head + entries + packed(form, 0 if is_last else end) + values


def _even(length: int) -> int:
    return length + length % 2
