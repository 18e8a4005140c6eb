"""SIGKILL before and after every commit on a request's way, and answers that Prefect never gave: nothing is lost.

Domain processes, their relays and the database are real. Prefect is a stand-in (`tests/support/prefect_standin.py`), so
what is shown is our side: leases, fences, keys and the reconciler. CAIRN_CHAOS_RUNS sets how many runs a place sees.
"""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from domain.failpoints import NAMES
from tests.support.chaos import LEASE_SECONDS, SCALES, platform
from tests.support.chaos_stories import new_asset, next_versions
from tests.support.cluster import TestDatabase

pytestmark = pytest.mark.chaos
RUNS = int(os.environ.get("CAIRN_CHAOS_RUNS", "5"))
RUNS_A_KILL = 5
MOST_TRIES = 60
FROZEN_LEASES = 1.5


async def test_kill_at_any_point_loses_and_doubles_nothing(database: TestDatabase, tmp_path: Path) -> None:
    """One process stays; another is armed, used until it dies at its place, and not missed."""
    async with platform(database, tmp_path, lively=True) as made:
        kills = 0
        for place in NAMES:
            before = len(made.journal)
            while len(made.journal) - before < RUNS:
                armed = await made.start(place)
                await asyncio.gather(*(made.live() for _ in range(RUNS_A_KILL)))
                tries = 0
                while not armed.dead and tries < MOST_TRIES:
                    await made.live()
                    await asyncio.sleep(0.1)
                    tries += 1
                assert armed.killed, f"nothing died at {place} in {tries} submissions"
                made.processes.remove(armed)
                kills += 1
        await made.rest()
        print(f"\n{kills} kills at {len(NAMES)} places, n = {len(made.journal)} runs ({SCALES})")  # noqa: T201
        print(made.deeds())  # noqa: T201
        assert made.violations() == {}
        assert all(made.deeds().values())


async def test_answers_that_prefect_never_gave_make_no_second_run(database: TestDatabase, tmp_path: Path) -> None:
    """More than half of all creations are carried out and then not answered: about as many as there are runs."""
    runs = max(20, RUNS * 10)
    async with platform(database, tmp_path, drop_rate=0.55, lively=True) as made:
        await made.start()
        for _ in range(0, runs, 10):
            await asyncio.gather(*(made.live() for _ in range(10)))
        await made.rest()
        print(f"\n{made.standin.dropped} answers dropped, n = {len(made.journal)} runs ({SCALES})")  # noqa: T201
        assert made.standin.dropped > runs / 2
        assert made.violations() == {}


async def test_a_frozen_relay_that_wakes_up_sends_nothing_twice(database: TestDatabase, tmp_path: Path) -> None:
    """One of two processes stops for longer than its leases last, then goes on where it was."""
    async with platform(database, tmp_path, lively=True) as made:
        frozen = await made.start()
        rounds = max(2, RUNS // 5)
        for _ in range(rounds):
            submitting = asyncio.gather(*(made.live() for _ in range(10)))
            await asyncio.sleep(0.1)
            frozen.send(signal.SIGSTOP)
            await submitting
            await asyncio.sleep(FROZEN_LEASES * LEASE_SECONDS)
            frozen.send(signal.SIGCONT)
        await made.rest()
        print(f"\n{rounds} freezes of {FROZEN_LEASES} leases, n = {len(made.journal)} runs ({SCALES})")  # noqa: T201
        assert made.violations() == {}


async def test_invariants_find_a_planted_violation(database: TestDatabase, tmp_path: Path) -> None:
    """A control: what the checks are for, done on purpose."""
    async with platform(database, tmp_path) as made:
        await made.submit()
        await made.rest()
        assert made.violations() == {}
        made.rows("update app.attempts set state = 'fenced', flow_run_id = null returning 1")
        made.journal.append("never sent")
        assert set(made.violations()) == {
            "I1 every intended request is there",
            "I3 one accepted commit a run",
            "I4 nothing is left to send, nothing sent is unlinked",
            "I4 links and flow runs agree",
            "I5 no late or fenced attempt has made what a revision holds",
        }


async def test_invariants_of_order_find_a_planted_violation(database: TestDatabase, tmp_path: Path) -> None:
    """A control: versions out of order, a product nobody approved, a late product, a second end."""
    async with platform(database, tmp_path) as made:
        refs = new_asset()
        await next_versions(made, refs, await made.submit(refs=refs))
        await made.rest()
        assert made.rows("select count(*) from app.asset_versions where served_revision = 1") == [(2,)]
        assert made.violations() == {}
        made.rows("update app.asset_versions set created_at = now() + interval '1 hour' where ordinal = 0 returning 1")
        made.rows("update app.asset_versions set served_revision = 1 where ordinal = 2 returning 1")
        made.rows("update app.revisions set content_hash = 'late' where ordinal = 1 returning 1")
        made.rows(
            "insert into app.events (request_id, kind) select request_id, 'request.failed' from app.requests"
            " returning 1"
        )
        assert set(made.violations()) == {
            "I5 ordinals follow acceptance",
            "I5 what is approved and complete is served, and nothing else",
            "I5 no late or fenced attempt has made what a revision holds",
            "I6 a request ends once, and once more where it was opened again",
        }
