"""Kills processes of every kind, by dice: the more often a kind was hit, the less likely it is hit next."""

import asyncio
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from tests.support.storm.kinds import Kinds

LOOK_SECONDS = 0.5
AGAIN_SHARE = 0.4
AGAIN_SECONDS = 1.0
WAIT_SECONDS = 6.0  # for a process of a kind that comes and goes
REPLACED_SECONDS = 20.0
SEEN_SHARE = 0.01  # of all looks; what was seen less often passes too quickly to be asked for


@dataclass
class Killer:
    """Who is killed, and how often each kind was."""

    kinds: Kinds
    dice: random.Random
    kills: "Counter[str]" = field(default_factory=Counter)
    twice: "Counter[str]" = field(default_factory=Counter)
    seen: "Counter[str]" = field(default_factory=Counter)
    missed: "Counter[str]" = field(default_factory=Counter)

    async def look(self) -> None:
        """Note which kinds there are, for ever."""
        while True:
            self.seen.update((await self._now()).keys())
            await asyncio.sleep(LOOK_SECONDS)

    async def rage(self, every_seconds: float, seconds: float) -> None:
        """Kill every so often, for so long."""
        looking = asyncio.create_task(self.look())
        try:
            began = time.monotonic()
            for number in range(1, int(seconds / every_seconds) + 1):
                await asyncio.sleep(max(0.0, began + number * every_seconds - time.monotonic()))
                await self.strike()
        finally:
            looking.cancel()

    async def strike(self) -> None:
        """One kill of some kind, sometimes of its replacement too, be it ready or not."""
        kind = self._choose(self.seen or await self._now())
        killed = await self._kill(kind, WAIT_SECONDS, but=set())
        if not killed:
            self.missed[kind] += 1
            kind = self._choose(await self._now())
            killed = await self._kill(kind, WAIT_SECONDS, but=set())
        if killed and self.dice.random() < AGAIN_SHARE:
            await asyncio.sleep(AGAIN_SECONDS)
            if await self._kill(kind, REPLACED_SECONDS, but=killed):
                self.twice[kind] += 1

    def _choose(self, among: Iterable[str]) -> str:
        kinds = sorted(among)
        return self.dice.choices(kinds, [1 / (1 + self.kills[kind] + self.missed[kind]) ** 2 for kind in kinds])[0]

    async def _kill(self, kind: str, patience_seconds: float, but: set[int]) -> set[int]:
        """Those of the kind that lived then, of which one was killed; none where none came in time."""
        end = time.monotonic() + patience_seconds
        while time.monotonic() < end:
            pids = set((await self._now()).get(kind, ())) - but
            if pids:
                with suppress(ProcessLookupError):
                    os.kill(self.dice.choice(sorted(pids)), signal.SIGKILL)
                    self.kills[kind] += 1
                    return pids
            await asyncio.sleep(0.05)
        return set()

    async def _now(self) -> dict[str, list[int]]:
        return await asyncio.to_thread(self.kinds.now)

    def spared(self) -> set[str]:
        """Kinds that were there often enough and were never hit."""
        most = max(self.seen.values(), default=0)
        return {kind for kind, looks in self.seen.items() if looks >= SEEN_SHARE * most and not self.kills[kind]}
