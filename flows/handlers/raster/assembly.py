"""Puts finished pictures (a raster and its overviews, each a file of its own) together as one cloud-optimised GeoTIFF.

Compressed blocks are moved as they are, never unpacked, so this takes as long as copying a file. The order is the one
that GDAL's COG driver writes: directories first, then the pixels from the smallest picture to the largest.
"""

import hashlib
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, Final

from flows.handlers.context import Context
from flows.handlers.raster.tiff_directories import SUBFILE, TILE_LENGTHS, TILE_OFFSETS, TILE_WIDTH, WIDTH, Form
from flows.handlers.raster.tiff_writing import (
    BIG,
    CLASSIC,
    MASK,
    REDUCED,
    Directory,
    file_header,
    number_tag,
    offsets_tag,
    packed,
    read_all,
    size_bytes,
    written,
)

_LARGEST_CLASSIC: Final = 2**32 - 2**16
# Readers that know this notice may fetch a block and its length with one request. The space is kept for an editor
# that breaks the order to say so in place.
_NOTICE: Final = (
    "LAYOUT=IFDS_BEFORE_DATA\nBLOCK_ORDER=ROW_MAJOR\nBLOCK_LEADER=SIZE_AS_UINT4\n"
    "BLOCK_TRAILER=LAST_4_BYTES_REPEATED\nKNOWN_INCOMPATIBLE_EDITION=NO\n "
)
_MASKED: Final = "MASK_INTERLEAVED_WITH_IMAGERY=YES\n"
_LEADER_BYTES = _TRAILER_BYTES = 4
# Blocks are read ahead in runs of about this length.
_RUN_BYTES: Final = 4 * 1024**2


@dataclass(frozen=True)
class Picture:
    """One resolution of the raster as it lies in its file: the pixels, and the mask where there is one."""

    file: BinaryIO
    pixels: Directory
    mask: Directory | None

    @classmethod
    def all_of(cls, file: BinaryIO) -> list["Picture"]:
        """The pictures in a file, in their order; a mask follows its picture."""
        found = list[Picture]()
        for directory in read_all(file):
            if SUBFILE in directory and directory[SUBFILE].numbers()[0] & MASK:
                found[-1] = replace(found[-1], mask=directory)
            else:
                found.append(cls(file, directory, None))
        return found

    @property
    def parts(self) -> list[Directory]:
        return [self.pixels] if self.mask is None else [self.pixels, self.mask]

    @property
    def columns(self) -> int:
        """How many blocks lie side by side."""
        return -(-self.pixels[WIDTH].numbers()[0] // self.side)

    @property
    def side(self) -> int:
        """The side of its blocks, in pixels."""
        return self.pixels[TILE_WIDTH].numbers()[0]

    def blocks(self) -> list[list[tuple[int, int]]]:
        """Offset and length of each block, row by row: of its pixels, then of its mask. Nothing is stored at 0."""
        places = [zip(part[TILE_OFFSETS].numbers(), part[TILE_LENGTHS].numbers(), strict=True) for part in self.parts]
        return [list(block) for block in zip(*places, strict=True)]


@dataclass(frozen=True)
class Assembled:
    """The finished file."""

    size_bytes: int
    sha256: str


@dataclass(frozen=True)
class _Plan:
    """Where everything goes. Directories come out as long as they were planned, whatever their numbers are."""

    form: Form
    notice: bytes
    directories: list[Directory]
    end: int


def assemble(paths: Sequence[Path], product: Path, context: Context) -> Assembled:
    """Write the product from the files of its pictures, the largest first."""
    with ExitStack() as files:
        opened = [files.enter_context(path.open("rb")) for path in paths]
        pictures = [picture for file in opened for picture in Picture.all_of(file)]
        plan = _planned(pictures)
        digest = hashlib.sha256()
        with product.open("wb") as out, ThreadPoolExecutor(1, "digest") as beside:
            for content in _content(pictures, plan, context):
                digested = beside.submit(digest.update, content)
                out.write(content)
                digested.result()
            size = out.tell()
    return Assembled(size, digest.hexdigest())


def _planned(pictures: Sequence[Picture]) -> _Plan:
    classic = _plan(pictures, CLASSIC)
    return classic if classic.end <= _LARGEST_CLASSIC else _plan(pictures, BIG)


def _plan(pictures: Sequence[Picture], form: Form) -> _Plan:
    notice = _notice(is_masked=pictures[0].mask is not None)
    layout = [(level, part) for level, picture in enumerate(pictures) for part in range(len(picture.parts))]
    blocks = {level: picture.blocks() for level, picture in enumerate(pictures)}
    empty = [_directory(pictures[level], level, part, form, [0] * len(blocks[level])) for level, part in layout]
    at = form.header_bytes + len(notice) + sum(size_bytes(directory, form) for directory in empty)
    offsets: dict[tuple[int, int], list[int]] = {place: [] for place in layout}
    for level in reversed(range(len(pictures))):
        for block in blocks[level]:
            for part, (offset, length) in enumerate(block):
                is_stored = bool(offset and length)
                offsets[level, part].append(at + _LEADER_BYTES if is_stored else 0)
                at += length + _LEADER_BYTES + _TRAILER_BYTES if is_stored else 0
    directories = [_directory(pictures[level], level, part, form, offsets[level, part]) for level, part in layout]
    return _Plan(form, notice, directories, at)


def _notice(*, is_masked: bool) -> bytes:
    text = _NOTICE + (_MASKED if is_masked else "")
    return f"GDAL_STRUCTURAL_METADATA_SIZE={len(text):06d} bytes\n{text}".encode("ascii")


def _directory(picture: Picture, level: int, part: int, form: Form, offsets: list[int]) -> Directory:
    """The directory of one part, with its new offsets."""
    kind = (REDUCED if level else 0) | (MASK if part else 0)
    directory = dict(picture.parts[part]) | {TILE_OFFSETS: offsets_tag(form, offsets), SUBFILE: number_tag(kind)}
    lengths = directory[TILE_LENGTHS].numbers()
    stored = [length if offset else 0 for offset, length in zip(offsets, lengths, strict=True)]
    return directory | {TILE_LENGTHS: number_tag(*stored)}


def _content(pictures: Sequence[Picture], plan: _Plan, context: Context) -> Iterator[bytes]:
    """The product's bytes from its first to its last."""
    at = plan.form.header_bytes + len(plan.notice)
    yield file_header(plan.form) + packed(plan.form, at) + plan.notice
    for number, directory in enumerate(plan.directories):
        content = written(directory, plan.form, at, is_last=number + 1 == len(plan.directories))
        at += len(content)
        yield content
    for picture in reversed(pictures):
        yield from _pixels(picture, context)


def _pixels(picture: Picture, context: Context) -> Iterator[bytes]:
    """Each stored block between its length and its last bytes again."""
    gathered, size = list[bytes](), 0
    handle = picture.file.fileno()
    for block in picture.blocks():
        for offset, length in block:
            if offset and length:
                content = os.pread(handle, length, offset)
                gathered += [length.to_bytes(_LEADER_BYTES, "little"), content, content[-_TRAILER_BYTES:]]
                size += length
        if size > _RUN_BYTES:
            context.raise_if_stopping()
            yield b"".join(gathered)
            gathered, size = [], 0
    yield b"".join(gathered)


@dataclass
class Composition:
    """A picture that is being put together from the blocks of others, in the order in which they come."""

    out: BinaryIO
    form: Form
    parts: list[Directory]
    side: int
    columns: int
    offsets: list[list[int]]
    lengths: list[list[int]]

    def add(self, picture: Picture, column: int, row: int) -> None:
        """Move the picture's blocks in; its first one goes to that column and row of blocks."""
        columns, handle = picture.columns, picture.file.fileno()
        for number, block in enumerate(picture.blocks()):
            place = (row + number // columns) * self.columns + column + number % columns
            for part, (offset, length) in enumerate(block):
                if offset and length:
                    self.offsets[part][place] = self.out.tell()
                    self.lengths[part][place] = length
                    self.out.write(os.pread(handle, length, offset))

    def close(self) -> None:
        """Write the directories behind the blocks, and tell the header where."""
        at = self.out.tell()
        self.out.write(bytes(at % 2))
        at += at % 2
        self.out.seek(len(file_header(self.form)))
        self.out.write(packed(self.form, at))
        self.out.seek(at)
        for number, part in enumerate(self.parts):
            numbers = {
                TILE_OFFSETS: offsets_tag(self.form, self.offsets[number]),
                TILE_LENGTHS: number_tag(*self.lengths[number]),
                SUBFILE: number_tag(MASK if number else 0),
            }
            content = written(part | numbers, self.form, at, is_last=number + 1 == len(self.parts))
            at += len(content)
            self.out.write(content)


@contextmanager
def compose(header: Path, path: Path) -> Iterator[Composition]:
    """Begin a picture with the directories of another file that has no blocks."""
    with header.open("rb") as file:
        (empty,) = Picture.all_of(file)
        count = len(empty.blocks())
    form = BIG  # how large it gets is not known before
    zeros = [[0] * count for _ in empty.parts]
    with path.open("wb") as out:
        out.write(file_header(form) + packed(form, 0))
        whole = Composition(out, form, empty.parts, empty.side, empty.columns, zeros, [list(part) for part in zeros])
        yield whole
        whole.close()
