"""The pictures of a TIFF as its directories claim them. Pure: bytes in, facts out."""

from array import array
from dataclasses import dataclass
from math import ceil
from operator import add
from typing import Final

from flows.handlers.raster.tiff_directories import (
    BITS,
    BLOCK_LISTS,
    COMPRESSION,
    HEIGHT,
    METADATA,
    PLANAR,
    SAMPLES,
    STRIP_LENGTHS,
    STRIP_OFFSETS,
    STRIP_ROWS,
    TILE_HEIGHT,
    TILE_LENGTHS,
    TILE_OFFSETS,
    TILE_WIDTH,
    WIDTH,
    BeyondLimit,
    Damaged,
    Entries,
    Read,
    TiffFile,
)

MAX_SAMPLES: Final = 65_535
MAX_BLOCKS: Final = 2_000_000
MAX_TEXT_BYTES: Final = 1024**2
UNCOMPRESSED: Final = 1


@dataclass(frozen=True)
class ClaimedPicture:
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


def claimed_pictures(read: Read, size_bytes: int) -> list[ClaimedPicture]:
    """Every picture of the file, the raster itself first."""
    file = TiffFile.of(read, size_bytes)
    found = [_picture(file, entries) for entries in file.directories()]
    if not found:
        raise Damaged("it has no directory")
    return found


def _picture(file: TiffFile, entries: Entries) -> ClaimedPicture:
    width, height = _one(file, entries, WIDTH), _one(file, entries, HEIGHT)
    bands, bits = _one(file, entries, SAMPLES, 1), _bits(file, entries)
    is_tiled = TILE_WIDTH in entries or TILE_HEIGHT in entries
    if is_tiled:
        block_width, block_height = _one(file, entries, TILE_WIDTH), _one(file, entries, TILE_HEIGHT)
    else:
        block_width, block_height = width, min(height, _one(file, entries, STRIP_ROWS, height))
    if not (width and height and bands and bits and block_width and block_height):
        raise Damaged("one of its pictures has no pixels")
    is_separate = _one(file, entries, PLANAR, 1) == 2
    blocks = ceil(width / block_width) * ceil(height / block_height) * (bands if is_separate else 1)
    if blocks > MAX_BLOCKS:
        raise BeyondLimit(f"it has {blocks:,} blocks; the limit is {MAX_BLOCKS:,}")
    end, largest = _extent(file, entries, is_tiled=is_tiled, blocks=blocks)
    return ClaimedPicture(
        width=width,
        height=height,
        bands=bands,
        bits=bits,
        compression=_one(file, entries, COMPRESSION, UNCOMPRESSED),
        block_width=block_width,
        block_height=block_height,
        bands_in_block=1 if is_separate else bands,
        block_count=blocks,
        largest_block_bytes=largest,
        end=end,
        metadata_bytes=sum(entry.size_bytes for tag, entry in entries.items() if tag not in BLOCK_LISTS),
        metadata=_text(file, entries, METADATA),
    )


def _bits(file: TiffFile, entries: Entries) -> int:
    """Bits of a sample, which are the same for all of a picture's samples."""
    return max(file.integers(BITS, entries[BITS], MAX_SAMPLES)) if BITS in entries else 1


def _extent(file: TiffFile, entries: Entries, *, is_tiled: bool, blocks: int) -> tuple[int, int]:
    """Where the last block ends and how long the longest one is. A block at 0 is not stored."""
    offsets_tag, lengths_tag = (TILE_OFFSETS, TILE_LENGTHS) if is_tiled else (STRIP_OFFSETS, STRIP_LENGTHS)
    if offsets_tag not in entries:
        raise Damaged("it does not say where its pixels are")
    offsets = file.integers(offsets_tag, entries[offsets_tag], MAX_BLOCKS * 2)
    if len(offsets) < blocks:
        raise Damaged(f"it lists {len(offsets):,} of its {blocks:,} blocks")
    if lengths_tag not in entries:
        return max(offsets), 0
    lengths = file.integers(lengths_tag, entries[lengths_tag], MAX_BLOCKS * 2)
    if len(lengths) < blocks:
        raise Damaged(f"it gives the length of {len(lengths):,} of its {blocks:,} blocks")
    if 0 in offsets:
        stored = [(offset, length) for offset, length in zip(offsets, lengths, strict=False) if offset]
        offsets, lengths = array("Q", (offset for offset, _ in stored)), array("Q", (length for _, length in stored))
    return max(map(add, offsets, lengths), default=0), max(lengths, default=0)


def _one(file: TiffFile, entries: Entries, tag: int, default: int | None = None) -> int:
    """Return the only number of a tag."""
    if tag not in entries:
        if default is None:
            raise Damaged(f"its tag {tag} is missing")
        return default
    (number,) = file.integers(tag, entries[tag], 1)
    return number


def _text(file: TiffFile, entries: Entries, tag: int) -> bytes:
    """What the tag holds, whatever type it claims; empty where there is none."""
    if tag not in entries:
        return b""
    if entries[tag].size_bytes > MAX_TEXT_BYTES:
        raise BeyondLimit(f"its tag {tag} holds {entries[tag].size_bytes:,} bytes; the limit is {MAX_TEXT_BYTES:,}")
    return file.value(entries[tag])
