"""Heartbeats that may wait: a flow run hears at once that it was fenced. No transaction is open while it waits."""

from dataclasses import dataclass
from uuid import UUID

from domain.contracts.runs import Heartbeat, HeartbeatAnswer
from domain.db import Database
from domain.notices import Notices, happens
from domain.repositories.runs import Runs


@dataclass(frozen=True)
class Heartbeats:
    database: Database
    fences: Notices

    async def beat(self, run_id: UUID, message: Heartbeat) -> HeartbeatAnswer:
        """Note that the attempt lives and what its nodes do; tell it to stop if it is no longer the live one."""
        with self.fences.watching(run_id) as fenced:  # before the look: a fence in between is heard too
            if not await self._alive(run_id, message):
                return HeartbeatAnswer(stop=True)
            if not message.wait_seconds or not await happens(fenced, message.wait_seconds):
                return HeartbeatAnswer(stop=False)
        again = Heartbeat(attempt_token=message.attempt_token)
        return HeartbeatAnswer(stop=not await self._alive(run_id, again))

    async def _alive(self, run_id: UUID, message: Heartbeat) -> bool:
        async with self.database.transaction() as session:
            runs = Runs(session)
            alive = await runs.beat(run_id, message.attempt_token)
            if alive:
                await runs.apply_events(run_id, message.events)
        return alive
