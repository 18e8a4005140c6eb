"""Keeps the definitions that this process uses now, and takes over what other processes publish.

Each process reads its own folder. One is told to publish; the others hear of it and look into theirs.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from domain.db import OUTAGES, Database
from domain.repositories.processes import Processes
from domain.repositories.published import Published
from domain.repositories.runs import Runs
from domain.security import Identity
from domain.services.operations.audit import record
from domain.services.operations.workflow_definitions import Definitions
from domain.shared.notices import Notices

log = logging.getLogger("cairn.workflows")
LOOK_SECONDS = 5.0  # where a notice was lost; one row is asked for


@dataclass
class Library:
    """Holds the current definitions. `current` is replaced as a whole, so a use case goes on with what it took."""

    database: Database
    folder: Path
    needed: Sequence[str]
    notices: Notices
    current: Definitions = field(default_factory=lambda: Definitions({}))
    _newest: datetime | None = None
    _taking: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def publish(self, who: Identity | None = None) -> Definitions:
        """Read the folder, publish what is new, and use it from now on. Somebody's order also notifies all processes.

        Asked twice at once, the second reads again what the first one may have seen half-written.
        """
        async with self._taking:
            read = (await asyncio.to_thread(Definitions.read, self.folder)).lacking(self.needed)
            async with self.database.transaction() as session:
                settled = await read.publish(Runs(session), Processes(session), self.current)
                if who:  # only an order takes up an earlier version again: processes' folders may differ for a while
                    running = {name: str(known.plan.version) for name, known in settled.by_id.items()}
                    await Published(session).take_up(running)
                    record(session, who, "workflows.publish", "workflows", workflows=sorted(settled.by_id))
                    await Published(session).tell(self.notices.own or "")
                newest = await Published(session).newest()
            self._log_refused(settled)
            self.current, self._newest = settled, newest
            return settled

    async def follow(self) -> None:
        """Take over what other processes publish, until cancelled."""
        while True:
            heard = await self.notices.heard(LOOK_SECONDS)
            try:
                if heard or await self._is_behind():
                    await self.publish()
            except OUTAGES as error:
                log.warning("workflows could not be looked at", extra={"error": type(error).__name__})
                await asyncio.sleep(1)

    async def _is_behind(self) -> bool:
        async with self.database.transaction() as session:
            return await Published(session).newest() != self._newest

    def _log_refused(self, settled: Definitions) -> None:
        """Log refused files, once for as long as the refusals stay the same."""
        for name, why in settled.refused.items():
            if self.current.refused.get(name) != why:
                log.error(
                    "a workflow's file is refused; the workflow goes on as it was published",
                    extra={"workflow": name, "reason": why, "published": name in settled.by_id},
                )
