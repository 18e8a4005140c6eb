"""Each line of the workers is cut for a minute, and each disk is full for one, under the mixed load: nothing is lost.

A line is cut twice: silently, as a network fails, and with resets. In full only (`make storms`); CAIRN_CUT_SECONDS is
how long each lasts, with everything as it is shipped.
"""

import asyncio
import os
import random
from urllib.parse import urlsplit

import pytest

from deployments.stack.ports import any_port
from tests.support.azurite import Azurite
from tests.support.storm import telling
from tests.support.storm.disks import free_bytes, full
from tests.support.storm.links import How, Line, carrying
from tests.support.storm.living import live_through
from tests.support.storm.stack import stormy

SECONDS = float(os.environ.get("CAIRN_CUT_SECONDS", "0"))
LONG = pytest.mark.skipif(not SECONDS, reason="`make storms` takes stacks of its own")
pytestmark = [pytest.mark.stack, pytest.mark.chaos, LONG]
NAMES = ("postgres", "prefect", "domain", "storage")
HOWS: tuple[How, ...] = ("silent", "reset")
DISKS = {".": 3000, "storage": 1000, "tmp": 1000}  # megabytes; the first one is the database's and the logs'
USE_SECONDS = 120.0  # until somebody speaks by a line
CALM_SECONDS = SECONDS / 2  # between two
LANES = int(os.environ.get("CAIRN_STORM_LANES") or 8)


async def test_cut_lines_lose_nothing(azurite: Azurite) -> None:
    zones = await asyncio.to_thread(azurite.zones, "cuts-")
    lines = {name: Line(name, any_port()) for name in NAMES}
    elsewhere = {"storage": urlsplit(azurite.url).port or 0}
    told = azurite.settings("cuts-")
    with (
        carrying(*lines.values()) as carried,
        stormy("cuts", told, lines=list(lines.values()), zones=zones, elsewhere=elsewhere) as storm,
    ):

        async def cuts() -> None:
            for name in NAMES:
                for how in HOWS:
                    line, before = lines[name], lines[name].met
                    await line.in_use(USE_SECONDS)
                    telling.say(f"{name} is cut for {SECONDS:.0f} s ({how}), {line.passed:,} bytes have passed")
                    carried.cut(line, how)
                    await asyncio.sleep(SECONDS)
                    carried.mend(line)
                    telling.say(f"{name} is back; {line.met - before} connections met it")
                    await asyncio.sleep(CALM_SECONDS)

        faults = await live_through(storm, dice(), LANES, cuts())
    assert faults == []
    unmet = [line.name for line in lines.values() if not line.met]
    assert unmet == [], "nobody met a cut of these lines"


async def test_full_disks_lose_nothing() -> None:
    with stormy("disks", {}, DISKS) as storm:

        async def fills() -> None:
            for place in reversed(DISKS):
                folder = storm.stack.folder / place
                telling.say(f"the disk of {place!r} is full for {SECONDS:.0f} s")
                with full(folder):
                    await asyncio.sleep(SECONDS)
                    assert free_bytes(folder) < 1 << 20
                telling.say(f"the disk of {place!r} has {free_bytes(folder):,} bytes again")
                await asyncio.sleep(CALM_SECONDS)

        assert await live_through(storm, dice(), LANES, fills()) == []


def dice() -> random.Random:
    seed = int(os.environ.get("CAIRN_SEED") or random.SystemRandom().randrange(10**6))
    telling.say(f"CAIRN_SEED={seed}")
    return random.Random(seed)  # noqa: S311 - dice, not secrets
