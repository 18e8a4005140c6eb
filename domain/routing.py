"""The look for runs whose pool nobody serves. Any number of processes may look."""

import asyncio
import logging
import time
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncSession

from domain.db import Database, sparing
from domain.repositories.pools import Pools
from domain.rules.routing import Step, may_judge
from domain.services.routing import Routing

log = logging.getLogger("cairn.routing")


@dataclass
class Router:
    """Looks every so often, once it has been there long enough to have heard every worker."""

    database: Database
    every_seconds: float
    silence_seconds: float
    allowed_seconds: float

    async def run(self) -> None:
        """Look until cancelled."""
        listening_since = last = time.monotonic()
        while True:
            await asyncio.sleep(self.every_seconds)
            now = time.monotonic()
            if now - last > self.every_seconds + self.silence_seconds:  # this machine slept, and so did its ears
                listening_since = now
            last = now
            if not may_judge(now - listening_since, self.silence_seconds):
                continue
            try:
                await self.look()
            except (SQLAlchemyError, OSError) as error:
                log.warning("look for unroutable runs failed", extra={"error": type(error).__name__})
                listening_since = time.monotonic()  # beacons were not heard either

    async def look(self) -> dict[Step, int]:
        """Judge every run that waits in vain or is marked, each in a transaction of its own."""
        async with self.database.transaction() as session:
            pools = Pools(session)
            await pools.prune()
            waiting = await pools.waiting(self.silence_seconds)
            routing = self._routing(session)
            due = [one.run_id for one in waiting if routing.step(one) is not Step.LEAVE]
        done: dict[Step, int] = {}
        for run_id in due:
            step = await self._act(run_id)
            done[step] = done.get(step, 0) + 1
        return done

    async def _act(self, run_id: UUID) -> Step:
        """One that cannot be judged is in no other's way."""
        with sparing(log, "a run could not be judged", run_id=str(run_id)):
            async with self.database.transaction() as session:
                return await self._routing(session).act(run_id)
        return Step.LEAVE

    def _routing(self, session: AsyncSession) -> Routing:
        return Routing(session, self.silence_seconds, self.allowed_seconds)
