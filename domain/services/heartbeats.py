"""Heartbeats that may wait: a flow run hears at once that it was fenced. No transaction is open while it waits."""

from dataclasses import dataclass
from uuid import UUID

from domain.contracts.runs import Heartbeat, HeartbeatAnswer
from domain.db import Database
from domain.listening import Listener
from domain.notices import Notices, happens
from domain.repositories.runs import Runs


@dataclass(frozen=True)
class Heartbeats:
    database: Database
    fences: Notices
    listener: Listener

    async def beat(self, run_id: UUID, message: Heartbeat) -> HeartbeatAnswer:
        """Note that the attempt lives and what its nodes do; tell it to stop if it is no longer the live one."""
        with self.fences.watching(run_id) as fenced:  # before the look: a fence in between is heard too
            answer = await self._noted(run_id, message)
            if answer.stop or not message.wait_seconds or not await happens(fenced, message.wait_seconds):
                return answer
        return await self._noted(run_id, message.model_copy(update={"events": []}))

    async def _noted(self, run_id: UUID, message: Heartbeat) -> HeartbeatAnswer:
        async with self.database.transaction() as session:
            runs = Runs(session)
            paused = await runs.beat(run_id, message.attempt_token, of_child=message.segment is not None)
            if paused is None:
                return HeartbeatAnswer(stop=True)
            await runs.apply_events(run_id, message.events)
            await self.listener.note_with(session)
        return HeartbeatAnswer(stop=False, paused=paused)
