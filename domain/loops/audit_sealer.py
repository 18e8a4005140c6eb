"""Chains the audit behind the commits. Any number of sealers may run; one of them works at a time."""

import asyncio
import logging
from dataclasses import dataclass, field

from sqlalchemy.exc import SQLAlchemyError

from domain.db import Database, failures_logged
from domain.rules.audit import Chain
from domain.services.operations.audit import Reach, first_reach, seal_batch

log = logging.getLogger("cairn.sealer")


@dataclass
class AuditSealer:
    """Seals what was committed, every so often, and goes through what is old a stretch at a time: a look costs the same
    however long the audit is.
    """

    database: Database
    every_seconds: float
    chain: Chain
    _reach: Reach | None = field(default=None, init=False)

    async def run(self) -> None:
        """Seal until cancelled."""
        if self.chain.key_name is None:
            log.warning(
                "the audit is sealed without a key: whoever writes to the database can remake its chain. Development "
                "allows that; set CAIRN_AUDIT_KEYS"
            )
        while True:
            try:
                with failures_logged(log, "sealing is stuck"):
                    while await self.seal():
                        pass
            except (SQLAlchemyError, OSError) as error:
                log.warning("sealing failed and is tried again", extra={"error": type(error).__name__})
            await asyncio.sleep(self.every_seconds)

    async def seal(self) -> int:
        async with self.database.transaction() as session:
            reach = self._reach or await first_reach(session)
            sealed, reach = await seal_batch(session, self.chain, reach)
        self._reach = reach  # not before the commit: what was rolled back is not sealed
        return sealed
