"""Looks for requests that ended, and has removed what they left over."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy.exc import SQLAlchemyError

from domain.db import failures_logged
from domain.errors import DomainError
from domain.repositories.leftovers import Leftovers
from domain.services.operations.leftovers import Collected, Collecting
from domain.shared.together import together

log = logging.getLogger("cairn.collector")
BATCH = 100  # requests of each way to end that one look takes at most
AT_ONCE = 4
LEASE_SECONDS = 300.0  # after which another goes on with what one has begun


@dataclass(frozen=True)
class LeftoverCollector:
    """Collects leftovers. Processes leave each other's work alone for a while, and removing twice is harmless."""

    collecting: Collecting
    every_seconds: float

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            with failures_logged(log, "what is left over cannot be looked for"):
                try:
                    await self.sweep()
                except (SQLAlchemyError, OSError) as error:
                    log.warning("a look for leftovers failed", extra={"error": type(error).__name__})
            await asyncio.sleep(self.every_seconds)

    async def sweep(self) -> Collected:
        """Take the next of those that are due; returns what was removed."""
        async with self.collecting.database.transaction() as session:
            due = await Leftovers(session).due(self.collecting.patience, LEASE_SECONDS, BATCH)
        shares = await together(*(self._share(due[place::AT_ONCE]) for place in range(AT_ONCE)))
        done = sum(shares, start=Collected())
        if done != Collected():
            log.info("leftovers were removed", extra=vars(done))
        return done

    async def _share(self, due: Sequence[UUID]) -> Collected:
        return sum([await self._collect(request_id) for request_id in due], start=Collected())

    async def _collect(self, request_id: UUID) -> Collected:
        """Collect one request's leftovers. A failure is logged, holds up no other, and waits for the lease to end."""
        with failures_logged(log, "leftovers could not be removed", request_id=str(request_id)):
            try:
                return await self.collecting.collect(request_id) or Collected()
            except (DomainError, SQLAlchemyError) as error:
                facts = {"request_id": str(request_id), "error": type(error.__cause__ or error).__name__}
                log.warning("leftovers could not be removed", extra=facts)
        return Collected()
