"""Fills one table of schema `geo` from rows that are ready to load. All SQL of the handlers, as role cairn_loader.

Knows no GDAL and opens nothing a sender wrote: the rows pass through as bytes. What is loaded is remembered in the
transaction that loads it, so that a chunk is there once however often it is tried.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict
from psycopg.types.json import Jsonb

from domain.rules.database_timeouts import is_away, liveness_options
from flows.handlers.context import Context
from flows.handlers.errors import ForeignProduct, HandlerError, Outage, Transient
from flows.handlers.vector.declarations import (
    FinalizeParams,
    FinalizeResult,
    LoadChunkParams,
    LoadChunkResult,
    LoadPostgisParams,
    LoadPostgisResult,
    VectorConvertResult,
)

READER: Final = "cairn_serving"
GONE: Final = "The table is gone: the run was too long at rest. Run it again from the start."
_REGISTER: Final = """
insert into geo.layers (table_name, product, run_id, description) values (%s, %s, %s, %s)
on conflict (table_name) do nothing
"""
# Waits for another try of the same chunk, and finds nothing to do where that one has ended well.
_CLAIM: Final = "insert into geo.loaded_chunks (table_name, chunk, features) values (%s, %s, %s) on conflict do nothing"


def create(params: LoadPostgisParams, context: Context) -> LoadPostgisResult:
    """Make the table and register it."""
    table = table_name(context.own(params.product.product))
    with _transaction(context) as connection:
        made = connection.execute(
            _REGISTER, [table, params.product.product, context.run_id, Jsonb(_description(params.product))]
        )
        if made.rowcount:
            connection.execute(_definition(table, params.product))
        else:
            _refuse_foreign(connection, table, context)
    return LoadPostgisResult(table=table, chunks=params.product.chunks)


def table_name(product: str) -> str:
    """The table of a product: a name that says nothing and is the same in every try."""
    return "v_" + hashlib.sha256(product.encode()).hexdigest()[:24]


def _description(product: VectorConvertResult) -> dict[str, Any]:
    """What serving needs to know of the table."""
    return product.model_dump(
        mode="json", include={"columns", "crs", "geometry_type", "feature_count", "bounds_wgs84", "has_heights"}
    )


def _definition(table: str, product: VectorConvertResult) -> sql.Composed:
    """The table without indexes, which are built faster once it is full."""
    shape = sql.SQL("geometry({}, {})").format(
        sql.SQL("GeometryZ" if product.has_heights else "Geometry"), sql.Literal(_srid(product.crs))
    )
    columns = [sql.SQL("{} {}").format(sql.Identifier(column.name), sql.SQL(column.type)) for column in product.columns]
    whole = sql.SQL(", ").join([sql.SQL("fid bigint not null"), *columns, sql.SQL("geom {}").format(shape)])
    return sql.SQL("create table {} ({})").format(_table_identifier(table), whole)


def _srid(crs: str) -> int:
    return int(crs.removeprefix("EPSG:"))


def _table_identifier(table: str) -> sql.Identifier:
    return sql.Identifier("geo", table)


def load_chunk(params: LoadChunkParams, context: Context) -> LoadChunkResult:
    """Pass the chunk's rows on to the table, unless an earlier try has done so."""
    chunk = params.chunk
    with _transaction(context) as connection:
        _refuse_foreign(connection, params.table, context)
        claimed = connection.execute(_CLAIM, [params.table, chunk.number, chunk.count])
        if claimed.rowcount:
            loaded = _copy_rows(connection, params, context)
            if loaded != chunk.count:
                raise HandlerError(f"Chunk {chunk.number} holds {loaded:,} rows where {chunk.count:,} were announced.")
    return LoadChunkResult(loaded=chunk.count)


def _copy_rows(connection: psycopg.Connection, params: LoadChunkParams, context: Context) -> int:
    command = sql.SQL("copy {} from stdin (format binary)").format(_table_identifier(params.table))
    with connection.cursor() as cursor:
        with cursor.copy(command) as copy:
            for piece in context.storage.silver.chunks(context.own(params.chunk.rows)):
                context.raise_if_stopping()
                copy.write(piece)
        return cursor.rowcount


def finalize(params: FinalizeParams, context: Context) -> FinalizeResult:
    """Index and analyse the table, say that it is ready, and remove the rows that it was loaded from."""
    product, table = params.product, params.table
    rows = [context.own(chunk.rows) for chunk in product.chunks]
    with _transaction(context) as connection:
        _refuse_foreign(connection, table, context, of=context.own(product.product))
        [loaded] = connection.execute(
            sql.SQL("select count(*) from {}").format(_table_identifier(table))
        ).fetchone() or [0]
        if not loaded == params.loaded_features == product.feature_count:
            raise HandlerError(
                f"{loaded:,} features were loaded of {product.feature_count:,}. Run it again from the start."
            )
        for done, command in enumerate(_finishing_statements(table)):
            context.raise_if_stopping()
            context.progress(done / 6, "indexing")
            connection.execute(command)
        connection.execute("update geo.layers set is_ready = true where table_name = %s", [table])
    for name in rows:
        context.storage.silver.delete(name)
    return FinalizeResult(feature_count=loaded, bounds_wgs84=product.bounds_wgs84)


def _refuse_foreign(connection: psycopg.Connection, table: str, context: Context, of: str | None = None) -> None:
    """Refuse a table that this run has not registered, or for another product."""
    query = "select run_id, product from geo.layers where table_name = %s"
    known = connection.execute(query, [table]).fetchone()
    if known is None:
        raise HandlerError(GONE)
    if known[0] != context.run_id or (of is not None and known[1] != of):
        raise ForeignProduct(f"Table {table} was made by another run, or of another product. Nothing was done with it.")


def _finishing_statements(table: str) -> Iterator[sql.Composed | sql.SQL]:
    """Yield statements that may be repeated, since an earlier try may have come this far."""
    name = _table_identifier(table)
    yield sql.SQL("set local maintenance_work_mem = '256MB'")
    yield sql.SQL("create unique index if not exists {} on {} (fid)").format(sql.Identifier(f"{table}_fid"), name)
    yield sql.SQL("create index if not exists {} on {} using gist (geom)").format(sql.Identifier(f"{table}_geom"), name)
    # Serving takes a layer's features in this order where a tile has no room for all of them.
    ranked = sql.SQL("create index if not exists {} on {} (hashint8(fid))")
    yield ranked.format(sql.Identifier(f"{table}_rank"), name)
    yield sql.SQL("analyze {}").format(name)
    yield sql.SQL("grant select on {} to {}").format(name, sql.Identifier(READER))


@contextmanager
def _transaction(context: Context) -> Iterator[psycopg.Connection]:
    """Hold a transaction on its own connection; while the server is away, wait and begin the work again."""
    if context.database is None:
        raise HandlerError("Vectors are loaded where CAIRN_DATABASE_LOADER_URL is set; this worker has none.")
    url = context.database.get_secret_value()
    try:
        with psycopg.connect(url, **liveness_options(conninfo_to_dict(url))) as connection:
            yield connection
    except (psycopg.OperationalError, psycopg.InterfaceError, psycopg.errors.ReadOnlySqlTransaction) as error:
        fault = Outage if is_away(error.sqlstate) else Transient
        raise fault(f"The database could not be used: {type(error).__name__}.") from None
    except (psycopg.errors.UndefinedTable, psycopg.errors.ForeignKeyViolation):
        raise HandlerError(GONE) from None
