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


def test_comparison_of_models_and_schema_finds_a_difference(database: TestDatabase) -> None:
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


def test_upgrade_gives_platforms_without_folders_their_own_and_says_so(
    database: TestDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    """Those that operators have given folders keep them; a new database has nobody to tell."""
    folders = "select platform_id, source_prefixes from app.platforms where platform_id <> 'internal' order by 1"
    own = [(name, [f"uploads/{name}/"]) for name in ("arcgis", "ddh", "geonode")]
    assert told(database, folders) == own
    before = ScriptDirectory(str(MIGRATIONS)).get_revision("0025").down_revision
    assert isinstance(before, str)
    downgrade(database.url(), before)
    with psycopg.connect(database.url()) as connection:
        connection.execute("update app.platforms set source_prefixes = '{}' where platform_id <> 'arcgis'")
        connection.execute("update app.platforms set source_prefixes = '{shared/}' where platform_id = 'arcgis'")
        connection.execute(
            "insert into app.clients (client_id, role, display_name, secret_hash) values ('a', 'admin', 'A', 'x')"
        )
    caplog.clear()
    upgrade(database.url())
    assert told(database, folders) == [("arcgis", ["shared/"]), *own[1:]]
    [line] = [one.getMessage() for one in caplog.records if one.name == "cairn.migrations"]
    assert "ddh, geonode" in line
    assert "arcgis" not in line
    assert '["uploads/"]' in line


def test_upgrade_names_clients_that_signed_in_by_name_and_ends_all_sessions(
    database: TestDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    before = ScriptDirectory(str(MIGRATIONS)).get_revision("0028").down_revision
    assert isinstance(before, str)
    downgrade(database.url(), before)
    with psycopg.connect(database.url()) as connection:
        for client_id, way, is_active in (("rosa", "oidc", True), ("karl", "key", True), ("gone", "oidc", False)):
            connection.execute(
                "insert into app.clients (client_id, role, display_name, secret_hash, is_active)"
                " values (%s, 'reviewer', '', %s, %s)",
                [client_id, client_id, is_active],
            )
            connection.execute(
                "insert into app.audit (actor, role, action, subject, details)"
                " values (%s, 'reviewer', 'console.sign-in', 'client', jsonb_build_object('way', %s::text))",
                [client_id, way],
            )
            connection.execute(
                "insert into app.console_sessions (session_hash, client_id, form_token, expires_at)"
                " values (%s, %s, '', 'infinity')",
                [client_id, client_id],
            )
        connection.execute(
            "insert into app.console_sessions (session_hash, form_token, pending, expires_at)"
            " values ('waits', '', '{}', 'infinity')"
        )
    caplog.clear()
    upgrade(database.url())
    assert told(database, "select count(*) from app.console_sessions") == [(0,)]
    assert told(database, "select count(*) from app.clients where oidc_subject is not null") == [(0,)]
    [line] = [one.getMessage() for one in caplog.records if one.name == "cairn.migrations"]
    assert "its issuer and subject: rosa." in line


def told(database: TestDatabase, command: str) -> list[tuple[object, ...]]:
    with psycopg.connect(database.url()) as connection:
        return connection.execute(command.encode()).fetchall()


def test_downgrade_does_not_revive_an_ended_key(database: TestDatabase) -> None:
    told(
        database,
        "insert into app.clients (client_id, role, display_name, secret_hash, key_until) values"
        " ('over', 'reviewer', '', 'a', now() - interval '1 s'), ('good', 'reviewer', '', 'b', null) returning 1",
    )
    downgrade(database.url(), "0015")
    assert told(database, "select client_id from api.identities where is_active") == [("good",)]


@pytest.mark.parametrize("rule", ["approvals_required = 2", "approval_days = 30"])
def test_downgrade_that_would_forget_approval_rules_is_refused(database: TestDatabase, rule: str) -> None:
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


CALLABLE = """
select has_function_privilege('cairn_gateway', 'lo_create(oid)', 'execute'),
       has_function_privilege('cairn_gateway', 'pg_advisory_lock(bigint)', 'execute'),
       has_function_privilege('cairn_app', 'pg_advisory_lock(bigint)', 'execute')
"""


def test_downgrade_restores_rights_to_large_objects_and_locks(database: TestDatabase) -> None:
    found = []
    for step, revision in ((downgrade, "0015"), (upgrade, "head")):
        step(database.url(), revision)
        with psycopg.connect(database.url()) as connection:
            found.append(connection.execute(CALLABLE).fetchone())
    assert found == [(True, True, True), (False, False, True)]


def test_upgrade_by_a_role_without_rights_leaves_server_functions_open(database: TestDatabase) -> None:
    partners_door = ScriptDirectory(str(MIGRATIONS)).get_revision("0016").module
    rights = partners_door.rights_to_call(partners_door.CLOSE)
    heard: list[str] = []
    with psycopg.connect(database.url("cairn_serving"), autocommit=True) as connection:
        connection.execute("set default_transaction_read_only = off")
        connection.add_notice_handler(lambda notice: heard.append(notice.message_primary or ""))
        connection.execute(rights)
    assert ["stay open to every role: permission denied" in each for each in heard] == [True]


LAYERS_BEFORE = """
create table geo.v_000000000000000000000001 (fid bigint not null);
create table geo.v_000000000000000000000002 (fid bigint not null);
insert into geo.layers (table_name, product, run_id, description, is_ready) values
    ('v_000000000000000000000001', 'ready', '', '{}', true), ('v_000000000000000000000002', 'loading', '', '{}', false),
    ('v_000000000000000000000003', 'gone', '', '{}', true)
"""


def test_upgrade_gives_finished_layers_the_index_of_their_tiles(database: TestDatabase) -> None:
    ranked = "select tablename from pg_indexes where schemaname = 'geo' and indexname like '%_rank'"
    downgrade(database.url(), "0020")
    with psycopg.connect(database.url()) as connection:
        connection.execute(LAYERS_BEFORE.encode())
    upgrade(database.url())
    assert told(database, ranked) == [("v_000000000000000000000001",)]
    downgrade(database.url(), "0020")
    assert told(database, ranked) == []
