"""Writes PostgreSQL's binary COPY format from columns, without a loop over rows. Knows numpy and Arrow, no database.

A row is its number of values, then for each value its length and its bytes; -1 is the length of NULL.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

HEADER: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)
TRAILER: Final = b"\xff\xff"
# So many rows at a time, because what they need besides stays in the processor's cache then.
BLOCK_ROWS: Final = 2_000
# Values longer than this on average are copied one by one: a place for each byte would take eight times their size.
LONG_BYTES: Final = 1_000
_NULL: Final = -1
_MICROSECONDS_TO_2000: Final = 946_684_800_000_000
_DAYS_TO_2000: Final = 10_957

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ColumnValues:
    """One column: the bytes of all its values, one after another, and each value's length, -1 for NULL."""

    lengths: Numbers
    content: Bytes


def rows(columns: Sequence[pa.Array]) -> bytes:
    """The rows of these columns, without header and trailer. Each array has one of the types that `storable` makes."""
    count = len(columns[0])
    blocks = (range(first, min(first + BLOCK_ROWS, count)) for first in range(0, count, BLOCK_ROWS))
    return b"".join(_block([values(each.slice(block.start, len(block))) for each in columns]) for block in blocks)


def _block(columns: list[ColumnValues]) -> bytes:
    sizes = 2 + sum((4 + np.maximum(column.lengths, 0) for column in columns), start=np.zeros(1, np.int64))
    ends = np.cumsum(sizes)
    out = np.empty(int(ends[-1]), np.uint8)
    at = ends - sizes
    _put(out, at, np.full(len(at), len(columns), ">i2"))
    at = at + 2
    for column in columns:
        _put(out, at, column.lengths.astype(">i4"))
        at = at + 4
        _scatter(out, at, column)
        at = at + np.maximum(column.lengths, 0)
    return out.tobytes()


def _put(out: Bytes, at: Numbers, values: npt.NDArray[np.generic]) -> None:
    """Write values of one width, each at its place."""
    width = values.dtype.itemsize
    _rows_of(out, width)[at] = np.ascontiguousarray(values).view(np.uint8).reshape(-1, width)


def _rows_of(out: Bytes, width: int) -> Bytes:
    """View the buffer as rows of this width at every place, so that a value is copied as a whole."""
    return np.ndarray((len(out) - width + 1, width), np.uint8, out, strides=(1, 1))


def _scatter(out: Bytes, at: Numbers, column: ColumnValues) -> None:
    """Write values of any width, each at its place."""
    widths = np.maximum(column.lengths, 0)
    starts = np.cumsum(widths) - widths
    width = int(widths[0])
    if width and (widths == width).all():
        _rows_of(out, width)[at] = column.content.reshape(-1, width)
    elif len(column.content) > LONG_BYTES * len(widths):
        for place, start, width in zip(at.tolist(), starts.tolist(), widths.tolist(), strict=True):
            out[place : place + width] = column.content[start : start + width]
    else:
        out[np.repeat(at - starts, widths) + np.arange(len(column.content))] = column.content


def values(array: pa.Array) -> ColumnValues:
    """A column as PostgreSQL receives it."""
    kind = array.type
    if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        return _variable(array)
    if pa.types.is_timestamp(kind):
        return _fixed(array, array.cast(pa.int64()), ">i8", _MICROSECONDS_TO_2000)
    if pa.types.is_time64(kind):
        return _fixed(array, array.cast(pa.int64()), ">i8")
    if pa.types.is_date32(kind):
        return _fixed(array, array.cast(pa.int32()), ">i4", _DAYS_TO_2000)
    if pa.types.is_boolean(kind):
        return _fixed(array, array.cast(pa.uint8()), ">u1")
    return _fixed(array, array, np.dtype(kind.to_pandas_dtype()).newbyteorder(">"))


def _fixed(array: pa.Array, numbers: pa.Array, dtype: npt.DTypeLike, epoch: int = 0) -> ColumnValues:
    valid = np.asarray(array.is_valid())
    plain = np.asarray(pc.drop_null(numbers))
    content = np.ascontiguousarray((plain - epoch if epoch else plain).astype(dtype)).view(np.uint8)
    return ColumnValues(np.where(valid, np.dtype(dtype).itemsize, _NULL), content)


def _variable(array: pa.Array) -> ColumnValues:
    """Text and bytes: Arrow keeps them one after another as well, so that they are only copied."""
    lengths = np.asarray(pc.fill_null(pc.binary_length(array), _NULL)).astype(np.int64)
    whole = pc.drop_null(array)
    if not len(whole):
        return ColumnValues(lengths, np.zeros(0, np.uint8))
    offsets = np.frombuffer(whole.buffers()[1], np.int64)[whole.offset : whole.offset + len(whole) + 1]
    content = np.frombuffer(whole.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]]
    return ColumnValues(lengths, content)
