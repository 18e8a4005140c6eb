"""Our own reader of TIFF directories: agrees with GDAL on honest files, and nothing that it is given can harm it."""

import struct
import time
import tracemalloc

import pytest
import rasterio
from hypothesis import given, settings
from hypothesis import strategies as st

from flows.handlers.raster import tiff_directories
from flows.handlers.raster.tiff_directories import BeyondLimit, Damaged, NotTiff
from flows.handlers.raster.tiff_pictures import ClaimedPicture, claimed_pictures
from tests.support import hostile
from tests.support.hostile import Sample
from tests.support.rasters import tiff_of

HONEST = {sample.name: sample for sample in hostile.honest()}
PICTURE = {256: 64, 257: 64, 258: 8, 259: 1, 277: 1}


def read(content: bytes) -> list[ClaimedPicture]:
    return claimed_pictures(lambda at, length: content[at : at + length], len(content))


@pytest.mark.parametrize("sample", HONEST.values(), ids=HONEST)
def test_directory_reader_agrees_with_gdal_on_honest_files(sample: Sample) -> None:
    first, *others = read(sample.content)
    with rasterio.MemoryFile(sample.content) as memory, memory.open() as raster:
        assert (first.width, first.height, first.bands) == (raster.width, raster.height, raster.count)
        assert (first.block_height, first.block_width) == raster.block_shapes[0]
        assert first.pixel_bytes * 8 == int(raster.dtypes[0].lstrip("uintfloa"))
        assert len(others) == len(raster.overviews(1))
        blocks = sum(1 for _ in raster.block_windows(1)) * (raster.count if first.bands_in_block == 1 else 1)
        assert first.block_count == blocks
    assert 0 < first.end <= len(sample.content)
    assert 0 < first.largest_block_bytes <= len(sample.content)


def test_directory_reader_finds_gdals_metadata() -> None:
    (picture,) = read(HONEST["tagged"].content)
    assert b'<Item name="AUTHOR">someone</Item>' in picture.metadata


@pytest.mark.parametrize("name", HONEST)
def test_a_file_that_ends_too_early_is_noticed_at_every_length(name: str) -> None:
    content = HONEST[name].content
    for length in range(0, len(content), 97):
        try:
            pictures = read(content[:length])
        except (NotTiff, Damaged):
            continue
        assert max(picture.end for picture in pictures) > length or length >= len(content) - 97


def test_file_with_another_signature_is_not_a_tiff() -> None:
    for content in (b"", b"II", b"<VRTDataset/>", b"II*\1abcd", b"\x89PNG"):
        with pytest.raises(NotTiff):
            read(content)


def chain_of(count: int) -> bytes:
    """That many directories, one after another, each with a picture."""
    single = tiff_of({**PICTURE, 273: 8, 278: 64, 279: 1})[8:]
    step = len(single)
    parts = [single[:-4] + struct.pack("<I", 8 + (n + 1) * step if n + 1 < count else 0) for n in range(count)]
    return b"II*\0" + struct.pack("<I", 8) + b"".join(parts)


def test_directories_beyond_the_limit_are_refused() -> None:
    assert len(read(chain_of(tiff_directories.MAX_DIRECTORIES))) == tiff_directories.MAX_DIRECTORIES
    with pytest.raises(BeyondLimit, match="directories"):
        read(chain_of(tiff_directories.MAX_DIRECTORIES + 1))


def test_circular_directories_are_refused() -> None:
    content = bytearray(tiff_of({**PICTURE, 273: 8, 278: 64, 279: 1}))
    content[-4:] = struct.pack("<I", 8)
    with pytest.raises(Damaged, match="circle"):
        read(bytes(content))


FAULTS: list[tuple[dict[int, int], type[ValueError], str]] = [
    ({256: 0}, Damaged, "no pixels"),
    ({277: 0}, Damaged, "no pixels"),
    ({322: 0, 323: 16, 324: 8, 325: 8}, Damaged, "no pixels"),
    ({322: 16, 324: 8, 325: 8}, Damaged, "tag 323 is missing"),
    ({}, Damaged, "where its pixels are"),
    ({273: 8, 278: 1}, Damaged, "lists 1 of its 64 blocks"),
    ({322: 1, 323: 1, 324: 8, 325: 8, 256: 2**31, 257: 2**31}, BeyondLimit, "blocks"),
]


@pytest.mark.parametrize(("changes", "kind", "words"), FAULTS)
def test_inconsistent_tags_are_refused_with_the_reason(
    changes: dict[int, int], kind: type[ValueError], words: str
) -> None:
    with pytest.raises(kind, match=words):
        read(tiff_of(PICTURE | changes))


def test_a_tag_that_stands_twice_is_refused_since_readers_differ() -> None:
    content = bytearray(tiff_of({**PICTURE, 273: 8, 278: 64, 279: 1}))
    content[8 + 2 + 12 : 8 + 4 + 12] = struct.pack("<H", 256)
    with pytest.raises(Damaged, match="twice"):
        read(bytes(content))


@pytest.mark.parametrize("count", [2**31, 2**32 - 1])
def test_claimed_counts_allocate_no_memory(count: int) -> None:
    content = bytearray(tiff_of({**PICTURE, 273: 8, 278: 64, 279: 1, 42112: 8}))
    for tag in (258, 273, 279, 42112):
        at = content.index(struct.pack("<HH", tag, 4))
        struct.pack_into("<I", content, at + 4, count)
        tracemalloc.start()
        with pytest.raises((Damaged, BeyondLimit)):
            read(bytes(content))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 100_000
        struct.pack_into("<I", content, at + 4, 1)


def test_the_longest_lists_are_read_quickly() -> None:
    count = 500_000
    blocks = {324: ("I", (8,) * count), 325: ("I", (100,) * count)}
    content = tiff_of({**PICTURE, 256: 16 * 1000, 257: 16 * 500, 322: 16, 323: 16}, blocks)
    begun = time.process_time()
    (picture,) = read(content)
    assert (picture.block_count, picture.end, picture.largest_block_bytes) == (count, 108, 100)
    assert time.process_time() - begun < 1


@settings(deadline=None)
@given(st.binary(max_size=400), st.sampled_from([b"II*\0", b"MM\0*", b"II+\0\x08\0\0\0", b"MM\0+\0\x08\0\0"]))
def test_any_bytes_are_read_or_refused(rest: bytes, magic: bytes) -> None:
    try:
        read(magic + rest)
    except (NotTiff, Damaged, BeyondLimit):
        return


@settings(deadline=None)
@given(st.sampled_from(sorted(HONEST)), st.data())
def test_any_change_to_an_honest_file_is_read_or_refused(name: str, data: st.DataObject) -> None:
    content = bytearray(HONEST[name].content)
    for at in data.draw(st.lists(st.integers(0, len(content) - 1), max_size=8)):
        content[at] = data.draw(st.integers(0, 255))
    try:
        read(bytes(content))
    except (NotTiff, Damaged, BeyondLimit):
        return
