"""The schema: models and migrations agree, migrations go down and up, a stale one is refused."""

from pathlib import Path

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine

from domain.app import create_app
from domain.db import MIGRATIONS, StaleSchema
from domain.migrations import downgrade, upgrade
from domain.models import Base
from domain.settings import sqlalchemy_url
from tests.support.cluster import TestCluster, TestDatabase
from tests.support.platform import domain_settings

SHAPE = """
select table_schema, table_name, column_name, data_type, is_nullable, column_default
from information_schema.columns where table_schema in ('app', 'api') order by 1, 2, 3
"""


def differences(database: TestDatabase) -> list[tuple[object, ...]]:
    engine = create_engine(sqlalchemy_url(database.url()))
    with engine.connect() as connection:
        options = {"include_schemas": True, "include_name": lambda name, kind, _: kind != "schema" or name == "app"}
        context = MigrationContext.configure(connection, opts=options | {"version_table_schema": "app"})
        found: list[tuple[object, ...]] = compare_metadata(context, Base.metadata)
    engine.dispose()
    return found


def shape(database: TestDatabase) -> list[tuple[object, ...]]:
    with psycopg.connect(database.url()) as connection:
        return connection.execute(SHAPE).fetchall()


def test_models_and_migrations_agree(database: TestDatabase) -> None:
    assert differences(database) == []


def test_the_comparison_sees_a_difference(database: TestDatabase) -> None:
    with psycopg.connect(database.url()) as connection:
        connection.execute("alter table app.runs drop column reason cascade")
    assert [difference[0] for difference in differences(database)] == ["add_column"]


def test_every_migration_goes_down_and_up_again(database: TestDatabase) -> None:
    before = shape(database)
    revisions = [script.revision for script in ScriptDirectory(str(MIGRATIONS)).walk_revisions()]
    for revision in [*revisions[1:], "base"]:
        downgrade(database.url(), revision)
    with psycopg.connect(database.url()) as connection:
        [left] = (
            connection.execute(
                "select count(*) from pg_tables where schemaname in ('app', 'api') and tablename <> 'alembic_version'"
            ).fetchone()
            or ()
        )
    assert left == 0
    upgrade(database.url())
    assert shape(database) == before


def told(database: TestDatabase, command: str) -> list[tuple[object, ...]]:
    with psycopg.connect(database.url()) as connection:
        return connection.execute(command.encode()).fetchall()


def test_no_way_down_makes_an_ended_key_work_again(database: TestDatabase) -> None:
    told(
        database,
        "insert into app.clients (client_id, role, display_name, secret_hash, key_until) values"
        " ('over', 'reviewer', '', 'a', now() - interval '1 s'), ('good', 'reviewer', '', 'b', null) returning 1",
    )
    downgrade(database.url(), "0015")
    assert told(database, "select client_id from api.identities where is_active") == [("good",)]


@pytest.mark.parametrize("rule", ["approvals_required = 2", "approval_days = 30"])
def test_no_way_down_forgets_that_approvals_end_or_are_several(database: TestDatabase, rule: str) -> None:
    told(database, f"update app.platforms set {rule} where platform_id = 'ddh' returning 1")  # noqa: S608
    with pytest.raises(RuntimeError, match="register the platforms with approvals_required 1"):
        downgrade(database.url(), "0013")
    assert told(database, "select count(*) from app.approvals") == [(0,)]
    told(database, "update app.platforms set approvals_required = 1, approval_days = null returning 1")
    downgrade(database.url(), "0013")


async def refusal(database: TestDatabase, storage: Path) -> str:
    """What the service says to this database."""
    app = create_app(domain_settings(database, storage))
    with pytest.raises(StaleSchema) as refused:
        await app.router.lifespan_context(app).__aenter__()
    return str(refused.value)


async def test_the_service_refuses_a_stale_schema(database: TestDatabase, tmp_path: Path) -> None:
    with psycopg.connect(database.url()) as connection:
        connection.execute("update app.alembic_version set version_num = '0001'")
    said = await refusal(database, tmp_path)
    assert "at schema 0001" in said
    assert "python -m domain.migrations" in said


async def test_the_service_refuses_an_empty_database(cluster: TestCluster, tmp_path: Path) -> None:
    with cluster.database("template1") as empty:
        assert "at schema none" in await refusal(empty, tmp_path)
