"""Notes in the database that this process is there to take heartbeats. Every process that serves the API does.

The notes go by the same pool of connections as heartbeats do: where these find no way, neither do notes.
"""

import asyncio
import logging
import time
from dataclasses import dataclass, field
from uuid import UUID, uuid4

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncSession

from domain.db import OUTAGES, Database
from domain.repositories.listening import ListeningSpans
from domain.rules.listening import NOTES_A_GAP

log = logging.getLogger("cairn.listening")


@dataclass
class ListeningNotes:
    """Notes that this process listens. The rules combine the notes of all (`domain/rules/listening.py`)."""

    database: Database
    gap_seconds: float
    _span_id: UUID = field(default_factory=uuid4, init=False)
    _noted_at: float = field(default=float("-inf"), init=False)  # by this process's clock: when it last meant to

    async def run(self) -> None:
        """Note it until cancelled."""
        while True:
            await asyncio.sleep(self.gap_seconds / NOTES_A_GAP)
            try:
                await self.note()
            except (SQLAlchemyError, *OUTAGES) as error:
                log.warning("heartbeats cannot be taken now", extra={"error": type(error).__name__})

    async def note(self) -> None:
        """Note it in a transaction of its own."""
        async with self.database.transaction() as session:
            await self._note(session)

    async def note_with(self, session: AsyncSession) -> None:
        """Note it now and then in the transaction of a heartbeat: where many wait for a connection, notes wait too."""
        if time.monotonic() - self._noted_at >= self.gap_seconds / NOTES_A_GAP:
            await self._note(session)

    async def _note(self, session: AsyncSession) -> None:
        """Extend this process's span; after a gap of its own, begin another one."""
        self._noted_at = time.monotonic()
        if await ListeningSpans(session).go_on(self._span_id, self.gap_seconds):
            return
        self._span_id = uuid4()
        silent = await ListeningSpans(session).begin(self._span_id)
        if silent is not None and silent > self.gap_seconds:
            log.warning("heartbeats could not be taken; silence counts from now on", extra={"seconds": round(silent)})
