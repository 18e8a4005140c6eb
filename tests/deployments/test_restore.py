"""A dump of the domain's database, restored: the same schema, rows and rights, and the audit's chain holds."""

import re
import subprocess
from pathlib import Path

import psycopg

from deployments.doctor import database as doctor
from deployments.stack.postgres import find_binaries
from domain.repositories.gauges import OPEN
from tests.support.acts import submit
from tests.support.cluster import TestCluster, TestDatabase
from tests.support.platform import another_domain, running_domain

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = REPOSITORY / "docs/how-to/back-up-and-retain.md"
COUNTS = " union all ".join(f"select count(*) from app.{table}" for table in ("requests", "audit", "clients"))  # noqa: S608
# The page's own words, which say why it takes more than pg_restore.
[RESTORE] = re.findall(r"^pg_restore --file=- .*$", PAGE.read_text(), re.MULTILINE)


def shell(command: str, **variables: str) -> None:
    environment = {"PATH": f"{find_binaries()}:/usr/bin:/bin", **variables}
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def counts(database: TestDatabase) -> list[int]:
    with psycopg.connect(database.url()) as connection:
        return [number for (number,) in connection.execute(COUNTS)]


async def test_a_dump_restores_to_a_platform_that_works(
    cluster: TestCluster, database: TestDatabase, tmp_path: Path
) -> None:
    async with running_domain(database, tmp_path) as domain:
        assert (await submit(domain)).status_code == 202
        async with domain.as_("operator") as operator:
            assert (await operator.post("/api/v1/pause", json={"reason": "backup"})).is_success
    dump = tmp_path / "cairn.dump"
    shell(f"pg_dump --format=custom --file={dump} {database.url()}")
    with cluster.database("template0") as restored:
        command = RESTORE.replace("cairn.dump", str(dump)).replace('"$ADMIN_URL/cairn"', f'"{restored.url()}"')
        assert restored.url() in command
        shell(command)
        assert {one.check: one.verdict for one in doctor.examine(restored.url(), ())}["schema"] == "ok"
        assert counts(restored) == counts(database)
        assert counts(restored)[0] == 1
        with psycopg.connect(restored.url(), autocommit=True) as connection:
            rights = "grant connect on database {} to cairn_app"
            connection.execute(psycopg.sql.SQL(rights).format(psycopg.sql.Identifier(restored.name)))
        async with another_domain(restored, tmp_path) as again:
            answer = await submit(again, refs={"dataset_id": "after", "resource_id": "restore"})
            assert answer.status_code == 202, answer.text
            async with again.as_("operator") as operator:
                assert (await operator.get("/api/v1/audit/verify")).json()["holds"] is True
            assert again.rows(str(OPEN)) == [("pending", 2.0)]
