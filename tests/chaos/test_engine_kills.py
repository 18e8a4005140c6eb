"""Flow processes, workers and both together are killed at work; Prefect's server is away: every run completes.

What its ledger held as done when the kill came is not done again. CAIRN_CHAOS_RUNS is how many runs each fault hits
(30 and more in full); n and the scale of all waiting are printed. Where outages of Prefect are scaled, by
CAIRN_OUTAGE_FACTOR, its clients in this stack are less patient too: theirs is not what outlasts them.
"""

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from flows.storage import Zones
from tests.support.engine_chaos import OUTAGE_FACTOR, POOLS, SCALES, Trial, kill, until
from tests.support.outage_table import Row, note
from tests.support.storm import stories
from tests.support.storm.killer import Killer
from tests.support.storm.kinds import Kinds
from tests.support.storm.living import live_through
from tests.support.storm.stack import Stormy

pytestmark = [pytest.mark.stack, pytest.mark.chaos]
RUNS = int(os.environ.get("CAIRN_CHAOS_RUNS", "0"))
FULL = RUNS > 0
RUNS_A_KILL = max(2, RUNS // 3)  # three kills, at three points of a run's life
POINTS = (0.1, 0.5, 0.9)
ITEMS = 20
OUTAGE_RUNS = int(os.environ.get("CAIRN_OUTAGE_RUNS", "0"))
SILENT = [("silent", 60 * minutes / OUTAGE_FACTOR) for minutes in (3, 40)]
DRAINED_SECONDS = 90.0  # on a busy machine; a worker that waited for Prefect would take an hour
AWAY = [*SILENT, ("silent, workers drained", 0.0)] if OUTAGE_RUNS else [("killed", 30.0)] if FULL else [("silent", 5.0)]
STORM_SECONDS, STORM_SEED = 8.0, 4


@pytest.fixture(scope="module")
def stack(impatient_stack: Trial) -> Trial:
    return impatient_stack


def flow_processes(made: Trial, pool: str, run_ids: list[str]) -> None:
    for pid in made.flow_processes(run_ids):
        kill(pid)


def worker(made: Trial, pool: str, run_ids: list[str]) -> None:
    made.kill_services(f"worker-{pool}")


def worker_and_children(made: Trial, pool: str, run_ids: list[str]) -> None:
    """And whoever would have told the server of it."""
    services = [f"worker-{pool}", f"zygote-{pool}"]
    made.kill_services(*(name for name in services if name in made.stack.facts()["services"]))
    flow_processes(made, pool, run_ids)


Strike = Callable[[Trial, str, list[str]], None]
STRIKES: list[Strike] = [flow_processes, worker, worker_and_children]
# In short: one kill, in the middle. Workers with their children are killed by test_lost_flow_runs.
SHORT = [(flow_processes, "gdal", (0.5,))]
CASES = [(strike, pool, POINTS) for strike in STRIKES for pool in POOLS] if FULL else SHORT


@pytest.mark.parametrize(("strike", "pool", "points"), CASES)
def test_every_run_survives_kills_of_its_processes(
    stack: Trial, strike: Strike, pool: str, points: tuple[float, ...]
) -> None:
    kept = runs = again = 0
    for point in points:
        run_ids = [stack.start(f"items_{pool}", count=ITEMS) for _ in range(RUNS_A_KILL)]
        _until_begun(stack, run_ids, point)
        done = {run_id: stack.succeeded(run_id) for run_id in run_ids}
        strike(stack, pool, run_ids)
        kept += sum(map(len, done.values()))
        runs += len(run_ids)
        again += _all_is_well(stack, done)
    print(  # noqa: T201
        f"\nn = {runs} runs: {strike.__name__.replace('_', ' ')} of {pool} killed at {points}: all completed, "
        f"{kept} items that had succeeded ran once, {again} runs took another attempt ({SCALES})"
    )
    assert again > 0, "no run noticed the kill"


def _until_begun(made: Trial, run_ids: list[str], share: float) -> None:
    until(lambda: made.begun(run_ids) >= share * ITEMS * len(run_ids), 120)


def _all_is_well(made: Trial, done: dict[str, set[int]]) -> int:
    """Each run completed with every item's result, and nothing that had succeeded ran twice."""
    assert set(made.until_ended(done).values()) == {"completed"}
    for run_id, indices in done.items():
        assert made.attempts(run_id).count("committed") == 1
        assert made.succeeded(run_id) == set(range(ITEMS))
        marks = made.marks(run_id)
        assert {index: len(marks[f"each__{index}"]) for index in indices} == dict.fromkeys(indices, 1)
        results = made.record(run_id)["outputs"]["results"]
        assert [result["returns"] for result in results] == list(range(ITEMS))
    return sum(len(made.attempts(run_id)) > 1 for run_id in done)


@pytest.mark.parametrize(("how", "seconds"), AWAY)
def test_a_prefect_that_is_away_costs_no_attempt(stack: Trial, how: str, seconds: float) -> None:
    """Runs are at work when it begins, are just being taken, and come while it lasts. No process ends of it."""
    count = max(RUNS, OUTAGE_RUNS, 6) // 6
    at_work = [stack.start(workflow, count=ITEMS) for workflow in ("items_light", "items_gdal") for _ in range(count)]
    _until_begun(stack, at_work, 0.2)
    done, workers = {run_id: stack.succeeded(run_id) for run_id in at_work}, stack.workers()
    taken = [stack.start(f"items_{POOLS[number % 2]}", count=ITEMS, seconds=0.05) for number in range(count)]
    with stack.held_down("prefect") if how == "killed" else stack.silent("prefect"):
        waiting = [stack.start(f"items_{POOLS[number % 2]}", count=ITEMS, seconds=0.05) for number in range(count)]
        if "drained" in how:
            _drain(workers)
        time.sleep(seconds)
        assert "drained" in how or stack.workers() == workers, "a worker ended"
    runs = [*at_work, *taken, *waiting]
    _all_is_well(stack, done | {run_id: set() for run_id in (*taken, *waiting)})
    assert "drained" in how or stack.workers() == workers, "a worker ended"
    lost = sum(kind == "attempt.lost" for kind, _ in stack.losses(runs))
    tries = lost if "drained" in how else sum(len(stack.attempts(run_id)) - 1 for run_id in runs)
    scaled = f"(factor {OUTAGE_FACTOR:g})"
    note(Row(f"Prefect {how} for {seconds * OUTAGE_FACTOR:g} s, whole stack {scaled}", len(runs), tries, 0, tries))
    assert tries == 0, stack.losses(runs)


def _drain(workers: dict[str, int]) -> None:
    """Tell the workers to end, and wait until they have: their runs are handed over to the domain, which is there."""
    for pid in workers.values():
        os.kill(pid, signal.SIGTERM)
    took = until(lambda: not any(Path(f"/proc/{pid}/cmdline").exists() for pid in workers.values()), DRAINED_SECONDS)
    print(f"\nworkers that were told to end while Prefect was silent had ended after {took:.0f} s")  # noqa: T201


async def test_random_kills_under_a_mixed_load_lose_nothing(stack: Trial) -> None:
    """The short form of `test_random_kills.py`: a kill every two seconds, of whatever the dice say."""
    dice = random.Random(STORM_SEED)  # noqa: S311 - dice, not secrets
    running = stack.stack
    kinds, zones = Kinds.of(str(running.folder), running.facts()), Zones.local(running.folder / "storage")
    storm = Stormy(running, kinds, zones, collects=False)
    killer = Killer(storm.kinds, dice)
    trouble = killer.rage(every_seconds=2, seconds=STORM_SECONDS)
    assert await live_through(storm, dice, len(stories.SHORT), trouble, killer, stories.SHORT) == []
    assert killer.kills.total() >= STORM_SECONDS / 4
