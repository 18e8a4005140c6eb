"""Flow processes, workers and both together are killed at work; Prefect's server is away: every run completes.

What its ledger held as done when the kill came is not done again. CAIRN_CHAOS_RUNS is how many runs each fault hits
(30 and more in full); n and the scale of all waiting are printed.
"""

import os
import time
from collections.abc import Callable, Iterator

import pytest

from tests.support.engine_chaos import POOLS, SCALES, Trial, items_workflow, kill, trial, until

pytestmark = [pytest.mark.stack, pytest.mark.chaos]
RUNS = int(os.environ.get("CAIRN_CHAOS_RUNS", "0"))
FULL = RUNS > 0
RUNS_A_KILL = max(2, RUNS // 3)  # three kills, at three points of a run's life
POINTS = (0.1, 0.5, 0.9)
ITEMS = 20
OUTAGE_SECONDS = 30.0 if FULL else 5.0


@pytest.fixture(scope="module")
def stack() -> Iterator[Trial]:
    with trial("engine-kills", {f"items_{pool}": items_workflow(pool) for pool in POOLS}) as made:
        yield made


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
def test_every_run_survives(stack: Trial, strike: Strike, pool: str, points: tuple[float, ...]) -> None:
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


def test_nothing_is_lost_while_prefects_server_is_down(stack: Trial) -> None:
    """The runs go on, or are attempted again; whichever, each item's success counts once."""
    count = max(10, RUNS) if FULL else 3
    run_ids = [stack.start(f"items_{POOLS[number % 2]}", count=ITEMS) for number in range(count)]
    _until_begun(stack, run_ids, 0.3)
    done = {run_id: stack.succeeded(run_id) for run_id in run_ids}
    with stack.held_down("prefect"):
        time.sleep(OUTAGE_SECONDS)
    again = _all_is_well(stack, done)
    print(  # noqa: T201
        f"\nn = {count} runs: Prefect's server down for {OUTAGE_SECONDS:.0f} s: all completed, {again} by a new attempt"
    )
