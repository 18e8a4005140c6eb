"""Least privilege: what each role may do to each table there is, whoever adds the next one."""

from typing import LiteralString

import psycopg
import pytest
from psycopg import sql

from tests.support.cluster import TestDatabase

TABLES = """
select n.nspname, c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname in ('app', 'api', 'geo', 'public') and c.relkind in ('r', 'v', 'm', 'p')
"""
WRITES = ("insert", "update", "delete", "truncate")
READABLE = {
    "cairn_gateway": {
        "api.identities",
        "api.platforms",
        "api.requests",
        "api.assets",
        "api.asset_versions",
        "api.jobs",
        "api.job_nodes",
        "api.job_events",
        "api.flow_runs",
        "api.processes",
        "api.recent_events",
    },
    "cairn_serving": {
        "api.identities",
        "api.served_products",
        "api.staged_products",
        "api.served_files",
        "api.served_in_parts",
        "api.staged_files",
        "api.descriptions",
        "api.sessions",
    },
}
# What the service itself may never do: rewrite history, or the migrations' own mark.
FORBIDDEN_TO_APP = {
    "app.events": {"update", "delete", "truncate"},
    "app.audit": {"update", "delete", "truncate"},
    "app.audit_seals": {"update", "delete", "truncate"},
    "app.node_transitions": {"update", "truncate"},
    "app.alembic_version": set(WRITES),
}


def privileges(database: TestDatabase, role: str) -> dict[str, set[str]]:
    """What the role may do, by relation of ours. PostGIS's own tables are the extension's business."""
    found: dict[str, set[str]] = {}
    with psycopg.connect(database.url()) as connection:
        for schema, table in connection.execute(TABLES).fetchall():
            if schema == "public":
                continue
            name = f"{schema}.{table}"
            for verb in ("select", *WRITES):
                asked = connection.execute("select has_table_privilege(%s, %s, %s)", [role, name, verb]).fetchone()
                if asked and asked[0]:
                    found.setdefault(name, set()).add(verb)
    return found


@pytest.mark.parametrize("role", list(READABLE))
def test_readers_read_their_views_and_nothing_else(shared_database: TestDatabase, role: str) -> None:
    assert privileges(shared_database, role).keys() == READABLE[role]
    for name, verbs in privileges(shared_database, role).items():
        assert name.startswith("api."), f"{role} may {verbs} {name}"
        assert verbs == {"select"}


def test_service_role_owns_nothing_and_cannot_rewrite_history(shared_database: TestDatabase) -> None:
    allowed = privileges(shared_database, "cairn_app")
    for name, verbs in FORBIDDEN_TO_APP.items():
        assert not allowed[name] & verbs
    assert not [name for name, verbs in allowed.items() if "truncate" in verbs]
    assert not [name for name, verbs in allowed.items() if name.startswith("api.") and verbs != {"select"}]
    with psycopg.connect(shared_database.url()) as connection:
        owned = connection.execute("select count(*) from pg_class where relowner = 'cairn_app'::regrole").fetchone()
    assert owned == (0,)


@pytest.mark.parametrize("role", ["cairn_app", "cairn_gateway", "cairn_serving", "cairn_loader"])
@pytest.mark.parametrize(
    "statement",
    [
        "create table app.mine (a int)",
        "create table public.mine (a int)",
        "alter table app.runs add column mine int",
        "select pg_read_file('/etc/passwd')",
        "copy (select 1) to program 'true'",
        "create role mine",
    ],
)
def test_administrative_statement_is_refused_to_every_role(
    shared_database: TestDatabase, role: str, statement: LiteralString
) -> None:
    with (
        psycopg.connect(shared_database.url(role)) as connection,
        pytest.raises((psycopg.errors.InsufficientPrivilege, psycopg.errors.ReadOnlySqlTransaction)),
    ):
        connection.execute(sql.SQL(statement))


@pytest.mark.parametrize("role", list(READABLE))
def test_reader_role_cannot_write_to_the_views_it_reads(shared_database: TestDatabase, role: str) -> None:
    with psycopg.connect(shared_database.url(role), autocommit=True) as connection:
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            connection.execute("create temporary table mine (a int)")
        connection.execute("set default_transaction_read_only = off")  # the setting is a rail, the grants are the wall
        for name in READABLE[role]:
            with pytest.raises((psycopg.errors.InsufficientPrivilege, psycopg.errors.ObjectNotInPrerequisiteState)):
                connection.execute(sql.SQL("delete from {}").format(sql.Identifier(*name.split("."))))
