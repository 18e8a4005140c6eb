"""Chains the audit behind the commits. Any number of sealers may run; one of them works at a time."""

import asyncio
import logging
from dataclasses import dataclass

from sqlalchemy.exc import SQLAlchemyError

from domain.db import Database, sparing
from domain.services.audit import seal_batch

log = logging.getLogger("cairn.sealer")


@dataclass(frozen=True)
class Sealer:
    """Seals what was committed, every so often."""

    database: Database
    every_seconds: float

    async def run(self) -> None:
        """Seal until cancelled."""
        while True:
            try:
                with sparing(log, "sealing is stuck"):
                    while await self.seal():
                        pass
            except (SQLAlchemyError, OSError) as error:
                log.warning("sealing failed and is tried again", extra={"error": type(error).__name__})
            await asyncio.sleep(self.every_seconds)

    async def seal(self) -> int:
        async with self.database.transaction() as session:
            return await seal_batch(session)
