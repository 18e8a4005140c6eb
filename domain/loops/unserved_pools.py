"""The look for runs whose pool nobody serves. Any number of processes may look.

Workers of ours say that they are there. Others, as those that start containers, are known to Prefect alone: it is asked
about a pool when runs wait for it and no beacon tells of a worker. And it is asked which pools and queues its operators
hold, of all of them at once, while anything waits: what those hold waits for people and is never given up.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncSession

from domain.db import Database, failures_logged
from domain.repositories.holds import Holds
from domain.repositories.pools import Pools, Waits
from domain.rules.routing import PoolNotice, judge, may_judge
from domain.services.runs.unserved_pools import Routing

log = logging.getLogger("cairn.routing")
# Prefect's workers say every 30 s that they are there. After an outage all of them are silent to it for as long.
PREFECT_SILENCE_SECONDS = 35.0
Online = Callable[[str], Awaitable[Collection[str] | None]]  # names of a pool's workers; None: no answer
HeldPlaces = Callable[[], Awaitable[Mapping[str, str] | None]]  # pools and pool/queues, and how; None: no answer


@dataclass
class UnservedPoolSweep:
    """Looks for such runs again and again, but judges only once every worker's beacon could have been heard."""

    database: Database
    every_seconds: float
    silence_seconds: float
    allowed_seconds: float
    online: Online | None = None  # what Prefect says, where this process talks to it
    held: HeldPlaces | None = None  # as `online`
    _away_at: float = field(default=float("-inf"), init=False)  # when Prefect last gave no answer

    async def run(self) -> None:
        """Look until cancelled."""
        failed_at = float("-inf")
        while True:
            await asyncio.sleep(self.every_seconds)
            if not may_judge(time.monotonic() - failed_at, self.silence_seconds):
                continue
            try:
                await self.look()
            except (SQLAlchemyError, OSError) as error:
                log.warning("look for unroutable runs failed", extra={"error": type(error).__name__})
                failed_at = time.monotonic()  # beacons were not heard either, if only for a moment

    async def look(self) -> dict[PoolNotice, int]:
        """Judge every run that waits in vain or is marked, each in a transaction of its own."""
        async with self.database.transaction() as session:
            await Pools(session).prune()
        await self._note_held()
        waiting, unclear = await self._waiting(), set[str]()
        if self.online is not None and (in_vain := {one.pool for one in waiting if one.pool is not None}):
            unclear = {pool for pool in sorted(in_vain) if not await self._is_clear(pool, self.online)}
            waiting = await self._waiting()
        done: dict[PoolNotice, int] = {}
        for one in waiting:
            if one.pool not in unclear and self._step(one) is not PoolNotice.LEAVE:
                step = await self._act(one.run_id)
                done[step] = done.get(step, 0) + 1
        return done

    async def _note_held(self) -> None:
        """Note which pools and queues Prefect holds. Where it does not answer, what was last seen still counts."""
        if self.held is None:
            return
        async with self.database.transaction() as session:
            is_of_interest = await Holds(session).is_of_interest()
        if is_of_interest and (found := await self.held()) is not None:
            async with self.database.transaction() as session:
                await Holds(session).note(found)

    async def _waiting(self) -> Sequence[Waits]:
        async with self.database.transaction() as session:
            return await self._routing(session).waiting()

    async def _is_clear(self, pool: str, online: Online) -> bool:
        """Note workers that only Prefect knows of. Return False where nothing can be said of the pool now."""
        names = await online(pool)
        if names is None:
            self._away_at = time.monotonic()
            return False
        if names:
            async with self.database.transaction() as session:
                if await Pools(session).heard_of(pool, names):
                    return True
        return time.monotonic() - self._away_at >= PREFECT_SILENCE_SECONDS

    def _step(self, waits: Waits) -> PoolNotice:
        awaiting = waits.awaits is not None
        return judge(waits.pool is not None, waits.marked_seconds, self.allowed_seconds, is_awaiting=awaiting)

    async def _act(self, run_id: UUID) -> PoolNotice:
        """Carry out what was decided about one run; a failure is logged and holds up no other."""
        with failures_logged(log, "a run could not be judged", run_id=str(run_id)):
            async with self.database.transaction() as session:
                return await self._routing(session).act(run_id)
        return PoolNotice.LEAVE

    def _routing(self, session: AsyncSession) -> Routing:
        return Routing(session, self.silence_seconds, self.allowed_seconds)
