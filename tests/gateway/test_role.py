"""The gateway's database role, as somebody who runs code in the gateway would use it: it reads one platform's rows.

CAIRN_ROLE_READINGS sets how many readings alternate between tenants: 1,000 here, 10,000 in the long form.
"""

import asyncio
import os
import random
import re
from pathlib import Path
from typing import Any, LiteralString
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.types.json import Jsonb

from domain.repositories.audit import SEALING
from domain.repositories.precedents import TAKE_KEY
from domain.rules import paging
from domain.shared.database_address import DatabaseAddress
from gateway.reads.queries import Queries, assets_query, reading_pool
from tests.domain.audiences import DECISIONS
from tests.domain.test_audiences import declared_routes
from tests.gateway.world import approved, call, processed
from tests.support.cluster import TestDatabase
from tests.support.platform import Platform

READINGS = int(os.environ.get("CAIRN_ROLE_READINGS", "1000"))
DENIED = (psycopg.errors.InsufficientPrivilege, psycopg.errors.ReadOnlySqlTransaction)
NO_TARGET = (psycopg.errors.WrongObjectType, psycopg.errors.ObjectNotInPrerequisiteState)  # views that take no writes
RELATIONS = """
select n.nspname, c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname not in ('pg_catalog', 'information_schema', 'pg_toast') and c.relkind in ('r', 'v', 'm', 'p', 'f')
"""
CHANGES: tuple[LiteralString, ...] = (
    "insert into {} default values", "delete from {}", "truncate {}", "drop table {}",
)  # fmt: skip
# The views that show nobody's rows: who calls, and what may be submitted. Every other one shows its reader's only.
EVERYBODYS_VIEWS = {"identities", "platforms", "processes"}
# PostGIS and pgSTAC let everybody read their tables of definitions: nothing of a partner's is in them.
DEFINITIONS = {"public.spatial_ref_sys", "public.geometry_columns", "public.geography_columns", "public.raster_columns"}

# PostGIS has rules of its own that turn these into nothing.
SWALLOWED = {"insert into geometry_columns default values", "delete from geometry_columns"}


def gateway_session(database: TestDatabase) -> psycopg.Connection:
    """The role with its rails taken off: whoever runs code in the gateway takes them off first."""
    connection = psycopg.connect(database.url("cairn_gateway"), autocommit=True)
    connection.execute("set default_transaction_read_only = off")
    connection.execute("set statement_timeout = 0")
    return connection


def relations(database: TestDatabase) -> list[tuple[str, str]]:
    with psycopg.connect(database.url()) as connection:
        return [(row[0], row[1]) for row in connection.execute(RELATIONS).fetchall()]


def guarded(database: TestDatabase) -> list[str]:
    """Every view that the role may read and that shows partners' rows, whoever adds the next one."""
    with psycopg.connect(database.url()) as connection:
        found = connection.execute(
            "select relname from pg_class where relnamespace = 'api'::regnamespace"
            " and has_table_privilege('cairn_gateway', oid, 'select')"
        ).fetchall()
    views = {row[0] for row in found}
    assert views > EVERYBODYS_VIEWS
    return sorted(views - EVERYBODYS_VIEWS)


def is_done(connection: psycopg.Connection, statement: LiteralString, *table: str) -> bool:
    """Whether the statement is carried out and not denied."""
    try:
        connection.execute(sql.SQL(statement).format(sql.Identifier(*table)))
    except (*DENIED, *NO_TARGET):
        return False
    return True


def test_every_table_but_the_views_of_schema_api_is_closed(shared_database: TestDatabase) -> None:
    found = relations(shared_database)
    assert len(found) > 40
    readable, changed = set(), []
    with gateway_session(shared_database) as connection:
        for schema, name in found:
            changed += [one.format(name) for one in CHANGES if is_done(connection, one, schema, name)]
            if is_done(connection, "select * from {} limit 0", schema, name):
                readable.add(f"{schema}.{name}")
    assert set(changed) <= SWALLOWED
    views = {f"api.{name}" for name in [*guarded(shared_database), *EVERYBODYS_VIEWS]}
    assert views <= readable <= views | DEFINITIONS


@pytest.mark.parametrize(
    "statement",
    [
        "update api.platforms set display_name = 'ours'",
        "update api.requests set status = 'completed'",
        "copy api.requests to program 'true'",
        "copy api.platforms from stdin",
        "copy (select 1) to '/tmp/stolen'",
        "select pg_read_file('/etc/passwd')",
        "select pg_read_binary_file('/etc/passwd')",
        "select pg_ls_dir('/')",
        "select lo_import('/etc/passwd')",
        "create table api.mine (a int)",
        "create table public.mine (a int)",
        "create temporary table mine (a int)",
        "create schema mine",
        "create role mine",
        "create function api.mine() returns int language sql as 'select 1'",
        "alter view api.requests set (security_barrier = false)",
        "alter table app.requests disable row level security",
        "drop policy of_the_reader on app.requests",
        "set role cairn_views",
        "set role cairn_app",
        "set session authorization cairn_app",
        "alter role cairn_gateway bypassrls",
        "select * from app.clients",
        "select * from pgstac.items",
        "select * from geo.layers",
        "select usename, passwd from pg_shadow",
        "select nextval('app.events_event_id_seq')",
        "select lo_creat(-1)",
        "select lo_create(0)",
        "select lo_from_bytea(0, 'kept')",
        "select lo_put(1, 0, 'kept')",
        "select lowrite(0, 'kept')",
        "select lo_truncate(0, 0)",
        "select lo_truncate64(0, 0)",
        "select lo_unlink(1)",
        "select pg_try_advisory_lock(24225)",  # the sealer's
        "select pg_try_advisory_lock(1, 1)",
        "select pg_try_advisory_lock_shared(1)",
        "select pg_try_advisory_xact_lock(24225)",
        "select pg_try_advisory_xact_lock_shared(1)",
        "select pg_advisory_lock(1)",
        "select pg_advisory_lock_shared(1)",
        "select pg_advisory_xact_lock(hashtextextended('ddh key', 0))",
        "select pg_advisory_xact_lock_shared(1, 1)",
    ],
)
def test_every_writing_statement_is_refused(shared_database: TestDatabase, statement: LiteralString) -> None:
    with gateway_session(shared_database) as connection, pytest.raises((*DENIED, *NO_TARGET)):
        connection.execute(statement)


def test_gateway_role_is_bound_by_row_security(shared_database: TestDatabase) -> None:
    with psycopg.connect(shared_database.url()) as connection:
        flags = connection.execute(
            "select rolname, rolsuper, rolbypassrls from pg_roles where rolname in ('cairn_gateway', 'cairn_views')"
        ).fetchall()
        forced = connection.execute(
            "select relname from pg_class where relrowsecurity and relforcerowsecurity order by relname"
        ).fetchall()
        owners = connection.execute(
            "select distinct viewowner from pg_views where schemaname = 'api' and viewname = any(%s)",
            [guarded(shared_database)],
        ).fetchall()
    assert sorted(flags) == [("cairn_gateway", False, False), ("cairn_views", False, False)]
    assert forced == [("assets",), ("requests",)]
    assert owners == [("cairn_views",)]


def test_only_the_service_role_may_take_advisory_locks(shared_database: TestDatabase) -> None:
    with psycopg.connect(shared_database.url("cairn_app")) as connection:
        taken = connection.execute("select pg_try_advisory_xact_lock(%s)", [SEALING]).fetchone()
        connection.execute(sql.SQL(TAKE_KEY), ["ddh", "key"])
    assert taken == (True,)


async def two_tenants(platform: Platform) -> dict[str, set[str]]:
    """An asset of each of two platforms, by platform."""
    mine = await approved(platform)
    body = {"item_id": "1", "layer_index": 0, "version": "1", "source": "u/a.tif"}
    accepted = await call(platform, "arcgis-dev", "POST", "/api/platform/submit", json=body)
    assert accepted.status_code == 202, accepted.text
    [(other,)] = platform.domain.rows("select asset_id from app.assets where platform_id = 'arcgis'")
    return {"ddh": {mine.asset_id}, "arcgis": {other}, "geonode": set(), "": set(), "*": {mine.asset_id, other}}


async def test_pooled_connections_never_show_the_reader_before(platform: Platform) -> None:
    seen = await two_tenants(platform)
    readers = [random.Random(7).choice(list(seen)) for _ in range(READINGS)]  # noqa: S311 - a seeded mixture
    async with reading_pool(DatabaseAddress(platform.domain.database.url("cairn_gateway")), size=3) as pool:
        queries = Queries(pool)

        async def read(reader: str) -> bool:
            rows, _ = await queries.assets(reader, {}, None, None, "", 10)
            return {row.asset_id for row in rows} == seen[reader]

        right = 0
        for start in range(0, READINGS, 50):  # fifty at a time over three connections
            right += sum(await asyncio.gather(*map(read, readers[start : start + 50])))
    assert right == READINGS


OTHERS = 20_000


async def test_list_of_a_partners_assets_reads_only_its_own_rows(platform: Platform) -> None:
    own = "00000000000000000000000000000000"
    with psycopg.connect(platform.domain.database.url(), autocommit=True) as connection:
        add = "insert into app.assets (asset_id, platform_id, refs, data_type) values (%s, 'ddh', '{}', 'raster')"
        connection.execute(add, [own])
        connection.execute(add, ["f" * 32])
        connection.execute(
            "insert into app.assets (asset_id, platform_id, refs, data_type)"
            " select md5(n::text), 'arcgis', jsonb_build_object('item_id', n), 'raster' from generate_series(1, %s) n",
            [OTHERS],
        )
        connection.execute("analyze app.assets")
    values = {"clearance": None, "data_type": None, "after": "", "limit": 100, "reader": "ddh", "look": paging.LOOK}
    async with reading_pool(DatabaseAddress(platform.domain.database.url("cairn_gateway")), size=1) as pool:
        queries = Queries(pool)
        assert [row.asset_id for row in (await queries.assets("ddh", {}, None, None, "", 10))[0]] == [own, "f" * 32]
        for refs, found in ({}, 2), ({"item_id": 7}, 0):  # the second is only another's
            explained = "explain (analyze, format json) " + assets_query("ddh")
            [row] = await queries.rows("ddh", dict, explained, values | {"refs": Jsonb(refs)})
            scans = [node for node in nodes(row["QUERY PLAN"][0]["Plan"]) if node.get("Relation Name") == "assets"]
            [look] = [scan for scan in scans if scan.get("Index Name") == "ix_assets_of_platform"]
            assert (look["Node Type"], look["Actual Rows"]) == ("Index Scan", 2)
            assert [scan["Actual Rows"] * scan["Actual Loops"] for scan in scans if scan is not look] == [found]


def nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    """A plan's steps, those within others as well."""
    return [plan, *(inner for part in plan.get("Plans", []) for inner in nodes(part))]


async def test_every_view_shows_each_reader_only_its_own_rows(platform: Platform) -> None:
    await two_tenants(platform)
    views = guarded(platform.domain.database)
    async with reading_pool(DatabaseAddress(platform.domain.database.url("cairn_gateway")), size=1) as pool:
        queries = Queries(pool)

        async def count(view: str, reader: str) -> int:
            [row] = await queries.rows(reader, dict, f"select count(*) as rows from api.{view}", {})  # noqa: S608
            return int(row["rows"])

        for view in views:
            counts = {reader: await count(view, reader) for reader in ("", "geonode", "ddh", "arcgis", "*")}
            assert (counts[""], counts["geonode"]) == (0, 0), view
            assert counts["ddh"] + counts["arcgis"] == counts["*"], view
            assert counts["ddh"] > 0, view
            assert counts["arcgis"] > 0 or view == "flow_runs", view  # nothing works for it yet
        async with pool.connection() as connection:  # a reading that names no reader at all
            for view in views:
                query = sql.SQL("select count(*) from {}").format(sql.Identifier("api", view))
                assert await (await connection.execute(query)).fetchone() == (0,), view


# What it may do in its own name: submit, and cancel for a client.
OWN_ACTS = {("POST", "/api/v1/submit"), ("POST", "/api/v1/requests/{request_id}/cancel")}
GOOD: dict[str, dict[str, Any]] = {
    "approve": {"revision": 1, "clearance_level": "public"},
    "reject": {"revision": 1, "reason": "because"},
    "unpublish": {"revision": 1, "reason": "because"},
    "withdraw": {"revision": 1, "reason": "because"},
    "clearance": {"clearance_level": "public", "reason": "because"},
    "exposure": {"exposure": "all_versions"},
    "metadata": {"title": "Ours"},
}


async def test_gateways_identity_alone_cannot_decide(platform: Platform, tmp_path: Path) -> None:
    """With the gateway's own token every act of the domain answers 403, but those that are its own."""
    known = await processed(platform)
    routes = declared_routes(platform.domain.database, tmp_path)
    acts = {(method, path) for method, path in routes if method != "GET"} - OWN_ACTS
    assert acts >= DECISIONS
    assert {path.rpartition("/")[2] for _, path in acts} >= set(GOOD)
    values = {"asset_id": known.asset_id, "ordinal": "0", "request_id": str(known.request_id)}
    async with platform.domain.as_("gateway") as gateway:
        for method, path in sorted(acts):
            filled = re.sub(r"\{(\w+)\}", lambda found: values.get(found[1], str(uuid4())), path)
            body = GOOD.get(path.rpartition("/")[2], {})
            answer = await gateway.request(
                method, filled, json=body, params={"reason": "because"}, headers={"If-Match": "*"}
            )
            assert (answer.status_code, answer.json()["code"]) == (403, "forbidden"), (method, path)
        cancelled = await gateway.post(
            f"/api/v1/requests/{known.request_id}/cancel", json={"reason": "for it", "client_id": "ddh-dev"}
        )
    assert cancelled.json()["code"] == "already-finished"  # it was let in, and judged
    assert platform.domain.rows("select approval from app.revisions") == [("pending_review",)]
