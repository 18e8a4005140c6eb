"""Heartbeats that may wait: a flow run hears at once that it was fenced, or that a child run has news.

No transaction is open while it waits.
"""

from dataclasses import dataclass
from typing import LiteralString
from uuid import UUID

from domain.after_commit import after_commit
from domain.contracts.runs import Heartbeat, HeartbeatAnswer
from domain.db import Database
from domain.loops.listening_notes import ListeningNotes
from domain.repositories.node_states import NodeStates
from domain.repositories.runs import Runs
from domain.shared.notices import CHILDREN_CHANNEL, Notices, happens_within


@dataclass(frozen=True)
class Heartbeats:
    database: Database
    fences: Notices
    listener: ListeningNotes

    async def beat(self, run_id: UUID, message: Heartbeat) -> HeartbeatAnswer:
        """Note that the attempt lives and what its nodes do; tell it to stop if it is no longer the live one."""
        also: LiteralString | None = None if message.seen is None else CHILDREN_CHANNEL
        with self.fences.watching(run_id, also) as woken:  # before the look: what comes now is heard too
            answer = await self._noted(run_id, message)
            if answer.stop or not message.wait_seconds or answer.news > (message.seen or 0):
                return answer
            if not await happens_within(woken, message.wait_seconds):
                return answer
        return await self._noted(
            run_id,
            message.model_copy(update={"events": [], "flow_runs": None, "left_outcome": None, "sent_to": None}),
        )

    async def _noted(self, run_id: UUID, message: Heartbeat) -> HeartbeatAnswer:
        async with self.database.transaction() as session:
            runs = Runs(session)
            of_child, left_outcome = message.segment is not None, bool(message.left_outcome)
            noted = await runs.beat(run_id, message.attempt_token, of_child=of_child, left_outcome=left_outcome)
            if noted is None:
                return HeartbeatAnswer(stop=True)
            await runs.note_flow_runs(run_id, noted.attempt, message.flow_runs)
            await NodeStates(session).note(run_id, noted.attempt, message.events)
            if message.sent_to:
                after_commit(session).sent.add(message.sent_to)
            await self.listener.note_with(session)
        news = 0 if message.seen is None else noted.news
        return HeartbeatAnswer(stop=False, paused=noted.paused, news=news)
