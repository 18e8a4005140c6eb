"""The sweep: finds attempts that went silent and has them tried again. It relies on no hook, event or automation."""

import asyncio
import logging
from dataclasses import dataclass

from sqlalchemy.exc import SQLAlchemyError

from domain.db import Database
from domain.errors import DomainError
from domain.repositories.runs import Runs
from domain.services.runs import RunLifecycle

log = logging.getLogger("cairn.reconcile")


@dataclass(frozen=True)
class Reconciler:
    """Looks every so often; any number of them may look at once."""

    database: Database
    every_seconds: float
    lost_after_seconds: float
    max_attempts: int

    async def run(self) -> None:
        """Sweep until cancelled."""
        while True:
            await asyncio.sleep(self.every_seconds)
            try:
                await self.sweep()
            except (SQLAlchemyError, OSError) as error:
                log.warning("sweep failed and is tried again", extra={"error": type(error).__name__})

    async def sweep(self) -> int:
        """Fence every silent attempt, each in a transaction of its own; returns how many were."""
        async with self.database.transaction() as session:
            silent = await Runs(session).silent(self.lost_after_seconds)
        lost = 0
        for run_id, token in silent:
            try:
                async with self.database.transaction() as session:
                    lifecycle = RunLifecycle(session, self.max_attempts)
                    lost += await lifecycle.lose_if_silent(run_id, token, self.lost_after_seconds)
            except DomainError as error:
                log.info("attempt settled itself", extra={"run_id": str(run_id), "reason": error.detail})
        return lost
