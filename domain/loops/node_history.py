"""Forgets what happened to nodes once it is older than it is kept for."""

import asyncio
import logging
from dataclasses import dataclass

from sqlalchemy.exc import SQLAlchemyError

from domain.db import Database
from domain.repositories.node_states import NodeStates

log = logging.getLogger("cairn.history")
PAGE, MOST_PAGES = 5_000, 20  # in one look: what is left waits for the next
LOOK_SECONDS = 60.0


@dataclass(frozen=True)
class NodeHistorySweep:
    """Deletes old transitions page by page. Any number of processes may do so: what one has deleted no other finds."""

    database: Database
    kept_seconds: float
    every_seconds: float = LOOK_SECONDS

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            try:
                await self.sweep()
            except (SQLAlchemyError, OSError) as error:
                log.warning("old transitions were not deleted", extra={"error": type(error).__name__})
            await asyncio.sleep(self.every_seconds)

    async def sweep(self) -> int:
        """Delete what is too old; returns how many rows that were."""
        deleted = 0
        for _ in range(MOST_PAGES):
            async with self.database.transaction() as session:
                page = await NodeStates(session).forget(self.kept_seconds, PAGE)
            deleted += page
            if page < PAGE:
                break
        return deleted
