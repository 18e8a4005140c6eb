"""Listens for what the database tells all readers: decisions, withdrawn credentials, `cache.invalidate`."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

import psycopg
from psycopg import sql

from domain.contracts.news import CACHE_CHANNEL
from domain.shared.database_address import DatabaseAddress

log = logging.getLogger("cairn.serving.news")
RETRY_SECONDS = 1.0


@dataclass(frozen=True)
class News:
    """One connection that only listens. While it is away, remembered answers are short-lived or forgotten."""

    address: DatabaseAddress
    heard: Callable[[], None]

    async def run(self) -> None:
        """Listen until cancelled."""
        while True:
            try:
                await self._listen()
            except (psycopg.Error, OSError) as error:
                log.warning("news of decisions cannot be heard", extra={"error": type(error).__name__})
            self.heard()
            await asyncio.sleep(RETRY_SECONDS)

    async def _listen(self) -> None:
        async with await self.address.connect(autocommit=True, application_name="cairn-serving-news") as connection:
            await connection.execute(sql.SQL("listen {}").format(sql.Identifier(CACHE_CHANNEL)))
            self.heard()  # what was told before nobody heard
            async for _ in connection.notifies():
                self.heard()
