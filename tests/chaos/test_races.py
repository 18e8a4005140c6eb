"""Racing decisions and repeated, reordered outcomes on two domain processes: of each, one is taken.

CAIRN_CHAOS_RUNS is the number of rounds of decisions; outcomes see five times as many runs. n is printed.
"""

import asyncio
import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support.chaos import OUTPUTS, Platform, Process, platform
from tests.support.cluster import TestDatabase

pytestmark = pytest.mark.chaos
FULL = int(os.environ.get("CAIRN_CHAOS_RUNS", "0"))
ROUNDS = max(20, FULL) if FULL else 5
RUNS = ROUNDS * 5 if FULL else 10
DECISIONS = 20
REPEATS = 5
WAIT_SECONDS = 30.0
DECIDED = {
    "approve": {"revision": 1, "clearance_level": "ouo"},
    "reject": {"revision": 1, "reason": "not this one"},
}
FAILED = {"problem": {"code": "broken-raster", "message": "It is broken."}}
REVISION = """
    select r.approval, v.served_revision from app.revisions r join app.asset_versions v using (asset_id, ordinal)
    where asset_id = %s"""
ENDED = """
    select r.state, a.state, q.status, (
        select string_agg(e.kind, ' ' order by e.kind) from app.events e where e.request_id = r.request_id
        and e.kind in ('run.completed', 'run.failed', 'request.completed', 'request.failed'))
    from app.runs r join app.attempts a using (run_id) join app.requests q using (request_id) where run_id = %s"""


async def test_one_of_several_racing_decisions_is_taken(database: TestDatabase, tmp_path: Path) -> None:
    async with platform(database, tmp_path) as made:
        pair = [*made.processes, await made.start()]
        winners: Counter[str] = Counter()
        for _ in range(ROUNDS):
            await made.submit()
            await made.rest()
            [(asset_id,)] = made.rows("select asset_id from app.requests order by created_at desc limit 1")
            winners[await _decide(made, pair, asset_id)] += 1
        print(f"\nn = {ROUNDS} rounds of {DECISIONS} decisions, taken: {dict(winners)}")  # noqa: T201
        decided = made.rows(
            "select request_id from app.events where kind in ('revision.approved', 'revision.rejected')"
        )
        assert len(decided) == len(set(decided)) == ROUNDS


async def _decide(made: Platform, pair: list[Process], asset_id: str) -> str:
    """Half approve and half reject, over both processes; returns what was taken."""
    verbs = ["approve", "approve", "reject", "reject"] * (DECISIONS // 4)
    random.shuffle(verbs)
    path = f"/assets/{asset_id}/versions/0"
    answers = await asyncio.gather(
        *(made.ask("reviewer", f"{path}/{verb}", DECIDED[verb], pair[n % 2]) for n, verb in enumerate(verbs))
    )
    assert Counter(answer.status_code for answer in answers) == {200: 1, 409: DECISIONS - 1}
    assert {answer.json()["code"] for answer in answers if answer.status_code == 409} == {"not-reviewable"}
    [taken] = [verb for verb, answer in zip(verbs, answers, strict=True) if answer.is_success]
    [(approval, served)] = made.rows(REVISION, asset_id)
    assert (approval, served) == {"approve": ("approved", 1), "reject": ("rejected", None)}[taken]
    return taken


async def test_repeated_and_reordered_outcomes_change_a_state_once(database: TestDatabase, tmp_path: Path) -> None:
    """Each run's start, commit and failure are said five times each, shuffled, at both processes at once."""
    async with platform(database, tmp_path, working=False) as made:
        pair = [*made.processes, await made.start()]
        ends: Counter[str] = Counter()
        for _ in range(RUNS):
            await made.submit()
            async with asyncio.timeout(WAIT_SECONDS):
                run = await made.standin.created.get()
            ends[await _outcome(made, pair, run)] += 1
        await made.rest()
        print(f"\nn = {RUNS} runs, every message {REPEATS} times, ends: {dict(ends)}")  # noqa: T201
        assert made.rows("select 1 from app.requests where status not in ('completed', 'failed')") == []
        assert made.rows("select run_id from app.attempts group by run_id having count(*) <> 1") == []


async def _outcome(made: Platform, pair: list[Process], run: dict[str, Any]) -> str:
    """Say everything, out of order; then in order, as a worker that heard no answer would. Returns how it ended."""
    run_id, token = run["parameters"]["run_id"], {"attempt_token": run["parameters"]["attempt_token"]}
    start = ("start", token | {"flow_run_id": run["id"]})
    outcomes = [("commit", token | {"outputs": OUTPUTS}), ("fail", token | FAILED)]
    random.shuffle(outcomes)
    messages = [start, *outcomes] * REPEATS
    random.shuffle(messages)
    answers = await asyncio.gather(
        *(made.ask("worker", f"/runs/{run_id}/{verb}", body, pair[n % 2]) for n, (verb, body) in enumerate(messages))
    )
    answers += [await made.ask("worker", f"/runs/{run_id}/{verb}", body) for verb, body in (start, *outcomes)]
    assert {answer.status_code for answer in answers} <= {200, 409}
    assert {answer.json()["code"] for answer in answers if answer.status_code == 409} <= {"attempt-fenced"}
    [(state, attempt, status, ends)] = made.rows(ENDED, run_id)
    assert attempt == {"completed": "committed", "failed": "failed"}[state]
    assert status == state
    assert ends == f"request.{state} run.{state}"
    return str(state)
