"""What a fan-out shows as a whole in Prefect's UI: how far it is, and a table of the items that failed.

Two artifacts at most, however many items there are, looked after while the items are worked on. Nobody waits for them
but the flow run at its very end.
"""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from prefect.client.orchestration import PrefectClient
from prefect.context import FlowRunContext

from flows.memory.ledger import latest, read
from flows.prefect_engine.artifacts import ShownArtifact, quoted, table
from flows.runs.fan_out import FanOutCounts
from flows.runs.group_tally import FailedItems
from flows.runs.run_context import RunContext
from flows.storage.threads import in_storage_thread

FIRST_SECONDS = 3.0  # most fan-outs have ended by then, and are shown once
EVERY_SECONDS = 15.0
_NO_KEY = re.compile(r"[^a-z0-9]+")


@dataclass
class FanOutSummary:
    """The artifacts of one fan-out."""

    path: str
    counts: FanOutCounts
    progress: ShownArtifact
    failed: ShownArtifact
    page_url: str | None
    failures: FailedItems = field(default_factory=FailedItems)
    _shown: int = 0

    async def show(self) -> None:
        """Show how far the fan-out is, and the failed items where there are more than were shown."""
        counts = self.counts
        left = counts.total - counts.done - counts.failed
        told = f"**{self.path}**: {counts.total:,} items, {counts.done:,} succeeded, {counts.failed:,} failed"
        told += f", {left:,} not begun or not ended" if left else ""
        share = 100.0 * (counts.done + counts.failed) / counts.total if counts.total else 100.0
        await self.progress.show(share, told)
        if len(self.failures.rows) > self._shown or (counts.failed and not self._shown):
            self._shown = len(self.failures.rows)
            await self.failed.show(table(self._rows()), self._heading())

    def _heading(self) -> str:
        shown, link = len(self.failures.rows), f" [The run at the console]({self.page_url})." if self.page_url else ""
        first = f"The first {shown:,} of " if shown < self.counts.failed else ""
        return f"{first}{self.counts.failed:,} failed items of **{self.path}**.{link}"

    def _rows(self) -> list[dict[str, str | int]]:
        log = f"[log](/runs/flow-run/{self.progress.flow_run_id}?tab=Logs)"
        return [
            {"item": row.index, "key": quoted(row.key), "tries": row.tries, "error": quoted(row.error), "see": log}
            for row in sorted(self.failures.rows, key=lambda row: row.index)
        ]

    async def keep_showing(self) -> None:
        """Show it now and then until nobody waits any more."""
        await asyncio.sleep(FIRST_SECONDS)
        while True:
            await self.show()
            await asyncio.sleep(EVERY_SECONDS)


@asynccontextmanager
async def summarised(
    run_context: RunContext, path: str, counts: FanOutCounts, *, visible: bool
) -> AsyncIterator[FailedItems]:
    """Show the fan-out while the block runs; how it ended is shown once the block is over, without waiting for it."""
    around = FlowRunContext.get()
    if not visible or around is None or around.flow_run is None or not isinstance(around.client, PrefectClient):
        yield FailedItems()
        return
    run, client = around.flow_run, around.client
    key, is_new = f"{_NO_KEY.sub('-', f'{run_context.facts.id}-{path}'.lower()).strip('-')}", run.run_count <= 1
    progress = ShownArtifact(client, run.id, "progress", f"fan-out-{key}", is_new)
    failed = ShownArtifact(client, run.id, "table", f"failed-{key}", is_new)
    summary = FanOutSummary(path, counts, progress, failed, run_context.page_url)
    showing = asyncio.create_task(summary.keep_showing())
    try:
        yield summary.failures
    finally:
        showing.cancel()
        run_context.show_in_the_end(summary.show())


async def learn_failures(run_context: RunContext, path: str, failures: FailedItems) -> None:
    """Take over from the run's memory which items failed where other processes did them."""
    ledger = run_context.ledger
    for entry in await in_storage_thread(lambda: latest(read(ledger.store, ledger.memory, path))):
        if not entry.is_completed and entry.index is not None:
            failures.note(entry.index, entry.key or "", entry.tries, (entry.error or {}).get("message", "failed"))
