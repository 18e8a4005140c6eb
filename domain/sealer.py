"""Chains the audit behind the commits. Any number of sealers may run; one of them works at a time."""

import asyncio
import logging
import time
from dataclasses import dataclass, field

from sqlalchemy.exc import SQLAlchemyError

from domain.db import Database, sparing
from domain.rules.audit import Chain
from domain.services.audit import seal_batch

log = logging.getLogger("cairn.sealer")
THOROUGH_SECONDS = 3600.0


@dataclass
class Sealer:
    """Seals what was committed, every so often.

    A look passes by what is old and sealed. At the start and once an hour it passes by nothing: a transaction that was
    open for longer than anybody thought has its entries sealed then.
    """

    database: Database
    every_seconds: float
    chain: Chain
    _floor: int = field(default=0, init=False)
    _thorough_at: float = field(default=0.0, init=False)

    async def run(self) -> None:
        """Seal until cancelled."""
        if self.chain.key_name is None:
            log.warning(
                "the audit is sealed without a key: whoever writes to the database can remake its chain. Development "
                "allows that; set CAIRN_AUDIT_KEYS"
            )
        while True:
            try:
                with sparing(log, "sealing is stuck"):
                    while await self.seal():
                        pass
            except (SQLAlchemyError, OSError) as error:
                log.warning("sealing failed and is tried again", extra={"error": type(error).__name__})
            await asyncio.sleep(self.every_seconds)

    async def seal(self) -> int:
        if time.monotonic() >= self._thorough_at:
            self._floor, self._thorough_at = 0, time.monotonic() + THOROUGH_SECONDS
        async with self.database.transaction() as session:
            sealed, floor = await seal_batch(session, self.chain, self._floor)
        self._floor = floor  # not before the commit: what was rolled back is not sealed
        return sealed
