"""Ten times as much that is past costs no more: judged by the rows and blocks that each statement touches, by no clock.

Both databases are small, so that tables are read by index wherever there is one: what has none is found here. What the
planner makes of millions is the long form's to show (`cairn bench growth`).
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import psycopg
import pytest
from fastapi import FastAPI

from benchmarks._growth_acts import all_acts
from benchmarks._platform import publish, running
from benchmarks._touched import Touched, by_statement, plans_of
from benchmarks._years import fill
from benchmarks.growth import Plans, grown, plans
from domain.rules import paging
from domain.services.operations import audit
from tests.support.cluster import TestCluster, TestDatabase

FEW, MANY = 800, 8_000
LOOK = 20
# What is no reading of the database, or is asked for rarely and reads all there is by its nature.
EXEMPT = {
    "/api/v1/audit/verify": "follows the chain from its first seal to its last, when somebody asks",
    "/api/v1/assets/{asset_id}/metadata": "of one asset, by its key",
    "/api/v1/leftovers": "counts what waits to be collected, when somebody asks",
    "/api/v1/leftovers/files": "goes through all there is, when somebody asks",
    "/api/v1/bootstrap/status": "the database about itself",
    "/api/v1/bootstrap/tables": "the database about itself",
    "/api/v1/bootstrap/ddl": "no reading",
    "/api/v1/bootstrap/definitions": "of workflows",
    "/api/v1/pools/{pool}/sent": "no reading",
    "/api/v1/settings": "no reading",
    "/api/v1/workflows": "of workflows",
    "/api/v1/workflows/{workflow_id}": "of workflows",
    "/api/v1/platforms/{platform_id}": "of platforms",
    "/livez": "no reading",
    "/sign-in": "no reading",
    "/sign-in/provider": "no reading",
    "/signed-in": "no reading",
    "/versions/{asset_id}/{ordinal}/footprint/{revision}": "a file",
    "/live/{page}": "its marks are acts",
    "/live/{page}/{asset_id}": "its marks are acts",
    "/live/{page}/{asset_id}/{ordinal}": "its marks are acts",
    "/api/livez": "no reading",
    "/api/gateway/health": "no reading",
    "/ogc": "no reading",
    "/ogc/conformance": "no reading",
    "/ogc/processes/{process_id}": "of workflows",
    "/ogc/jobs/{job_id}/results": "reads as the job does",
    "/api/admin/health": "asks others",
    "/api/admin/config": "no reading",
    "/api/proxy/health": "asks others",
    "/api/proxy/{target}/{path}": "asks others",
}


async def touched(database: TestDatabase, count: int, folder: Path) -> Plans:
    await publish(database.url, folder)
    fill(database.url(), count)
    with psycopg.connect(database.url(), autocommit=True) as connection:
        connection.execute(f"alter database {database.name} set enable_seqscan = off".encode())
    return await plans(database.url, database.cluster.server.log, folder)


@pytest.fixture
def short_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """What looks at so much and no more does so on both."""
    monkeypatch.setattr(paging, "LOOK", LOOK)
    monkeypatch.setattr(audit, "STRETCH", LOOK)


@pytest.mark.usefixtures("short_looks")
async def test_repeated_queries_read_no_more_with_ten_times_the_history(cluster: TestCluster, tmp_path: Path) -> None:
    with cluster.database() as few, cluster.database() as many:
        before, after = await touched(few, FEW, tmp_path), await touched(many, MANY, tmp_path)
    assert all(after.values()), "of every act something was noted"
    assert grown(before, after) == []


async def test_every_reading_route_is_among_the_measured_acts(shared_database: TestDatabase, tmp_path: Path) -> None:
    """Whoever adds a list adds it there, or says here why it cannot grow."""
    asked = [act.path.partition("?")[0] for act in all_acts() if act.path]
    async with running(shared_database.url, tmp_path) as platform:
        domain, gateway = platform.apps["domain"], platform.apps["gateway"]
        known = [*reads(domain), *reads(gateway)]
        known += [f"/console{path}" for path in reads(domain.state.console)]
    missing = [path for path in known if path.removeprefix("/console") not in EXEMPT and not any(matches(path, asked))]
    assert missing == []
    assert EXEMPT.keys() <= {path.removeprefix("/console") for path in known}


def reads(app: FastAPI) -> list[str]:
    return [path for path, methods in app.openapi()["paths"].items() if "get" in methods]


def matches(path: str, asked: Iterable[str]) -> Iterator[bool]:
    form = re.compile(re.sub(r"{[^}]+}", "[^/]+", path))
    return (form.fullmatch(one) is not None for one in asked)


def test_query_that_scans_a_growing_table_is_reported_with_its_plan(tmp_path: Path) -> None:
    """The judge itself: a scan that grows is told with its statement, a tree that is a level deeper is not."""
    few = {"list": [Touched("select a", 100, 10, ("Seq Scan a: 100",)), Touched("select b", 50, 150, ())]}
    many = {"list": [Touched("select a", 1000, 90, ("Seq Scan a: 1000",)), Touched("select b", 50, 200, ())]}
    assert grown(few, {"list": [few["list"][0], many["list"][1]]}) == []
    [said, where] = grown(few, many)
    assert said == "list: 150 rows in 160 blocks became 1050 in 290"
    assert "Seq Scan a: 1000" in where
    log = tmp_path / "log"
    log.write_text(LOGGED)
    [told] = by_statement(plans_of(log.read_text().splitlines()))
    assert (told.rows, told.blocks) == (2 * 3 * (5 + 7), 9 + 9), "a row that a filter removes was read too"


LOGGED = (
    """2026-01-01 00:00:00.000 UTC [1] LOG:  duration: 0.1 ms  plan:
\t{
\t  "Query Text": "select  1",
\t  "Plan": {"Node Type": "Limit", "Actual Rows": 5, "Actual Loops": 1, "Shared Hit Blocks": 9, "Plans": [
\t    {"Node Type": "Seq Scan", "Relation Name": "a", "Actual Rows": 5, "Rows Removed by Filter": 7,
\t     "Actual Loops": 3, "Shared Hit Blocks": 9}]}
\t}
"""
    * 2
    + "2026-01-01 00:00:00.000 UTC [1] LOG:  duration: 0.1 ms  plan:\n\t{\n"
)
