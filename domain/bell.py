"""Wakes relays after commits, at most so often. A NOTIFY inside a transaction would make all commits take turns."""

import asyncio
import logging

import psycopg

from domain.outbox import notify

log = logging.getLogger("cairn.bell")
THROTTLE_SECONDS = 0.05


class Bell:
    """Rung by every commit that leaves work; heard by every relay. A ring that gets lost costs a relay's poll."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._rung = asyncio.Event()

    def ring(self) -> None:
        self._rung.set()

    async def run(self) -> None:
        """Pass rings on until cancelled. The connection is opened by the first one."""
        while True:
            await self._rung.wait()
            try:
                async with notify(self.url) as announce:
                    while True:
                        await self._rung.wait()
                        self._rung.clear()
                        await announce()
                        await asyncio.sleep(THROTTLE_SECONDS)
            except (psycopg.Error, OSError) as error:
                log.warning("relays could not be woken", extra={"error": type(error).__name__})
                self._rung.clear()
                await asyncio.sleep(1)
