"""The one reader of TIFF directories: reads back what we write, in every form, and gives each entry's own bytes."""

import io
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.handlers.raster.tiff_directories import FORMS, Damaged, Form, NotTiff, TiffFile
from flows.handlers.raster.tiff_writing import (
    BIG,
    CLASSIC,
    Directory,
    Tag,
    file_header,
    number_tag,
    packed,
    read_all,
    size_bytes,
    written,
)

tags = st.one_of(
    st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=5).map(lambda numbers: number_tag(*numbers)),
    st.binary(min_size=1, max_size=20).map(lambda text: Tag(2, len(text), text)),
)
directories = st.lists(st.dictionaries(st.integers(1, 65_535), tags, min_size=1, max_size=8), min_size=1, max_size=4)


def file_of(content: bytes) -> TiffFile:
    return TiffFile.of(lambda at, length: content[at : at + length], len(content))


@given(st.sampled_from([CLASSIC, BIG]), directories)
def test_written_directories_are_read_back_unchanged(form: Form, given_directories: list[Directory]) -> None:
    at = form.header_bytes
    content = file_header(form) + packed(form, at)
    for number, directory in enumerate(given_directories):
        block = written(directory, form, at, is_last=number + 1 == len(given_directories))
        assert len(block) == size_bytes(directory, form)
        content, at = content + block, at + len(block)
    assert read_all(io.BytesIO(content)) == [dict(sorted(each.items())) for each in given_directories]


@pytest.mark.parametrize("magic", FORMS)
def test_numbers_are_read_in_the_order_of_the_file(magic: bytes) -> None:
    form = FORMS[magic]
    begin = struct.pack(f"{form.order}HH", 8, 0) if form.is_big else b""
    entry = struct.pack(f"{form.order}HH{form.word}", 256, 3, 2) + struct.pack(f"{form.order}HH", 1, 515)
    head = magic + begin + struct.pack(f"{form.order}{form.word}", form.header_bytes)
    body = struct.pack(f"{form.order}{form.count}", 1) + entry.ljust(form.entry_bytes, b"\0")
    file = file_of(head + body + struct.pack(f"{form.order}{form.word}", 0))
    [entries] = file.directories()
    assert list(file.integers(256, entries[256], 2)) == [1, 515]
    with pytest.raises(Damaged, match="2 values"):
        file.integers(256, entries[256], 1)


def test_the_first_directory_is_read_without_the_rest_of_the_file() -> None:
    at = CLASSIC.header_bytes
    content = (
        file_header(CLASSIC) + packed(CLASSIC, at) + written({256: number_tag(*range(99))}, CLASSIC, at, is_last=True)
    )
    begin = file_of(content[: at + CLASSIC.count_bytes + CLASSIC.entry_bytes])
    assert next(begin.directories()).keys() == {256}
    with pytest.raises(Damaged, match="beyond its end"):
        begin.value(next(begin.directories())[256])


def test_file_with_another_signature_is_refused() -> None:
    for content in (b"", b"II", b"II*\1abcd", b"\x89PNG"):
        with pytest.raises(NotTiff):
            file_of(content)
