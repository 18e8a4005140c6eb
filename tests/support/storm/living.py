"""A storm from its first submission to its verdict."""

import asyncio
import random
import tempfile
from collections import Counter
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any

from tests.support.storm import stories, telling
from tests.support.storm.judge import ATTEMPTS, Judge
from tests.support.storm.killer import Killer
from tests.support.storm.people import People
from tests.support.storm.stack import Stormy, calling


async def live_through(
    storm: Stormy,
    dice: random.Random,
    lanes: int,
    trouble: Coroutine[Any, Any, None],
    killer: Killer | None = None,
    told: Sequence[stories.Story] = stories.STORIES,
) -> list[str]:
    """Have people work while the trouble lasts and each story is told once; returns what is wrong in the end."""
    async with calling() as http:
        people = People(storm.stack, http, dice)
        with tempfile.TemporaryDirectory() as folder:
            await asyncio.to_thread(stories.lay_out, storm.zones, Path(folder))
        over = asyncio.Event()

        async def troubled() -> None:
            try:
                await trouble
            finally:
                over.set()

        async with telling.telling(people.journal, killer):
            await asyncio.gather(stories.load(people, over, lanes, told), troubled())
            judge = Judge(storm.stack, people, storm.zones, storm.collects)
            await judge.quiet()
            faults = await judge.verdict()
            attempts = [(number, count) for number, count in await judge.rows(ATTEMPTS)]
    heard = sum((caller.heard for caller in people.everybody), start=Counter[str]())
    if killer:
        telling.say("the storm is over\n" + telling.kills(killer))
    telling.say("what came of it\n" + telling.table(people.journal, attempts, heard, faults))
    return faults
