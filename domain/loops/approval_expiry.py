"""Approvals that end: looks for them, and stops serving what has too few left.

Serving shows nothing of them from the moment on, by its view; here the rest follows: catalogue, exports, audit.
"""

import asyncio
import logging
from dataclasses import dataclass

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncSession

from domain.db import failures_logged
from domain.errors import DomainError
from domain.repositories.approvals import Approvals
from domain.services.assembly import review_desk
from domain.services.publication.deciding import FilesRead, decided
from domain.state import Service

log = logging.getLogger("cairn.endings")
BATCH = 100


@dataclass(frozen=True)
class ApprovalExpiry:
    """Ends approvals that are due. Any number of processes may do so: decisions about one asset take turns."""

    service: Service
    every_seconds: float

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
        async with self.service.database.transaction() as session:
            due = await Approvals(session).ended(BATCH)
        return sum([await self._end(*each) for each in due])

    async def _end(self, asset_id: str, ordinal: int, revision: int) -> bool:
        """End one approval. A failure is logged, holds up no other, and is tried again."""

        async def act(session: AsyncSession, files: FilesRead) -> bool:
            return await review_desk(session, self.service, files).end(asset_id, ordinal, revision)

        with failures_logged(log, "an approval could not be ended", asset_id=asset_id):
            try:
                return await decided(self.service.database, self.service.file_checks, act)
            except (DomainError, SQLAlchemyError, OSError) as error:
                facts = {"asset_id": asset_id, "ordinal": ordinal, "error": type(error).__name__}
                log.warning("an approval could not be ended", extra=facts)
        return False
