"""A run as a worker does it, up to some point, by the real handlers and stores: what it has made by then is there."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from pydantic import SecretStr

from deployments.stack.owner import tied
from deployments.stack.state import REPOSITORY
from flows.compiler import Item
from flows.handlers.context import Context
from flows.handlers.vector.declarations import (
    FinalizeParams,
    LoadChunkParams,
    LoadPostgisParams,
    VectorConvertParams,
    VectorConvertResult,
    convert,
    finalize,
    load_chunk,
    load_postgis,
)
from flows.memory.checkpoint import StoredCheckpoint, checkpoint_name
from flows.memory.ledger import Ledger, LedgerEntry
from flows.runs.child_flow_runs.protocol import put_order, read_order
from flows.runs.shared_items import SharedItems
from flows.storage import LocalStore, Zones
from flows.tries.one_try import Try
from tests.support import vectors
from tests.support.acts import Flow

SOURCE = "uploads/fields.geojson"
# Begins to put a file into the zone, says so, and waits to be killed half-way.
HALF = """
import sys, time
from pathlib import Path
from flows.storage import LocalStore

class Slow:
    given = False
    def read(self, size):
        if self.given:
            print("half", flush=True)
            time.sleep(600)
        self.given = True
        return b"x" * 1000

LocalStore(Path(sys.argv[1])).put_stream(sys.argv[2], Slow(), 2000)
"""


@dataclass(frozen=True)
class Worker:
    """One attempt at work."""

    flow: Flow
    order: dict[str, Any]
    folder: Path

    @property
    def zones(self) -> Zones:
        return self.flow.domain.service.zones

    @property
    def prefix(self) -> str:
        return self._try.output_prefix

    @property
    def product(self) -> str:
        return f"{self.prefix}/data.parquet"

    @property
    def _try(self) -> Try:
        from domain.contracts.runs import RunFacts

        facts = RunFacts.model_validate(self.order["facts"])
        return Try(node_id="convert", handler="vector.convert", params={}, facts=facts, timeout_seconds=60)

    def context(self, name: str) -> Context:
        workdir = self.folder / f"{self.flow.run_id}-{self.order['facts']['attempt']}-{name}"
        workdir.mkdir()
        url = SecretStr(self.flow.domain.database.url("cairn_loader"))
        more = {"output_prefix": self.prefix, "database": url}
        return Context(str(self.flow.run_id), "node", self.zones, workdir, **more)  # type: ignore[arg-type]

    def remembers(self) -> None:
        """What the engine keeps of a run: its ledger, a kept value, a checkpoint, what it left for a child run."""
        runs, memory = self.zones.runs, f"{self.flow.run_id}/m{self.order['memory']}"
        ledger = Ledger(runs, memory, f"{self.flow.flow_run_id}-1")
        told = ledger.values.dump({"large": "x" * 20_000})
        ledger.record(LedgerEntry("convert", "d", "completed", 1, "w", 1.0, 2.0, output=told))
        StoredCheckpoint(runs, checkpoint_name(memory, "convert")).save({"phase": 1})
        attempt = f"{self.flow.run_id}/a{self.order['facts']['attempt']}"
        put_order(runs, f"{attempt}/segment-1", {"path": "convert"})
        assert read_order(runs, f"{attempt}/segment-1")
        shared = SharedItems(runs, f"{attempt}/fan-out-1")
        shared.put([Item(0, "0", {})], 1)
        assert shared.take("segment-1 process")

    def fetches(self) -> None:
        """Its source's copy in quarantine, and parts of what is joined later."""
        self.zones.bronze.write_bytes(f"quarantine/{self.prefix}/0123456789abcdef.tif", b"fetched")
        self.zones.runs.write_bytes(f"{self.prefix}/parts/0_0.tif", b"part")

    def converts(self) -> VectorConvertResult:
        self.zones.bronze.put_file(SOURCE, vectors.write(self.folder / "f.geojson", vectors.squares(120, side=0.001)))
        return convert(VectorConvertParams(source=SOURCE, chunk_features=100), self.context("convert"))

    def loads(self, product: VectorConvertResult) -> str:
        """The table with the first of its two chunks."""
        made = load_postgis(LoadPostgisParams(product=product), self.context("create"))
        load_chunk(LoadChunkParams(table=made.table, chunk=product.chunks[0]), self.context("load"))
        return made.table

    def finishes(self, product: VectorConvertResult, table: str) -> None:
        load_chunk(LoadChunkParams(table=table, chunk=product.chunks[1]), self.context("rest"))
        finalize(FinalizeParams(table=table, product=product, loaded_features=120), self.context("finalize"))

    def dies_writing(self, *, really: bool) -> None:
        """In a folder half a file is left: by a process of its own that is killed over it, or as if there had been."""
        silver = self.zones.silver
        if isinstance(silver, LocalStore) and really:
            command = tied(sys.executable, "-c", HALF, str(silver.root), f"{self.prefix}/whole.bin")
            with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE) as half:
                assert half.stdout
                assert half.stdout.readline() == b"half\n"
                half.kill()
        elif isinstance(silver, LocalStore):
            (silver.root / self.prefix / ".partial-half").write_bytes(b"x" * 1000)

    def plants(self, *, killed: bool = False) -> VectorConvertResult:
        """Everything there may be half-way through a run; returns what was converted."""
        self.remembers()
        self.fetches()
        product = self.converts()
        self.loads(product)
        self.dies_writing(really=killed)
        return product


async def at_work(flow: Flow, folder: Path, **more: Any) -> Worker:
    """The flow run, started; told what its work is."""
    answer = await flow.start(**more)
    assert answer.status_code == 200, answer.text
    order = answer.json()
    retried = Flow(flow.domain, UUID(str(flow.run_id)), order["attempt_token"], flow.flow_run_id)
    return Worker(retried, order, folder)
