"""Reads the items of a fan-out from the run's memory. The database knows counts only."""

from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from domain.contracts.items import ItemPage, ItemRecord, ItemState
from domain.db import Database
from domain.errors import NotFound
from domain.models import Run, RunNode
from domain.rules.places import memory_folder
from domain.services.reading import storage_answers
from flows.memory.ledger import LedgerEntry, latest, read
from flows.storage import Store
from flows.storage.threads import in_storage_thread


@dataclass(frozen=True)
class ItemDesk:
    """Reads items from run storage, without an open transaction meanwhile."""

    database: Database
    store: Store

    async def page(self, run_id: UUID, path: str, after: int, limit: int, state: ItemState | None) -> ItemPage:
        """Return items behind this index. Within sub-workflows the path begins with the nodes that run them."""
        memory, total = await self._place(run_id, path)
        entries = await in_storage_thread(self._entries, memory_folder(run_id, memory), path)
        wanted = [entry for entry in entries if (entry.index or 0) > after and state in {None, entry.state}]
        shown = [_record(entry) for entry in wanted[:limit]]
        return ItemPage(
            node_id=path,
            total=total,
            completed=sum(entry.is_completed for entry in entries),
            failed=sum(not entry.is_completed for entry in entries),
            items=shown,
            next=shown[-1].index if len(wanted) > limit else None,
        )

    def _entries(self, memory: str, path: str) -> list[LedgerEntry]:
        with storage_answers():
            return latest(read(self.store, memory, path))

    async def _place(self, run_id: UUID, path: str) -> tuple[int, int | None]:
        """The generation of the run's memory, and how many items the fan-out has."""
        async with self.database.transaction() as session:
            run = await session.get(Run, run_id)
            if run is None:
                raise NotFound(f"There is no run {run_id}.")
            first, _, below = path.partition(".")
            node = await session.get(RunNode, (run_id, first.partition("__")[0] if below else first))
            if node is None:
                raise NotFound(f"The run has no node {first!r}.")
            return run.memory, None if below else node.items_total


def _record(entry: LedgerEntry) -> ItemRecord:
    return ItemRecord.model_validate(
        {
            "index": entry.index,
            "key": entry.key,
            "state": entry.state,
            "tries": entry.tries,
            "worker": entry.worker,
            "started_at": datetime.fromtimestamp(entry.started_at, UTC),
            "ended_at": datetime.fromtimestamp(entry.ended_at, UTC),
            "problem": entry.error,
            "metrics": entry.metrics,
        }
    )
