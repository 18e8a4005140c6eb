"""The directories of a TIFF, read without any library that could be harmed by them. Pure: bytes in, facts out.

Every number is a claim. Nothing is allocated for a claim before it was held against the file's size and a limit, each
directory is visited once, and what does not fit together is `Damaged`. TIFF 6.0 and BigTIFF, both byte orders.
"""

import struct
import sys
from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import ceil
from operator import add
from typing import Final

MAX_DIRECTORIES: Final = 128
MAX_TAGS: Final = 1000
MAX_SAMPLES: Final = 65_535
MAX_BLOCKS: Final = 2_000_000
MAX_TEXT_BYTES: Final = 1024**2

Read = Callable[[int, int], bytes]
"""Offset and length; may return less at the file's end."""

WIDTH, HEIGHT, BITS, COMPRESSION, SAMPLES, PLANAR, FORMAT = 256, 257, 258, 259, 277, 284, 339
STRIP_OFFSETS, STRIP_ROWS, STRIP_LENGTHS = 273, 278, 279
TILE_WIDTH, TILE_HEIGHT, TILE_OFFSETS, TILE_LENGTHS = 322, 323, 324, 325
METADATA = 42112
BLOCK_LISTS: Final = (STRIP_OFFSETS, STRIP_LENGTHS, TILE_OFFSETS, TILE_LENGTHS)
UNCOMPRESSED: Final = 1

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
_MAGIC: Final = {b"II*\0": ("<", False), b"MM\0*": (">", False), b"II+\0": ("<", True), b"MM\0+": (">", True)}


class NotTiff(ValueError):
    """The first bytes are those of something else."""


class Damaged(ValueError):
    """What the header says cannot be. The message says what, for whoever looks into the file."""


class BeyondLimit(ValueError):
    """The header is larger than an honest one needs to be. The message says what and how much."""


@dataclass(frozen=True)
class Directory:
    """One picture of the file as its directory claims it: the raster itself, an overview, a mask."""

    width: int
    height: int
    bands: int
    bits: int
    compression: int
    block_width: int
    block_height: int
    bands_in_block: int
    block_count: int
    largest_block_bytes: int
    """As stored, packed."""
    end: int
    """Where the last of its blocks ends in the file."""
    metadata_bytes: int
    """What its tags hold beside the lists of blocks."""
    metadata: bytes
    """GDAL's own tag: XML that GDAL would follow."""

    @property
    def pixel_bytes(self) -> int:
        return ceil(self.bits / 8)

    @property
    def decoded_bytes(self) -> int:
        return self.width * self.height * self.bands * self.pixel_bytes

    @property
    def decoded_block_bytes(self) -> int:
        return self.block_width * self.block_height * self.bands_in_block * self.pixel_bytes


@dataclass(frozen=True)
class _Field:
    """One entry of a directory. `at` is where its value lies: in the entry itself when it is short."""

    type: int
    count: int
    at: int

    @property
    def size_bytes(self) -> int:
        return self.count * _TYPE_BYTES.get(self.type, 0)


@dataclass(frozen=True)
class _Form:
    """How numbers are written in this file."""

    order: str
    is_big: bool

    @property
    def entry_bytes(self) -> int:
        return 20 if self.is_big else 12

    @property
    def word(self) -> str:
        return "Q" if self.is_big else "I"

    @property
    def word_bytes(self) -> int:
        return 8 if self.is_big else 4


@dataclass(frozen=True)
class _File:
    read: Read
    size_bytes: int
    form: _Form

    def exactly(self, at: int, length: int) -> bytes:
        """The bytes there, all of them."""
        if at < 0 or at + length > self.size_bytes:
            raise Damaged(f"it points to byte {at + length:,}, beyond its end")
        content = self.read(at, length)
        if len(content) != length:
            raise Damaged("it became shorter while it was read")
        return content

    def numbers(self, at: int, layout: str) -> tuple[int, ...]:
        layout = self.form.order + layout
        return struct.unpack(layout, self.exactly(at, struct.calcsize(layout)))


def directories(read: Read, size_bytes: int) -> list[Directory]:
    """Every directory of the chain, the raster's own first."""
    magic = read(0, 4)
    if magic not in _MAGIC:
        raise NotTiff
    file = _File(read, size_bytes, _Form(*_MAGIC[magic]))
    found = [_directory(file, fields) for fields in _chain(file)]
    if not found:
        raise Damaged("it has no directory")
    return found


def _chain(file: _File) -> Iterator[Mapping[int, _Field]]:
    form, seen = file.form, set[int]()
    if form.is_big:
        offset_bytes, zero, at = file.numbers(4, "HHQ")
        if (offset_bytes, zero) != (8, 0):
            raise Damaged("its first words are not those of a BigTIFF")
    else:
        (at,) = file.numbers(4, "I")
    while at:
        if at in seen:
            raise Damaged("its directories run in a circle")
        if len(seen) == MAX_DIRECTORIES:
            raise BeyondLimit(f"it has more than {MAX_DIRECTORIES} directories")
        seen.add(at)
        (count,) = file.numbers(at, "Q" if form.is_big else "H")
        if not 0 < count <= MAX_TAGS:
            raise BeyondLimit(f"one of its directories has {count:,} tags; the limit is {MAX_TAGS:,}")
        first = at + (8 if form.is_big else 2)
        yield _fields(file, first, count)
        (at,) = file.numbers(first + count * form.entry_bytes, form.word)


def _fields(file: _File, first: int, count: int) -> Mapping[int, _Field]:
    """The entries of a directory by tag."""
    form, fields = file.form, dict[int, _Field]()
    layout = struct.Struct(f"{form.order}HH{form.word}{form.word}")
    content = file.exactly(first, count * form.entry_bytes)
    for number, (tag, kind, values, value) in enumerate(layout.iter_unpack(content)):
        inline = first + number * form.entry_bytes + 4 + form.word_bytes
        is_short = values * _TYPE_BYTES.get(kind, 0) <= form.word_bytes
        if tag in fields:  # readers differ in which one they believe
            raise Damaged(f"its tag {tag} stands twice in one directory")
        fields[tag] = _Field(kind, values, inline if is_short else value)
    return fields


def _directory(file: _File, fields: Mapping[int, _Field]) -> Directory:
    width, height = _one(file, fields, WIDTH), _one(file, fields, HEIGHT)
    bands, bits = _one(file, fields, SAMPLES, 1), _bits(file, fields)
    is_tiled = TILE_WIDTH in fields or TILE_HEIGHT in fields
    if is_tiled:
        block_width, block_height = _one(file, fields, TILE_WIDTH), _one(file, fields, TILE_HEIGHT)
    else:
        block_width, block_height = width, min(height, _one(file, fields, STRIP_ROWS, height))
    if not (width and height and bands and bits and block_width and block_height):
        raise Damaged("one of its pictures has no pixels")
    is_separate = _one(file, fields, PLANAR, 1) == 2
    blocks = ceil(width / block_width) * ceil(height / block_height) * (bands if is_separate else 1)
    if blocks > MAX_BLOCKS:
        raise BeyondLimit(f"it has {blocks:,} blocks; the limit is {MAX_BLOCKS:,}")
    end, largest = _extent(file, fields, is_tiled=is_tiled, blocks=blocks)
    return Directory(
        width=width,
        height=height,
        bands=bands,
        bits=bits,
        compression=_one(file, fields, COMPRESSION, UNCOMPRESSED),
        block_width=block_width,
        block_height=block_height,
        bands_in_block=1 if is_separate else bands,
        block_count=blocks,
        largest_block_bytes=largest,
        end=end,
        metadata_bytes=sum(field.size_bytes for tag, field in fields.items() if tag not in BLOCK_LISTS),
        metadata=_text(file, fields, METADATA),
    )


def _bits(file: _File, fields: Mapping[int, _Field]) -> int:
    """Bits of a sample, which are the same for all of a picture's samples."""
    return max(_integers(file, fields[BITS], BITS, MAX_SAMPLES)) if BITS in fields else 1


def _extent(file: _File, fields: Mapping[int, _Field], *, is_tiled: bool, blocks: int) -> tuple[int, int]:
    """Where the last block ends and how long the longest one is. A block at 0 is not stored."""
    offsets_tag, lengths_tag = (TILE_OFFSETS, TILE_LENGTHS) if is_tiled else (STRIP_OFFSETS, STRIP_LENGTHS)
    if offsets_tag not in fields:
        raise Damaged("it does not say where its pixels are")
    offsets = _integers(file, fields[offsets_tag], offsets_tag, MAX_BLOCKS * 2)
    if len(offsets) < blocks:
        raise Damaged(f"it lists {len(offsets):,} of its {blocks:,} blocks")
    if lengths_tag not in fields:
        return max(offsets), 0
    lengths = _integers(file, fields[lengths_tag], lengths_tag, MAX_BLOCKS * 2)
    if len(lengths) < blocks:
        raise Damaged(f"it gives the length of {len(lengths):,} of its {blocks:,} blocks")
    if 0 in offsets:
        stored = [(offset, length) for offset, length in zip(offsets, lengths, strict=False) if offset]
        offsets, lengths = array("Q", (offset for offset, _ in stored)), array("Q", (length for _, length in stored))
    return max(map(add, offsets, lengths), default=0), max(lengths, default=0)


def _one(file: _File, fields: Mapping[int, _Field], tag: int, default: int | None = None) -> int:
    """The only number of a tag."""
    if tag not in fields:
        if default is None:
            raise Damaged(f"its tag {tag} is missing")
        return default
    (number,) = _integers(file, fields[tag], tag, 1)
    return number


def _integers(file: _File, field: _Field, tag: int, most: int) -> "array[int]":
    code = _INTEGERS.get(field.type)
    if code is None or not 0 < field.count <= most:
        raise Damaged(f"its tag {tag} holds {field.count:,} values of type {field.type}")
    numbers = array(code, file.exactly(field.at, field.size_bytes))
    if (file.form.order == "<") != (sys.byteorder == "little"):
        numbers.byteswap()
    return numbers


def _text(file: _File, fields: Mapping[int, _Field], tag: int) -> bytes:
    """What the tag holds, whatever type it claims; empty where there is none."""
    if tag not in fields:
        return b""
    if fields[tag].size_bytes > MAX_TEXT_BYTES:
        raise BeyondLimit(f"its tag {tag} holds {fields[tag].size_bytes:,} bytes; the limit is {MAX_TEXT_BYTES:,}")
    return file.exactly(fields[tag].at, fields[tag].size_bytes)
