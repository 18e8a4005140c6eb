"""Processes of every kind of a whole stack are killed at random under a mixed load with approvals: nothing is lost.

`make storms`: every ten seconds for half an hour (CAIRN_STORM_SECONDS), with everything as it is shipped. The seed is
printed; CAIRN_SEED repeats it. Which kinds there are is read in the stack's own process table. In short, with each test
run, the same happens on a stack that is there already (`test_engine_kills.py`).
"""

import os
import random

import pytest

from tests.support.engine_chaos import PATIENCE
from tests.support.storm import telling
from tests.support.storm.killer import Killer
from tests.support.storm.living import live_through
from tests.support.storm.stack import stormy

SECONDS = float(os.environ.get("CAIRN_STORM_SECONDS") or 0)
LONG = pytest.mark.skipif(not SECONDS, reason="`make storms` takes a stack of its own")
pytestmark = [pytest.mark.stack, pytest.mark.chaos, LONG]
EVERY_SECONDS = 10.0
SETTINGS = PATIENCE if "CAIRN_STORM_SCALED" in os.environ else {}  # to look for faults on a machine that is busy
SEED = int(os.environ.get("CAIRN_SEED") or random.SystemRandom().randrange(10**6))
LANES = int(os.environ.get("CAIRN_STORM_LANES") or 8)


async def test_random_kills_lose_nothing() -> None:
    telling.say(f"CAIRN_SEED={SEED}: a kill every {EVERY_SECONDS:.0f} s for {SECONDS:.0f} s")
    dice = random.Random(SEED)  # noqa: S311 - dice, not secrets
    with stormy("kills", SETTINGS) as storm:
        killer = Killer(storm.kinds, dice)
        faults = await live_through(storm, dice, LANES, killer.rage(EVERY_SECONDS, SECONDS), killer)
    assert faults == []
    assert SECONDS < 600 or killer.spared() == set(), "kinds of process that were never hit"
