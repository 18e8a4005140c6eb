"""Approvals that end: looks for them, and stops serving what has too few left.

Serving shows nothing of them from the moment on, by its view; here the rest follows: catalogue, exports, audit.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncSession

from domain.db import Database
from domain.repositories.approvals import Approvals
from domain.services.reviews import Reviews

log = logging.getLogger("cairn.endings")
BATCH = 100


@dataclass(frozen=True)
class Endings:
    """Any number may look: decisions about one asset take turns."""

    database: Database
    every_seconds: float
    reviews: Callable[[AsyncSession], Reviews]

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            try:
                await self.sweep()
            except (SQLAlchemyError, OSError) as error:
                log.warning("a look for ended approvals failed", extra={"error": type(error).__name__})
            await asyncio.sleep(self.every_seconds)

    async def sweep(self) -> int:
        """End what is due, each in a transaction of its own; returns how many were."""
        async with self.database.transaction() as session:
            due = await Approvals(session).ended(BATCH)
        ended = 0
        for asset_id, ordinal, revision in due:
            async with self.database.transaction() as session:
                ended += await self.reviews(session).end(asset_id, ordinal, revision)
        return ended
