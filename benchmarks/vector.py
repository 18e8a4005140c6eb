"""How long a million polygons take from a file to an indexed table, against ogr2ogr with COPY on the same file.

Ours are the workflow's own handlers in their order, each try as the engine makes it: validation and conversion in
forks of the gdal pool's warm process, chunks loaded four at a time by a role that can do nothing else. Both sides end
with a table that has its spatial index and its primary index, on the same durable server; the rounds take turns.
"""

import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median
from threading import Event
from typing import Any, Final
from uuid import uuid4

import psycopg

from benchmarks._flow_runs import figure
from benchmarks._servers import Postgres, postgres
from deployments.stack.owner import tied
from deployments.stack.state import REPOSITORY
from domain.contracts.runs import RunFacts
from flows.storage import Zones
from flows.tries import fork_client, one_try
from flows.tries.one_try import Care, Try

FEATURES: Final = 1_000_000
SHORT_FEATURES: Final = 20_000
ROUNDS: Final = 3
AT_ONCE: Final = 4
CORNERS: Final = 8
TIMEOUT_SECONDS: Final = 1800.0
WARM_SECONDS: Final = 60.0
SOURCE: Final = "bench/parcels.gpkg"
# By number and by place; of ours also by the order in which crowded tiles take features, which serving needs.
INDEXES: Final = {"public": 2, "geo": 3}
_WRITE: Final = """
import sys
import numpy as np, pyarrow as pa, shapely
from flows.handlers.vector.drivers import pyogrio
count, corners, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
random = np.random.default_rng(7)
west, south = random.uniform(-170, 170, count), random.uniform(-80, 80, count)
radius, angle = random.uniform(0.0005, 0.002, (count, corners)), np.linspace(0, 2 * np.pi, corners, endpoint=False)
ring = np.stack([west[:, None] + radius * np.cos(angle), south[:, None] + radius * np.sin(angle)], -1)
shapes = shapely.polygons(np.concatenate([ring, ring[:, :1]], axis=1))
table = pa.table({
    "name": [f"parcel {n}" for n in range(count)], "height": random.uniform(2, 90, count),
    "floors": pa.array(random.integers(1, 30, count), pa.int32()),
    "built": pa.array(random.integers(0, 20_000, count).astype("int32"), pa.date32()),
    "geometry": pa.array(shapely.to_wkb(shapes)),
})
pyogrio.raw.write_arrow(table, path, driver="GPKG", layer="parcels", geometry_name="geometry",
                        geometry_type="Polygon", crs="EPSG:4326")
"""


def run(features: int | None = None, rounds: int | None = None) -> dict[str, Any]:
    """Measure, and report in the shape of all benchmarks."""
    short = bool(os.environ.get("CAIRN_BENCH_SHORT"))
    features = features or (SHORT_FEATURES if short else FEATURES)
    rounds = rounds or (1 if short else ROUNDS)
    with tempfile.TemporaryDirectory(prefix="cairn-bench-") as folder, postgres() as server, _zygote():
        bench = _Bench(Path(folder), server, features)
        bench.write_source()
        ours, theirs = [], []
        for number in range(rounds):
            theirs.append(bench.ogr2ogr())
            ours.append(bench.pipeline(number))
    return {
        "bench": "vector",
        "machine": _machine(),
        "versions": _versions(),
        "results": _results(ours, theirs, features),
    }


@dataclass(frozen=True)
class _Bench:
    """One file, one server, both ways into it."""

    folder: Path
    server: Postgres
    features: int

    @property
    def source(self) -> Path:
        return self.folder / "bronze" / SOURCE

    def write_source(self) -> None:
        """In a process of its own, so that nothing of it is warm for either side."""
        self.source.parent.mkdir(parents=True)
        arguments = [str(self.features), str(CORNERS), str(self.source)]
        subprocess.run(tied(sys.executable, "-c", _WRITE, *arguments), check=True)

    def ogr2ogr(self) -> dict[str, float]:
        """The command a careful user would write."""
        program = shutil.which("ogr2ogr")
        if program is None:
            raise RuntimeError("ogr2ogr is not installed: install the package gdal-bin to compare with it.")
        target = self.server.url().replace("postgresql://", "PG:postgresql://", 1)
        command = [program, "--config", "PG_USE_COPY", "YES", "-f", "PostgreSQL", target, str(self.source)]
        with self._table("public", "peer") as seconds:
            subprocess.run(tied(*command, "-nln", "peer", "-lco", "GEOMETRY_NAME=geom"), check=True)
        return seconds

    def pipeline(self, number: int) -> dict[str, float]:
        """The workflow's handlers, one after another, the chunks side by side."""
        seconds: dict[str, float] = {}
        facts = RunFacts(id=f"bench-{number}", request_id="bench", received_at=datetime.now(UTC), attempt=1)
        with _loader(self.server.url("cairn_loader")):
            started = time.perf_counter()
            self._try("vector.validate", facts, seconds, source=SOURCE)
            product = self._try("vector.convert", facts, seconds, source=SOURCE)
            table = self._try("vector.load_postgis", facts, seconds, product=product)
            with ThreadPoolExecutor(AT_ONCE) as pool:
                begun = time.perf_counter()
                chunk = lambda each: self._try("vector.load_chunk", facts, {}, table=table["table"], chunk=each)  # noqa: E731
                loaded = sum(each["loaded"] for each in pool.map(chunk, table["chunks"]))
                seconds["vector.load_chunk"] = time.perf_counter() - begun
            final = {"table": table["table"], "product": product, "loaded_features": loaded}
            self._try("vector.finalize", facts, seconds, **final)
            seconds["all"] = time.perf_counter() - started
        self._expect("geo", table["table"])
        return seconds

    def _try(self, handler: str, facts: RunFacts, seconds: dict[str, float], **params: Any) -> dict[str, Any]:
        """Run one try as the engine does."""
        attempt = Try(handler, handler, params, facts, TIMEOUT_SECONDS)
        started = time.perf_counter()
        result = one_try.run_try(attempt, Care(Zones.local(self.folder), Event(), lambda *_: None))
        seconds[handler] = time.perf_counter() - started
        return result

    @contextmanager
    def _table(self, schema: str, table: str) -> Iterator[dict[str, float]]:
        seconds: dict[str, float] = {}
        started = time.perf_counter()
        yield seconds
        seconds["all"] = time.perf_counter() - started
        self._expect(schema, table)

    def _expect(self, schema: str, table: str) -> None:
        """All features, and its indexes; then gone, so that every round begins alike."""
        with psycopg.connect(self.server.url()) as connection:
            [count] = connection.execute(f"select count(*) from {schema}.{table}".encode()).fetchone() or [0]  # noqa: S608
            [indexes] = connection.execute(
                "select count(*) from pg_indexes where schemaname = %s and tablename = %s", [schema, table]
            ).fetchone() or [0]
            if (count, indexes) != (self.features, INDEXES[schema]):
                raise RuntimeError(f"{schema}.{table} holds {count} features and {indexes} indexes.")
            connection.execute(f"drop table {schema}.{table}".encode())


@contextmanager
def _zygote() -> Iterator[None]:
    """The process that tries are forked from, as the gdal pool's worker keeps it."""
    os.environ[fork_client.ADDRESS] = f"cairn-bench-{uuid4().hex}"
    process = subprocess.Popen(tied(sys.executable, "-m", "deployments.warm.zygote", "gdal"), cwd=REPOSITORY)
    try:
        deadline = time.monotonic() + WARM_SECONDS
        while (connection := fork_client.connect_to_zygote(os.environ[fork_client.ADDRESS])) is None:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("The process that tries are forked from did not start.")
            time.sleep(0.05)
        connection.close()
        yield
    finally:
        del os.environ[fork_client.ADDRESS]
        process.kill()  # it takes no milder word
        process.wait()


@contextmanager
def _loader(url: str) -> Iterator[None]:
    """What a worker of the light pool is told."""
    os.environ["CAIRN_DATABASE_LOADER_URL"] = url
    try:
        yield
    finally:
        del os.environ["CAIRN_DATABASE_LOADER_URL"]


def _results(ours: list[dict[str, float]], theirs: list[dict[str, float]], features: int) -> list[dict[str, Any]]:
    own, peer = median(each["all"] for each in ours), median(each["all"] for each in theirs)
    facts: dict[str, Any] = {"n": len(ours), "baseline": None, "ratio": None}
    whole = figure(
        "file_to_indexed_table", features / own, "features/s", baseline=features / peer, ratio=peer / own, at_least=1.0,
        n=len(ours), note=f"{features:,} polygons, validation and GeoParquet included; baseline: ogr2ogr, PG_USE_COPY",
    )  # fmt: skip
    steps = [name for name in ours[0] if name != "all"]
    parts = [figure(name, median(each[name] for each in ours), "s", note="a part of it", **facts) for name in steps]
    return [whole, *parts]


def _machine() -> dict[str, Any]:
    return {"system": platform.system(), "machine": platform.machine(), "cpus": os.cpu_count()}


def _versions() -> dict[str, str]:
    told = subprocess.run(["ogr2ogr", "--version"], capture_output=True, text=True, check=False).stdout.strip()
    return {
        "python": platform.python_version(),
        "ogr2ogr": told,
        **{name: version(name) for name in ("pyogrio", "pyarrow", "shapely", "psycopg")},
    }
