"""How fast thousands of items reach the catalogue, beside pypgstac's own loading of the same items.

A private PostgreSQL with everything durable. Ours is what an approval does: it reads the staged file, gives each item
public addresses, and registers all of them in one transaction, as the domain's own role. pypgstac is given the finished
items as a file and the database's administrator, with both of its ways of writing. CAIRN_BENCH_SHORT=1 takes fewer.
"""

import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from statistics import median
from typing import Any
from uuid import UUID, uuid4

import psycopg
from psycopg.types.json import Jsonb
from sqlalchemy.ext.asyncio import AsyncSession

from benchmarks._flow_runs import figure
from benchmarks._load import this_machine
from benchmarks._servers import Postgres, postgres
from domain.contracts.artifacts import Artifact
from domain.db import Database
from domain.models import Asset, Request, Run
from domain.repositories.runs import Runs
from domain.rules.publication import Holdings, collection, public_item
from domain.services.publication.catalogue import ServedCatalogue
from domain.services.publication.deciding import FilesRead, decided
from domain.services.publication.file_checks import FileChecks
from domain.shared.database_address import DatabaseAddress
from flows.handlers.context import Context
from flows.handlers.raster.tile_declarations import TILE_DONE, TileResult
from flows.handlers.stac.declarations import RegisterItemsParams
from flows.handlers.stac.staging import register_items
from flows.storage import Zones

ITEMS, SHORT_ITEMS = 10_000, 1_000
ROUNDS, SHORT_ROUNDS = 3, 1
AT_LEAST = 0.9
PUBLIC_URL = "https://bench.test"


@dataclass
class Bench:
    """One database, one folder of zones, and an asset for each round."""

    cluster: Postgres
    zones: Zones
    folder: Path
    items: int
    spent: dict[str, list[float]] = field(default_factory=dict)

    def note(self, name: str, began: float) -> None:
        self.spent.setdefault(name, []).append(time.perf_counter() - began)

    def median(self, name: str) -> float:
        return median(self.spent[name])


def run(items: int | None = None, rounds: int | None = None) -> dict[str, Any]:
    """Measure, and report in the shape of all benchmarks."""
    short = bool(os.environ.get("CAIRN_BENCH_SHORT"))
    items, rounds = items or (SHORT_ITEMS if short else ITEMS), rounds or (SHORT_ROUNDS if short else ROUNDS)
    with postgres() as cluster, tempfile.TemporaryDirectory(prefix="cairn-bench-stac-") as folder:
        bench = Bench(cluster, Zones.local(Path(folder)), Path(folder), items)
        for number in range(rounds + 1):  # the first round warms both sides up
            asyncio.run(_round(bench, f"bench{number}"))
            if number == 0:
                bench.spent.clear()
    results = [*_results(bench, rounds)]
    return {"bench": "stac", "machine": this_machine(), "versions": _versions(), "results": results}


async def _round(bench: Bench, asset_id: str) -> None:
    """Each side registers the same items, once."""
    database = Database(DatabaseAddress(bench.cluster.url("cairn_app")))
    try:
        began = time.perf_counter()
        staged = await asyncio.to_thread(_stage, bench, asset_id)
        bench.note("stage", began)
        request_id, run_id = _add_run(bench, asset_id)
        await _commit(bench, database, request_id, run_id, staged)
        await _approve(bench, database, asset_id)
    finally:
        await database.close()
    for method in ("insert", "upsert"):
        await asyncio.to_thread(_load, bench, f"{asset_id}{method}", staged, method)


def _stage(bench: Bench, asset_id: str) -> Artifact:
    """What the run's last node does: it writes an item for each of its tiles."""
    facts: dict[str, object] = {"asset_id": asset_id, "version_ordinal": 0, "revision": 1}
    facts |= {"version_label": "1", "request_id": "bench"}
    context = Context(
        run_id="bench",
        node_id="register",
        storage=bench.zones,
        workdir=bench.folder,
        output_prefix=f"assets/{asset_id}/0-r1/a1",
        facts=facts,
    )
    tiles = list(_tiles(bench.items, context.output_prefix))
    params = RegisterItemsParams(collection_id=asset_id, tiles=tiles, source="up/dem.tif", source_sha256="0" * 64)
    [artifact] = register_items(params, context).artifacts
    return artifact


def _tiles(count: int, home: str) -> Iterator[TileResult]:
    [file] = TILE_DONE.artifacts
    for number in range(count):
        column, row = number % 100, number // 100
        west, south = -180 + column * 3.6, -90 + row * 1.8 * 100 / max(100, count // 100)
        made = file.model_copy(update={"name": f"{home}/tiles/{column}_{row}.tif"})
        changes = {"id": f"{column}_{row}", "bounds_wgs84": (west, south, west + 3.6, south + 1.8), "artifacts": [made]}
        yield TILE_DONE.model_copy(update=changes)


def _add_run(bench: Bench, asset_id: str) -> tuple[UUID, UUID]:
    """What there is in the domain when a run of the asset's first version commits."""
    request_id, run_id = uuid4(), uuid4()
    with psycopg.connect(bench.cluster.url()) as connection:
        connection.execute(
            "insert into app.assets (asset_id, platform_id, refs, data_type) values (%s, 'ddh', %s, 'raster')",
            [asset_id, Jsonb({"dataset_id": "bench", "resource_id": asset_id})],
        )
        connection.execute(
            "insert into app.asset_versions (asset_id, ordinal, label, newest_revision, served_revision)"
            " values (%s, 0, '1', 1, 1)",
            [asset_id],
        )
        _add_request(connection, asset_id, request_id, run_id)
    return request_id, run_id


def _add_request(connection: psycopg.Connection, asset_id: str, request_id: UUID, run_id: UUID) -> None:
    connection.execute(
        "insert into app.revisions (asset_id, ordinal, revision, request_id, fingerprint) values (%s, 0, 1, %s, '')",
        [asset_id, request_id],
    )
    connection.execute(
        "insert into app.workflow_definitions (workflow_id, version, digest, source, plan)"
        " values ('bench', '1', '', '', '{}') on conflict do nothing"
    )
    connection.execute(
        "insert into app.clients (client_id, role, platform_id, display_name, secret_hash)"
        " values ('bench', 'partner', 'ddh', 'bench', 'bench') on conflict do nothing"
    )
    connection.execute(
        "insert into app.requests (request_id, platform_id, client_id, asset_id, ordinal, revision, data_type,"
        " operation, submitted, fingerprint, priority) values (%s, 'ddh', 'bench', %s, 0, 1, 'raster',"
        " 'ingest_tiled', '{}', '', 'normal')",
        [request_id, asset_id],
    )
    connection.execute(
        "insert into app.runs (run_id, request_id, sequence, workflow_id, version, digest, priority, inputs)"
        " values (%s, %s, 0, 'bench', '1', '', 'normal', '{}')",
        [run_id, request_id],
    )


async def _commit(bench: Bench, database: Database, request_id: UUID, run_id: UUID, staged: Artifact) -> None:
    """The part of a commit that grows with the tiles: it records their files, and the one that holds their items."""
    tile = TILE_DONE.artifacts[0]
    files = [tile.model_copy(update={"role": "tile", "name": f"tiles/{number}.tif"}) for number in range(bench.items)]
    began = time.perf_counter()
    async with database.transaction() as session:
        made, request = await session.get_one(Run, run_id), await session.get_one(Request, request_id)
        await Runs(session).put_artifacts(made, request, [*files, staged])
    bench.note("commit", began)


async def _approve(bench: Bench, database: Database, asset_id: str) -> None:
    began, checks = time.perf_counter(), FileChecks(bench.zones.of_service("silver"), wait_seconds=60)

    async def act(session: AsyncSession, files: FilesRead) -> None:
        catalogue, asset = ServedCatalogue(session, files, PUBLIC_URL), await session.get_one(Asset, asset_id)
        await catalogue.put(asset, 0, 1)
        await catalogue.describe(asset)

    await decided(database, checks, act)
    bench.note("approve", began)
    checks.close()
    _expect(bench, asset_id)


def _load(bench: Bench, asset_id: str, staged: Artifact, method: str) -> None:
    """Load the same items by pypgstac."""
    from pypgstac.db import PgstacDB
    from pypgstac.load import Loader, Methods

    file = bench.folder / f"{asset_id}.ndjson"
    lines = (json.loads(line) for line in bench.zones.silver.read_bytes(staged.name).splitlines())
    items = (public_item(item | {"collection": asset_id}, PUBLIC_URL, "", 0) for item in lines)
    file.write_text("\n".join(map(json.dumps, items)))
    with psycopg.connect(bench.cluster.url()) as connection:
        described = collection(asset_id, {}, "Bench", Holdings())
        connection.execute("select pgstac.create_collection(%s)", [Jsonb(described)])
    began = time.perf_counter()
    with PgstacDB(dsn=bench.cluster.url()) as database:
        Loader(database).load_items(str(file), Methods(method))
    bench.note(method, began)
    _expect(bench, asset_id)


def _expect(bench: Bench, asset_id: str) -> None:
    """Stop where a side did not register everything."""
    with psycopg.connect(bench.cluster.url()) as connection:
        row = connection.execute("select count(*) from pgstac.items where collection = %s", [asset_id]).fetchone()
    if row != (bench.items,):
        raise RuntimeError(f"Of {bench.items} items {row} were registered.")


def _results(bench: Bench, rounds: int) -> Iterator[dict[str, Any]]:
    per_second: Callable[[str], float] = lambda name: bench.items / bench.median(name)  # noqa: E731
    own = per_second("approve")
    for method in ("insert", "upsert"):
        baseline = per_second(method)
        note = f"{bench.items} items in an approval's transaction; baseline: pypgstac load, method {method}"
        yield figure(
            f"registered_beside_{method}", own, "1/s", baseline=baseline, ratio=own / baseline, n=rounds, note=note,
            at_least=AT_LEAST,
        )  # fmt: skip
    notes = {
        "stage": f"a run writes {bench.items} items",
        "commit": f"the domain records {bench.items} files and the items' one",
        "approve": "from the staged file to visible items",
    }
    for name, note in notes.items():
        yield figure(f"{name}_seconds", bench.median(name), "s", baseline=None, ratio=None, n=rounds, note=note)


def _versions() -> dict[str, str]:
    return {"python": python_version(), **{name: version(name) for name in ("pypgstac", "psycopg", "sqlalchemy")}}


if __name__ == "__main__":
    json.dump(run(), sys.stdout, indent=2)
    sys.stdout.write("\n")
