"""What the collector may do in the database, and how much of it a look reads."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from domain.repositories.leftovers import DUE
from flows.handlers.vector.load import table_name
from tests.support.ended import committed, working
from tests.support.platform import Domain

TABLES = "select count(*) from pg_tables where schemaname = 'geo' and starts_with(tablename, 'v_')"


async def test_domain_may_drop_no_table_but_those_of_requests_that_it_has_given_up(
    domain: Domain, tmp_path: Path
) -> None:
    """Whoever takes its role over can have dropped what nobody is served, and nothing else in the schema."""
    worker = await working(domain, tmp_path)
    await committed(worker, worker.plants())
    drop = "select count(*) from geo.drop_collected(array[%s]::uuid[])"
    with psycopg.connect(domain.database.url("cairn_app"), autocommit=True) as app:
        assert app.execute(drop, [worker.flow.run_id]).fetchone() == (0,), "it is not marked"
        app.execute("update app.requests set collecting_at = now()")
        assert app.execute(drop, [worker.flow.run_id]).fetchone() == (0,), "it is a committed product"
        for statement in (
            f"drop table geo.{table_name(worker.product)}",
            "delete from geo.layers",
            "select geo.collectable(array[]::uuid[])",
            "create table geo.mine (a int)",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                app.execute(statement.encode())
    for role in ("cairn_gateway", "cairn_serving"):
        with (
            psycopg.connect(domain.database.url(role)) as other,
            pytest.raises(psycopg.errors.InsufficientPrivilege),
        ):
            other.execute(drop, [worker.flow.run_id])
    assert domain.rows(TABLES) == [(1,)]


async def test_look_for_what_is_due_passes_by_what_was_collected(domain: Domain) -> None:
    """By an index in which no history is: of 20,000 requests that ended and were collected it reads none."""
    made = """
        insert into app.requests (request_id, is_internal, operation, submitted, fingerprint, priority, status,
            finished_at, collected_at)
        select gen_random_uuid(), true, 'run', '{}', 'f', 'normal', 'completed', now() - interval '1 minute' * n,
               case when n > 5 then now() end
        from generate_series(1, 20000) n
    """
    values = {"status": "'completed'", "after": "0", "lease": "300", "limit": "100"}
    query = re.sub(r"(?<!:):(\w+)", lambda name: values[name[1]], str(DUE))
    with psycopg.connect(domain.database.url(), autocommit=True) as connection:
        connection.execute(made)
        connection.execute("vacuum analyze app.requests")
        [(plan,)] = connection.execute(f"explain (analyze, format json) {query}".encode()).fetchall()
    scans = list(_scans(plan[0]["Plan"]))
    [requests] = [scan for scan in scans if scan["Relation Name"] == "requests"]
    assert requests["Index Name"] == "ix_requests_to_collect"
    assert requests["Actual Rows"] + requests.get("Rows Removed by Filter", 0) == 5


def _scans(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if "Relation Name" in node:
        yield node
    for inner in node.get("Plans", ()):
        yield from _scans(inner)
