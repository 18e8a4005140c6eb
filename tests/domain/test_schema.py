"""Models and migrations say the same, and every migration can be undone."""

import psycopg
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import create_engine

from domain.migrations import downgrade, upgrade
from domain.models import Base
from domain.settings import sqlalchemy_url
from tests.support.cluster import TestDatabase

COLUMNS = """
select table_schema, table_name, column_name, data_type, is_nullable, column_default
from information_schema.columns where table_schema in ('app', 'api') order by 1, 2, 3
"""
GRANTS = """
select table_schema, table_name, grantee, privilege_type from information_schema.role_table_grants
where grantee like 'cairn_%' and table_schema in ('app', 'api') and table_name <> 'alembic_version' order by 1, 2, 3, 4
"""


def test_models_and_migrations_agree(database: TestDatabase) -> None:
    engine = create_engine(sqlalchemy_url(database.url()))
    with engine.connect() as connection:
        options = {"include_schemas": True, "include_name": lambda name, kind, _: kind != "schema" or name == "app"}
        context = MigrationContext.configure(connection, opts=options | {"version_table_schema": "app"})
        differences = compare_metadata(context, Base.metadata)
    engine.dispose()
    assert differences == []


def test_migrations_can_be_undone_and_done_again(database: TestDatabase) -> None:
    def looks() -> list[tuple[object, ...]]:
        with psycopg.connect(database.url()) as connection:
            return connection.execute(COLUMNS).fetchall() + connection.execute(GRANTS).fetchall()

    before = looks()
    downgrade(database.url(), "base")
    assert not [row for row in looks() if row[1] != "alembic_version"]
    upgrade(database.url())
    assert looks() == before
