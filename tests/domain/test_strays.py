"""Files and tables of nobody: what tests compare finds each kind of them, and so does the look that operators order."""

import json
import os
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg

from flows.handlers.vector.load import table_name
from flows.storage import ZONES, LocalStore
from tests.support.acts import call
from tests.support.ended import alone, committed, leases_end, swept, working
from tests.support.platform import Domain


async def test_comparison_finds_files_and_tables_without_a_row(domain: Domain, tmp_path: Path) -> None:
    """The control of all of these: files and tables of nobody, a file that is gone, one that is cut."""
    worker = await working(domain, tmp_path)
    product = worker.plants()
    await committed(worker, product)
    await swept(domain)
    zones = domain.service.zones
    assert isinstance(zones.silver, LocalStore)
    planted = {
        "silver": ["assets/" + "f" * 32 + "/0-r1/a1/x.tif", "elsewhere/x.tif", f"{worker.prefix}/more.tif"],
        "bronze": [f"quarantine/runs/{uuid4()}/a1/x.tif", "uploads/ddh/.partial-x"],
        "runs": [f"{uuid4()}/m1/values/v.json", f"{worker.flow.run_id}/m2/x.json", "withdrawn/a/0-r1/x"],
        "external": ["a/0-r1/x/cog.tif"],
    }
    for zone, names in planted.items():
        for name in names:
            path = getattr(zones, zone).root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"x")
    with psycopg.connect(domain.database.url()) as connection:
        connection.execute("create table geo.v_stray (a int)")
    found = alone(domain)
    assert {each.split(": ")[0] for each in found} == {
        *(f"{zone}/{name}" for zone, names in planted.items() for name in names),
        "geo.v_stray",
    }
    (zones.silver.root / product.product).write_bytes(b"cut")
    with psycopg.connect(domain.database.url()) as connection:
        connection.execute(f"drop table geo.v_stray, geo.{table_name(product.product)}".encode())
    told = alone(domain)[len(found) - 1 :]
    assert [each.split(" ")[0] for each in told] == ["artifact", "geo.layers"]


async def looked(domain: Domain, how: tuple[str, str]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The strays that operators are told of, and the end of the look."""
    answer = await call(domain, "operator", *how)
    assert answer.status_code == 200
    lines = [json.loads(line) for line in answer.text.splitlines()]
    return lines[:-1], lines[-1]


LOOK, REMOVE = ("GET", "/leftovers/files"), ("POST", "/leftovers/files/remove")


async def test_look_through_all_zones_finds_strays(domain: Domain, tmp_path: Path) -> None:
    """Files of requests that no row remembers, and what came too late: of a request that had been collected."""
    worker = await working(domain, tmp_path)
    product = worker.plants()
    await committed(worker, product)
    other = await working(domain, tmp_path, refs={"dataset_id": "d", "resource_id": "other"})
    other.plants()
    assert (await looked(domain, LOOK))[0] == [], "what rows tell of is the collector's"
    await other.flow.fail()
    await swept(domain)
    zones = domain.service.zones
    files = len([one for zone in ZONES for one in getattr(zones, zone).listed()])
    assert await looked(domain, LOOK) == ([], {"files": files, "strays": 0, "stray_bytes": 0, "removed": 0})
    domain.rows("update app.requests set finished_at = now() - interval '9 days' returning 1")
    domain.rows("update app.attempts set finished_at = now() - interval '9 days' returning 1")
    domain.rows("update app.runs set finished_at = now() - interval '9 days' returning 1")
    lost = uuid4()
    planted = {
        "silver": [f"assets/{'f' * 32}/0-r1/a1/x.tif", f"{other.prefix}/late.tif", "elsewhere/x.tif"],
        "bronze": [f"quarantine/runs/{lost}/a1/x.tif"],
        "runs": [f"{lost}/m1/values/v.json", f"{worker.flow.run_id}/a1/segment-1/late.json"],
        "external": [f"{'f' * 32}/0-r1/{'e' * 32}/cog.tif"],
    }
    for zone, names in planted.items():
        for name in names:
            getattr(zones, zone).write_bytes(name, b"x")
    expected = {(zone, name) for zone, names in planted.items() for name in names}
    found, end = await looked(domain, LOOK)
    assert {(one["zone"], one["name"]) for one in found} == expected
    assert (end["strays"], end["removed"]) == (7, 0)
    found, end = await looked(domain, REMOVE)
    assert (len(found), end["removed"]) == (7, 6)
    assert {each.split(": ")[0] for each in alone(domain)} == {
        f"silver/{other.prefix}/late.tif",
        f"runs/{worker.flow.run_id}/a1/segment-1/late.json",
        "silver/elsewhere/x.tif",
    }, "two of these the collector takes, and of the third people know whose it is"
    zones.silver.delete("elsewhere/x.tif")
    leases_end(domain)
    await swept(domain)
    assert alone(domain) == []
    assert zones.silver.size_bytes(product.product) is not None
    assert domain.rows("select action from app.audit where action = 'strays.remove'") == [("strays.remove",)]


async def test_unfinished_upload_is_a_stray_after_a_day(domain: Domain) -> None:
    bronze = domain.service.zones.bronze
    assert isinstance(bronze, LocalStore)
    half = bronze.root / "uploads/ddh/.partial-x"
    half.parent.mkdir(parents=True)
    half.write_bytes(b"half")
    assert (await looked(domain, LOOK))[0] == []
    os.utime(half, (time.time() - 90_000,) * 2)
    assert [one["name"] for one in (await looked(domain, REMOVE))[0]] == ["uploads/ddh/.partial-x"]
    assert not half.exists()


async def test_operators_see_how_much_is_kept_and_how_much_is_due(domain: Domain, tmp_path: Path) -> None:
    worker = await working(domain, tmp_path)
    await worker.flow.fail()
    told = (await call(domain, "operator", "GET", "/leftovers")).json()
    assert (told["kept_after_success_seconds"], told["kept_after_failure_seconds"]) == (3600, 604_800)
    [failed] = told["ended"]
    assert (failed["status"], failed["requests"], failed["due"]) == ("failed", 1, 0)
    domain.rows("update app.requests set finished_at = now() - interval '8 days' returning 1")
    assert (await call(domain, "operator", "GET", "/leftovers")).json()["ended"][0]["due"] == 1
