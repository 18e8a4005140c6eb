"""Bootstrap: what the database is, brought up to date, and in development made anew."""

from pathlib import Path

import psycopg

from domain.migrations import downgrade
from domain.models import Base
from domain.repositories.schema import ddl
from tests.support.cluster import TestCluster, TestDatabase
from tests.support.lives import submitted
from tests.support.platform import Domain, running_domain


async def test_bootstrap_status_describes_the_database(domain: Domain) -> None:
    async with domain.as_("operator") as operator:
        status = (await operator.get("/api/v1/bootstrap/status")).json()
        tables = {row["name"] for row in (await operator.get("/api/v1/bootstrap/tables")).json()}
        ddl = (await operator.get("/api/v1/bootstrap/ddl")).text
        deployed = (await operator.post("/api/v1/bootstrap/deploy")).json()
    assert status["is_current"] is True
    assert status["pgstac"]
    assert {"requests", "runs", "callbacks"} <= tables
    assert "raster_ingest" in deployed["details"]
    assert domain.rows("select actor from app.audit where action = 'workflows.publish'") == [("operator",)]
    assert all(f"CREATE TABLE app.{name} (" in ddl for name in tables - {"alembic_version"})


def test_the_printed_statements_make_the_tables(cluster: TestCluster) -> None:
    with cluster.database("template0") as empty, psycopg.connect(empty.url()) as connection:
        connection.execute("create schema app")
        connection.execute(ddl().encode())
        [(count,)] = connection.execute("select count(*) from information_schema.tables where table_schema = 'app'")
        assert count == len(Base.metadata.tables)


async def test_rebuild_outside_development_is_refused(domain: Domain) -> None:
    await submitted(domain)
    async with domain.as_("admin") as admin:
        refused = await admin.post("/api/v1/bootstrap/rebuild")
        no_admin = await admin.post("/api/v1/bootstrap/migrate")
    assert (refused.status_code, refused.json()["code"]) == (403, "development-only")
    assert (no_admin.status_code, no_admin.json()["code"]) == (409, "not-configured")
    assert domain.rows("select count(*) from app.requests") == [(1,)]


async def test_a_rebuild_leaves_platforms_and_credentials_only(database: TestDatabase, tmp_path: Path) -> None:
    async with running_domain(database, tmp_path, development=True, admin_url=database.url()) as domain:
        await submitted(domain)
        async with domain.as_("admin") as admin:
            assert (await admin.post("/api/v1/bootstrap/migrate")).json()["changed"] is False
            rebuilt = await admin.post("/api/v1/bootstrap/rebuild")
            assert rebuilt.status_code == 200, rebuilt.text
            status = (await admin.get("/api/v1/bootstrap/status")).json()
        assert status["is_current"] is True
        acts = "select action from app.audit order by audit_id"
        assert domain.rows(acts) == [("schema.rebuild",), ("workflows.publish",)]
        assert domain.rows("select count(*) from app.requests") == [(0,)]
        await submitted(domain)  # workflows are known again


async def test_a_schema_that_fell_behind_is_migrated_by_a_running_service(
    database: TestDatabase, tmp_path: Path
) -> None:
    async with running_domain(database, tmp_path, admin_url=database.url()) as domain:
        downgrade(database.url(), "-1")
        async with domain.as_("admin") as admin:
            status = (await admin.get("/api/v1/bootstrap/status")).json()
            assert status["is_current"] is False
            done = await admin.post("/api/v1/bootstrap/migrate")
            assert done.json()["changed"] is True, done.text
            assert (await admin.get("/api/v1/bootstrap/status")).json()["is_current"] is True
