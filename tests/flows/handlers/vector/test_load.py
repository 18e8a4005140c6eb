"""From a file to a table, with the real database: what is loaded, how often, by whom."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from pydantic import SecretStr

from flows.handlers.context import Context
from flows.handlers.errors import ForeignProduct, HandlerError, Stopped, Transient
from flows.handlers.registry import handler, registry
from flows.handlers.vector.declarations import (
    FinalizeParams,
    LoadChunkParams,
    LoadChunkResult,
    LoadPostgisParams,
    LoadPostgisResult,
    VectorConvertParams,
    VectorConvertResult,
    convert,
    finalize,
    load_chunk,
    load_postgis,
)
from flows.settings import LoaderSettings
from tests.flows.handlers.vector.conftest import NewContext
from tests.support import vectors
from tests.support.cluster import TestDatabase

Loading = Callable[[], Context]


def converted(tmp_path: Path, new_context: NewContext, ending: str, count: int = 250) -> VectorConvertResult:
    name = f"up/fields.{ending}"
    vectors.write(tmp_path / "bronze" / name, vectors.squares(count, side=0.001))
    crs = "EPSG:4326" if ending == "csv" else None
    return convert(VectorConvertParams(source=name, source_crs=crs, chunk_features=100), new_context())


def loaded(product: VectorConvertResult, loading: Loading) -> LoadPostgisResult:
    table = load_postgis(LoadPostgisParams(product=product), loading())
    for chunk in table.chunks:
        load_chunk(LoadChunkParams(table=table.table, chunk=chunk), loading())
    return table


@pytest.mark.parametrize("ending", ["gpkg", "geojson", "fgb", "zip", "parquet", "csv"])
def test_every_format_becomes_the_same_table(
    tmp_path: Path, new_context: NewContext, loading: Loading, shared_database: TestDatabase, ending: str
) -> None:
    product = converted(tmp_path, new_context, ending)
    assert [chunk.count for chunk in product.chunks] == [100, 100, 50]
    table = loaded(product, loading)
    done = finalize(FinalizeParams(table=table.table, product=product, loaded_features=250), loading())
    assert done.feature_count == 250
    with psycopg.connect(shared_database.url("cairn_serving")) as connection:
        names = [column.name for column in product.columns]
        assert names[:2] == ["name", "lanes"]
        rows = connection.execute(
            f"select fid, name, lanes, {names[2]}, st_srid(geom), round(st_xmin(geom)::numeric, 6)::float"  # noqa: S608
            f" from geo.{table.table} order by lanes"
        ).fetchall()
    assert len(rows) == 250
    assert sorted(row[0] for row in rows) == list(range(1, 251))  # an indexed format has an order of its own
    assert [row[1:5] for row in rows[::83]] == [(f"field {n}", n, n / 4, 4326) for n in (0, 83, 166, 249)]
    assert rows[249][5] == pytest.approx(vectors.WEST + 249 * 0.002)
    assert not list((tmp_path / "silver" / "assets/a/0-r1/a1/rows").iterdir())


def test_a_finished_table_has_its_indexes_and_the_order_of_its_tiles(
    tmp_path: Path, new_context: NewContext, loading: Loading, shared_database: TestDatabase
) -> None:
    product = converted(tmp_path, new_context, "gpkg")
    table = loaded(product, loading)
    finalize(FinalizeParams(table=table.table, product=product, loaded_features=250), loading())
    with psycopg.connect(shared_database.url()) as connection:
        found = connection.execute("select indexname from pg_indexes where tablename = %s", [table.table]).fetchall()
        assert {name for (name,) in found} == {f"{table.table}_{kind}" for kind in ("fid", "geom", "rank")}
        connection.execute("set enable_seqscan = off")
        plan = connection.execute(f"explain select from geo.{table.table} order by hashint8(fid) limit 9".encode())
        assert f"{table.table}_rank" in str(plan.fetchall())


def test_chunk_is_loaded_once_however_often_it_is_tried(
    tmp_path: Path, new_context: NewContext, loading: Loading, shared_database: TestDatabase
) -> None:
    product = converted(tmp_path, new_context, "gpkg")
    table = loaded(product, loading)
    tries = [LoadChunkParams(table=table.table, chunk=chunk) for chunk in [*table.chunks, *table.chunks]]
    with ThreadPoolExecutor(len(tries)) as pool:
        assert [done.loaded for done in pool.map(lambda each: load_chunk(each, loading()), tries)] == [100, 100, 50] * 2
    assert load_postgis(LoadPostgisParams(product=product), loading()).table == table.table
    assert counted(shared_database, table.table) == 250


def counted(database: TestDatabase, table: str) -> int:
    with psycopg.connect(database.url()) as connection:
        [count] = connection.execute(f"select count(*) from geo.{table}".encode()).fetchone() or [0]  # noqa: S608
        return int(count)


def test_a_chunk_that_fails_leaves_nothing(
    tmp_path: Path, new_context: NewContext, loading: Loading, shared_database: TestDatabase
) -> None:
    """Cut off, stopped on its way, or not holding what was announced: it may be tried again."""
    product = converted(tmp_path, new_context, "gpkg")
    table = load_postgis(LoadPostgisParams(product=product), loading())
    params = LoadChunkParams(table=table.table, chunk=table.chunks[0])
    rows = tmp_path / "silver" / table.chunks[0].rows
    whole = rows.read_bytes()
    rows.write_bytes(whole[:-200])
    with pytest.raises(psycopg.DataError):
        load_chunk(params, loading())
    rows.write_bytes(whole)
    with pytest.raises(HandlerError, match="holds 100 rows where 99 were announced"):
        load_chunk(params.model_copy(update={"chunk": params.chunk.model_copy(update={"count": 99})}), loading())
    stopped = loading()
    stopped.stop_event.set()
    with pytest.raises(Stopped):
        load_chunk(params, stopped)
    assert counted(shared_database, table.table) == 0
    with pytest.raises(HandlerError, match="0 features were loaded of 250"):
        finalize(FinalizeParams(table=table.table, product=product, loaded_features=250), loading())
    assert load_chunk(params, loading()).loaded == counted(shared_database, table.table) == 100


def test_load_refuses_another_runs_product_or_table(
    tmp_path: Path,
    new_context: NewContext,
    loading: Loading,
    shared_database: TestDatabase,
) -> None:
    """What came of a conversion that was taken over names another's product, table or rows: theirs stays theirs."""
    theirs = converted(tmp_path, new_context, "gpkg")
    table = loaded(theirs, loading)
    before = counted(shared_database, table.table)
    ours = converted(tmp_path, lambda **more: new_context(output_prefix="assets/b/0-r1/a1"), "fgb")

    def mine() -> Context:
        return replace(loading(), run_id="mine", output_prefix="assets/b/0-r1/a1")

    own_chunk, their_chunk = ours.chunks[0], theirs.chunks[0]
    made = load_postgis(LoadPostgisParams(product=ours), mine())
    acts: list[Callable[[], object]] = [
        lambda: load_postgis(LoadPostgisParams(product=theirs), mine()),
        lambda: load_postgis(LoadPostgisParams(product=ours), replace(mine(), run_id="another")),
        lambda: load_chunk(LoadChunkParams(table=table.table, chunk=own_chunk), mine()),
        lambda: load_chunk(LoadChunkParams(table=made.table, chunk=their_chunk), mine()),
        lambda: finalize(FinalizeParams(table=table.table, product=ours, loaded_features=250), mine()),
        lambda: finalize(FinalizeParams(table=table.table, product=theirs, loaded_features=250), mine()),
        lambda: finalize(
            FinalizeParams(
                table=made.table, product=ours.model_copy(update={"chunks": theirs.chunks}), loaded_features=0
            ),
            mine(),
        ),
    ]
    for act in acts:
        with pytest.raises(ForeignProduct):
            act()
    assert counted(shared_database, table.table) == before == 250
    assert counted(shared_database, made.table) == 0
    assert all((tmp_path / "silver" / chunk.rows).exists() for chunk in theirs.chunks)
    assert load_chunk(LoadChunkParams(table=made.table, chunk=own_chunk), mine()).loaded == 100


def test_load_fails_with_a_reason_after_its_table_was_dropped(
    tmp_path: Path, new_context: NewContext, loading: Loading, shared_database: TestDatabase
) -> None:
    """No load drops another's table, as of runs that the domain knows nothing of: the domain's collector does."""
    first = loaded(converted(tmp_path, new_context, "gpkg"), loading)
    other = converted(tmp_path, lambda **more: new_context(output_prefix="assets/b/0-r1/a1"), "fgb")
    mine = replace(loading(), run_id="another", output_prefix="assets/b/0-r1/a1")
    load_postgis(LoadPostgisParams(product=other), mine)
    assert counted(shared_database, first.table) == 250
    with psycopg.connect(shared_database.url()) as connection:
        connection.execute(f"drop table geo.{first.table}".encode())
        connection.execute("delete from geo.layers where table_name = %s", [first.table])
    with pytest.raises(HandlerError, match="The table is gone"):
        load_chunk(LoadChunkParams(table=first.table, chunk=first.chunks[0]), loading())


@pytest.mark.parametrize(
    "statement",
    [
        "select * from app.clients",
        "select * from api.identities",
        "select * from app.alembic_version",
        "create table public.mine (a int)",
        "create table app.mine (a int)",
        "drop table geo.layers",
        "create role mine",
        "copy geo.layers to program 'true'",
        "select pg_read_file('/etc/passwd')",
        "insert into pgstac.items (id) values ('x')",
        "create schema mine",
    ],
)
def test_loader_role_may_only_load_tables(shared_database: TestDatabase, statement: str) -> None:
    with (
        psycopg.connect(shared_database.url("cairn_loader")) as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        connection.execute(statement.encode())


def test_only_handlers_that_declare_it_are_given_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAIRN_DATABASE_LOADER_URL", "postgresql://cairn_loader:secret@127.0.0.1:1/nowhere")
    assert "secret" not in repr(LoaderSettings())
    declared = {name for name, each in registry().items() if each.database}
    assert declared == {"vector.load_postgis", "vector.load_chunk", "vector.finalize"}
    assert {registry()[name].pool for name in declared} == {"light"}
    with pytest.raises(ValueError, match="only light handlers"):
        handler("test.thief", pool="gdal", example=LoadChunkResult(loaded=0), database=True)


def test_load_without_a_database_fails_with_the_setting_to_set(tmp_path: Path, new_context: NewContext) -> None:
    product = converted(tmp_path, new_context, "gpkg")
    with pytest.raises(HandlerError, match="CAIRN_DATABASE_LOADER_URL"):
        load_postgis(LoadPostgisParams(product=product), new_context())
    nowhere = SecretStr("postgresql://cairn_loader:secret@127.0.0.1:1/nowhere")
    with pytest.raises(Transient) as failed:
        load_postgis(LoadPostgisParams(product=product), new_context(database=nowhere))
    assert "secret" not in str(failed.value)
