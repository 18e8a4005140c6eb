"""Brings any Arrow column to one of the few types that a table and GeoParquet both hold. Pure."""

import json
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from flows.handlers.vector.declarations import SqlType

_STAMP: Final = pa.timestamp("us")
_STAMP_UTC: Final = pa.timestamp("us", tz="UTC")
_TYPES: Final[dict[pa.DataType, SqlType]] = {
    pa.bool_(): "boolean",
    pa.int16(): "smallint",
    pa.int32(): "integer",
    pa.int64(): "bigint",
    pa.float32(): "real",
    pa.float64(): "double precision",
    pa.large_string(): "text",
    pa.date32(): "date",
    pa.time64("us"): "time",
    _STAMP: "timestamp",
    _STAMP_UTC: "timestamptz",
    pa.large_binary(): "bytea",
}


class NumberTooLarge(ValueError):
    """A column holds whole numbers that no column of the table can hold."""


def target(kind: pa.DataType) -> pa.DataType:
    """The type that a column of this type is brought to; text where there is no nearer one."""
    if pa.types.is_dictionary(kind):
        return target(kind.value_type)
    if kind in _TYPES:
        return kind
    return next((wanted(kind) for fits, wanted in _NEAREST if fits(kind)), pa.large_string())


def _whole(kind: pa.DataType) -> pa.DataType:
    """The smallest signed type that holds all numbers of the kind; there is none for the largest unsigned ones."""
    return {pa.int8(): pa.int16(), pa.uint8(): pa.int16(), pa.uint16(): pa.int32()}.get(kind, pa.int64())


_NEAREST: Final[tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType], pa.DataType]], ...]] = (
    (pa.types.is_integer, _whole),
    (pa.types.is_float16, lambda kind: pa.float32()),
    (pa.types.is_decimal, lambda kind: pa.float64()),
    (pa.types.is_timestamp, lambda kind: _STAMP_UTC if kind.tz else _STAMP),
    (pa.types.is_date, lambda kind: pa.date32()),
    (pa.types.is_time, lambda kind: pa.time64("us")),
    (lambda kind: pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind), lambda kind: pa.large_binary()),
)


def sql_type(kind: pa.DataType) -> SqlType:
    """What the table calls a type that `target` has named."""
    return _TYPES[kind]


def storable(array: pa.Array) -> pa.Array:
    """The column in its target type; lists and structures become JSON text."""
    wanted = target(array.type)
    if pa.types.is_dictionary(array.type):
        return storable(array.dictionary_decode())
    if pa.types.is_nested(array.type):
        return pa.array([_json(value) for value in array.to_pylist()], wanted)
    if wanted == pa.large_string():
        return _clean_text(array)
    if array.type == pa.uint64():
        return _signed(array)
    return array if array.type == wanted else array.cast(wanted, safe=False)


def _signed(array: pa.Array) -> pa.Array:
    """Return the same numbers in a signed type, refusing those that would turn negative."""
    try:
        return array.cast(pa.int64(), safe=True)
    except pa.ArrowInvalid:
        raise NumberTooLarge from None


def _json(value: Any) -> str | None:
    return None if value is None else json.dumps(value, default=str, ensure_ascii=False).replace("\\u0000", "")


def _clean_text(array: pa.Array) -> pa.Array:
    """Text that the database takes: valid UTF-8 without the zero character."""
    if not (pa.types.is_string(array.type) or pa.types.is_large_string(array.type)):
        return array.cast(pa.large_string(), safe=False)
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        raw = array.cast(pa.binary() if pa.types.is_string(array.type) else pa.large_binary()).to_pylist()
        array = pa.array([each if each is None else each.decode("utf-8", "replace") for each in raw], pa.large_string())
    text = array.cast(pa.large_string())
    return pc.replace_substring(text, pattern="\0", replacement="")
