"""What a storm says about itself: a line every half minute, and a table at its end."""

import asyncio
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from tests.support.storm.journal import Journal
from tests.support.storm.killer import Killer

EVERY_SECONDS = 30.0
MOST_FAULTS = 40


def say(words: str) -> None:
    sys.stdout.write(f"{time.strftime('%H:%M:%S')} {words}\n")
    sys.stdout.flush()


@asynccontextmanager
async def telling(journal: Journal, killer: Killer | None = None) -> AsyncIterator[None]:
    """Tell how it stands while the block runs."""
    began = time.monotonic()

    async def tell() -> None:
        while True:
            await asyncio.sleep(EVERY_SECONDS)
            killed = f"{killer.kills.total()} killed, " if killer else ""
            say(f"{time.monotonic() - began:5.0f} s: {killed}{standing(journal)}")

    teller = asyncio.create_task(tell())
    try:
        yield
    finally:
        teller.cancel()


def standing(journal: Journal) -> str:
    under_way = sum(not entry.ended for entry in journal.accepted)
    wrong = len(journal.accepted) - len(journal.ended) - under_way
    return (
        f"n = {len(journal.accepted)} accepted, {len(journal.ended)} ended as they should, {under_way} under way, "
        f"{wrong} ended otherwise, {len(journal.faults)} wrong answers"
    )


def table(journal: Journal, attempts: Iterable[tuple[int, int]], heard: "Counter[str]", faults: list[str]) -> str:
    """By story: how many were accepted and how they ended."""
    lines = [f"{'story':<18}{'accepted':>9}  ended"]
    stories = sorted({entry.story for entry in journal.accepted})
    for story in stories:
        ended = Counter(entry.ended or "open" for entry in journal.accepted if entry.story == story)
        told = ", ".join(f"{count} {how}" for how, count in sorted(ended.items()))
        lines.append(f"{story:<18}{ended.total():>9}  {told}")
    lines.append(f"decisions: {dict(sorted(journal.deeds.items()))}")
    lines.append(f"runs by number of attempts: {dict(sorted(attempts))}")
    lines.append(f"answers heard: {dict(sorted(heard.items()))}")
    lines.append(standing(journal))
    lines += [f"fault: {fault}" for fault in faults[:MOST_FAULTS]]
    lines.append(f"{len(faults)} faults")
    return "\n".join(lines)


def kills(killer: Killer) -> str:
    """By kind: how often it was there, was killed, and was killed again a second later."""
    lines = [f"{'kind':<42}{'seen':>6}{'killed':>8}{'twice in a row':>16}"]
    for kind, seen in sorted(killer.seen.items()):
        lines.append(f"{kind:<42}{seen:>6}{killer.kills[kind]:>8}{killer.twice[kind]:>16}")
    lines.append(f"{'all':<42}{'':>6}{killer.kills.total():>8}{killer.twice.total():>16}")
    return "\n".join(lines)
