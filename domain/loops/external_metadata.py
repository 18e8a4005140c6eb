"""Removes metadata from the external database that may not stand there any more."""

import asyncio
import logging
from dataclasses import dataclass

from sqlalchemy.exc import SQLAlchemyError

from domain.db import failures_logged
from domain.repositories.external import ForeignDatabaseFailed
from domain.services.publication.external_metadata import OutsideWords

log = logging.getLogger("cairn.recall")


@dataclass(frozen=True)
class ExternalMetadataSweep:
    """Removes such metadata now and then. Any number of processes may do so."""

    words: OutsideWords
    every_seconds: float

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            with failures_logged(log, "words outside cannot be looked at"):
                try:
                    await self.words.recall()
                except (ForeignDatabaseFailed, SQLAlchemyError, OSError) as error:
                    facts = {"error": type(error.__cause__ or error).__name__}
                    log.warning("a look for words outside failed", extra=facts)
            await asyncio.sleep(self.every_seconds)
