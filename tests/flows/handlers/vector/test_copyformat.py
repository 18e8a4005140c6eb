"""Binary COPY: what PostgreSQL reads is what was in the columns, whatever it was."""

import datetime as dt
import math
from collections.abc import Iterator
from operator import itemgetter

import psycopg
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flows.handlers.vector import copyformat
from flows.handlers.vector.storable import sql_type, storable, target
from tests.support.cluster import TestDatabase

MOMENTS = st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30))  # noqa: DTZ001 - columns without a zone
KINDS = {
    pa.bool_(): st.booleans(),
    pa.int16(): st.integers(-(2**15), 2**15 - 1),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float32(): st.floats(width=32),
    pa.float64(): st.floats(),
    pa.large_string(): st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    pa.large_binary(): st.binary(),
    pa.date32(): st.dates(),
    pa.time64("us"): st.times(),
    pa.timestamp("us"): MOMENTS,
    pa.timestamp("us", tz="UTC"): MOMENTS.map(lambda each: each.replace(tzinfo=dt.UTC)),
}
ROWS = st.integers(0, 12).flatmap(
    lambda count: st.tuples(
        *(st.lists(st.none() | values, min_size=count, max_size=count) for values in KINDS.values())
    )
)


@pytest.fixture
def connection(shared_database: TestDatabase) -> Iterator[psycopg.Connection]:
    columns = ", ".join(f"c{n} {sql_type(kind)}" for n, kind in enumerate(KINDS))
    with psycopg.connect(shared_database.url("cairn_loader"), autocommit=True) as connection:
        connection.execute("set timezone = 'UTC'")
        connection.execute(f"create table geo.t ({columns})".encode())
        yield connection
        connection.execute("drop table geo.t")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(columns=ROWS)
def test_copied_rows_are_read_back_unchanged(connection: psycopg.Connection, columns: tuple[list[object], ...]) -> None:
    arrays = [pa.array(column, kind) for column, kind in zip(columns, KINDS, strict=True)]
    copied(connection, arrays)
    read = connection.execute("delete from geo.t returning *", binary=True).fetchall()
    assert comparable(read) == comparable(list(zip(*columns, strict=True)))


def copied(connection: psycopg.Connection, arrays: list[pa.Array]) -> None:
    with connection.cursor() as cursor, cursor.copy("copy geo.t from stdin (format binary)") as copy:
        copy.write(copyformat.HEADER + copyformat.rows(arrays) + copyformat.TRAILER)


def test_many_rows_and_long_values_are_copied_unchanged(connection: psycopg.Connection) -> None:
    """More than a block of rows, and values too long to be spread byte by byte."""
    count = copyformat.BLOCK_ROWS * 2 + 7
    texts = ["x" * (n % 90) if n % 5 else None for n in range(count)]
    texts[3000:3004] = ["y" * 5_000_000, "", None, "z" * 4_000_000]
    arrays = [pa.nulls(count, kind) for kind in KINDS]
    arrays[3], arrays[6] = pa.array(range(count), pa.int64()), pa.array(texts, pa.large_string())
    copied(connection, arrays)
    assert sorted(connection.execute("delete from geo.t returning c3, c6"), key=itemgetter(0)) == list(enumerate(texts))


def comparable(rows: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
    """NaN is not equal to itself."""
    return [tuple("nan" if isinstance(each, float) and math.isnan(each) else each for each in row) for row in rows]


def test_slice_of_an_array_is_copied_as_that_slice() -> None:
    whole = pa.array(["a", None, "bcd", "e"], pa.large_string())
    part = copyformat.values(whole.slice(1, 2))
    assert (part.lengths.tolist(), part.content.tobytes()) == ([-1, 3], b"bcd")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (pa.array([1, None], pa.uint8()), [1, None]),
        (pa.array(["a\0b", None]), ["ab", None]),
        (pa.array([[1, 2], None]), ["[1, 2]", None]),
        (pa.array([{"a": "ü"}]), ['{"a": "ü"}']),
        (pa.array(["x", "y", "x"]).dictionary_encode(), ["x", "y", "x"]),
        (pa.array([b"\xff\xfea"], pa.binary()).view(pa.string()), ["��a"]),
        (pa.array([dt.datetime(2024, 1, 1)], pa.timestamp("s")), [dt.datetime(2024, 1, 1)]),  # noqa: DTZ001
        (pa.nulls(2), [None, None]),
    ],
)
def test_every_column_is_cast_to_a_type_that_a_table_has(given: pa.Array, told: list[object]) -> None:
    made = storable(given)
    assert made.type == target(given.type)
    assert sql_type(made.type)
    assert made.to_pylist() == told
