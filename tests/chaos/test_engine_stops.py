"""Cancelling in every state, SIGTERM at work, pools too small for their parents, pools that nobody serves.

CAIRN_CHAOS_RUNS sets how often each (30 cancellations and more in full); n is printed.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from tests.support import clock
from tests.support.engine_chaos import POOLS, SCALES, Trial, command, items_workflow, until

pytestmark = [pytest.mark.stack, pytest.mark.chaos]
RUNS = int(os.environ.get("CAIRN_CHAOS_RUNS", "0"))
FULL = RUNS > 0
CANCELLED_SECONDS = 10.0
UNROUTABLE_SECONDS = 30.0
LIMIT = 2
FINAL = {"COMPLETED", "FAILED", "CRASHED", "CANCELLED"}

RETRYING = """
workflow_id: retrying
version: 1
nodes:
  start: {type: start, next: a}
  a: {handler: scripted, params: {fails: null}, retry: {max_attempts: 5, delays_seconds: [60]}, next: end}
  end: {type: end}
"""
HEEDLESS = """
workflow_id: heedless
version: 1
nodes:
  start: {type: start, next: a}
  a: {handler: scripted, queue: gdal, params: {seconds: 60, heedless: true}, next: end}
  end: {type: end}
"""
PHASES = """
workflow_id: phases
version: 1
nodes:
  start: {type: start, next: a}
  a: {handler: multi_phase, queue: %s, params: {phases: 12, seconds_per_phase: 0.5}, next: end}
  end: {type: end}
outputs: {resumed_at: "{{ nodes.a.output.resumed_at }}", phases_run: "{{ nodes.a.output.phases_run }}"}
"""
OUTER = """
workflow_id: outer
version: 1
nodes:
  start: {type: start, next: inside}
  inside: {type: workflow, workflow: items_gdal, inputs: {count: 4, seconds: 0.2}, next: end}
  end: {type: end}
outputs: {results: "{{ nodes.inside.output.results }}"}
"""
INSIDE = """
workflow_id: inside
version: 1
nodes:
  start: {type: start, next: a}
  a: {type: workflow, workflow: phases_light, next: end}
  end: {type: end}
outputs: {resumed_at: "{{ nodes.a.output.resumed_at }}", phases_run: "{{ nodes.a.output.phases_run }}"}
"""
NESTED = """
workflow_id: nested
version: 1
nodes:
  start: {type: start, next: each}
  each:
    type: fan_out
    source: [2, 3, 4]
    task: {type: workflow, workflow: items_gdal, inputs: {count: "{{ item }}", seconds: 1}}
    next: all
  all: {type: fan_in, next: end}
  end: {type: end}
outputs: {results: "{{ nodes.all.output.results }}"}
"""
WORKFLOWS = {f"items_{pool}": items_workflow(pool) for pool in POOLS} | {
    "retrying": RETRYING,
    "heedless": HEEDLESS,
    "outer": OUTER,
    "nested": NESTED,
    "inside": INSIDE,
    **{f"phases_{pool}": (PHASES % pool).replace("id: phases", f"id: phases_{pool}") for pool in POOLS},
}


@pytest.fixture(scope="module")
def stack(impatient_stack: Trial) -> Trial:
    """Whole: other files kill its services, and what is promised here is promised of services that are up."""
    impatient_stack.until_whole()
    return impatient_stack


def test_a_cancelled_run_is_over_soon_and_leaves_no_process(stack: Trial) -> None:
    """By the domain and by Prefect in turns, before it starts, between tries, at work, waiting for a child run."""
    rounds = max(1, -(-RUNS // (len(STATES) * 2))) if FULL else 1
    slowest, count, resident = 0.0, 0, stack.workers_processes()
    for _ in range(rounds):
        for order in (by_the_domain, by_prefect):
            begun = {state: begin(stack) for state, begin in STATES.items()}
            for state, run_id in begun.items():
                until(partial(REACHED[state], stack, run_id), 60)
            for run_id in begun.values():
                order(stack, run_id)
            ordered = time.monotonic()
            for run_id in begun.values():
                until(partial(is_over, stack, run_id), CANCELLED_SECONDS - (time.monotonic() - ordered))
            slowest, count = max(slowest, time.monotonic() - ordered), count + len(begun)
            assert {stack.state(run_id) for run_id in begun.values()} == {"cancelled"}
            left = CANCELLED_SECONDS - (time.monotonic() - ordered)
            clock.until(lambda: stack.workers_processes() <= resident, left, lambda: told(stack, resident))
    print(f"\nn = {count} runs cancelled in {len(STATES)} states: over within {slowest:.1f} s, no process left")  # noqa: T201


def told(made: Trial, resident: set[int]) -> str:
    """Which processes of the workers were not there before."""
    more = made.workers_processes() - resident
    return "left: " + ", ".join(f"{pid} ({command(pid)})" for pid in more)


def by_the_domain(made: Trial, run_id: str) -> None:
    with made.stack.operator() as http:
        http.post(f"/api/v1/runs/{run_id}/cancel", json={"reason": "a test"}).raise_for_status()


def by_prefect(made: Trial, run_id: str) -> None:
    """What its UI does; a run that it does not know yet is the domain's to cancel."""
    flow_run_id = newest_flow_run(made, run_id)
    if flow_run_id is None:
        by_the_domain(made, run_id)
        return
    body = {"state": {"type": "CANCELLING", "name": "Cancelling"}, "force": False}
    with made.stack.prefect() as http:
        http.post(f"/flow_runs/{flow_run_id}/set_state", json=body).raise_for_status()


def newest_flow_run(made: Trial, run_id: str) -> str | None:
    rows = made.stack.rows("select flow_run_id::text from app.attempts where run_id = %s order by number desc", run_id)
    found: str | None = rows[0][0] if rows else None
    return found


def is_over(made: Trial, run_id: str) -> bool:
    """For the domain, and for all flow runs of it in Prefect."""
    if made.state(run_id) in {"pending", "running"}:
        return False
    query = """select flow_run_id::text from app.attempts where run_id = %s and flow_run_id is not null
               union select flow_run_id::text from app.attempt_flow_runs where run_id = %s"""
    ids = [flow_run_id for (flow_run_id,) in made.stack.rows(query, run_id, run_id)]
    with made.stack.prefect() as http:
        wanted = {"flow_runs": {"id": {"any_": ids}}}
        runs: list[dict[str, Any]] = http.post("/flow_runs/filter", json=wanted).raise_for_status().json()
    return all(run["state_type"] in FINAL for run in runs)


STATES: dict[str, Callable[[Trial], str]] = {
    "just accepted": lambda made: made.start("items_light", seconds=30),
    "sent": lambda made: made.start("items_light", seconds=30),
    "at work": lambda made: made.start("items_light", seconds=30),
    "between tries": lambda made: made.start("retrying"),
    "child dispatched": lambda made: made.start("items_gdal", seconds=30),
    "child at work": lambda made: made.start("items_gdal", seconds=30),
    "heeding nothing": lambda made: made.start("heedless"),
}
REACHED: dict[str, Callable[[Trial, str], bool]] = {
    "just accepted": lambda made, run_id: True,
    "sent": lambda made, run_id: newest_flow_run(made, run_id) is not None,
    "at work": lambda made, run_id: made.begun([run_id]) > 0,
    "between tries": lambda made, run_id: "a" in made.marks(run_id),
    "child dispatched": lambda made, run_id: "ended" in (made.marks(run_id).get("first") or [{}])[0],
    "child at work": lambda made, run_id: made.begun([run_id]) > 0,
    "heeding nothing": lambda made, run_id: "a" in made.marks(run_id),
}


@pytest.mark.parametrize("pool", POOLS)
def test_a_worker_told_to_stop_loses_no_phase(stack: Trial, pool: str) -> None:
    """SIGTERM for the worker: the phases that were saved are not run again, and the hand-over costs no attempt."""
    resumed = [at for _ in range(max(5, RUNS // 6) if FULL else 1) for at in handed_over(stack, pool)]
    print(f"\nn = {len(resumed)} runs on {pool} handed over, resumed at {resumed} ({SCALES})")  # noqa: T201


def handed_over(made: Trial, pool: str) -> list[int]:
    """At which phases two runs go on that a worker gives up. More would end before the last of them began.

    On light, one of them does its phases in a sub-workflow.
    """
    run_ids = [made.start("inside" if pool == "light" else "phases_gdal"), made.start(f"phases_{pool}")]
    until(lambda: all(made.store.names(f"{run_id}/m1/checkpoints") for run_id in run_ids), 60)
    os.kill(made.service(f"worker-{pool}"), signal.SIGTERM)
    assert set(made.until_ended(run_ids).values()) == {"completed"}
    outputs = [made.record(run_id)["outputs"] for run_id in run_ids]
    assert all(told["resumed_at"] > 0 for told in outputs), outputs
    assert all(told["phases_run"] == list(range(told["resumed_at"], 12)) for told in outputs)
    assert losses(made, run_ids) == 0
    return [told["resumed_at"] for told in outputs]


def losses(made: Trial, run_ids: list[str]) -> int:
    """How often an attempt of these runs was taken for lost. Handing over is none."""
    query = "select count(*) from app.events where run_id = any(%s) and kind = 'attempt.lost'"
    [(count,)] = made.stack.rows(query, run_ids)
    return int(count)


@contextmanager
def small_pools(made: Trial) -> Iterator[None]:
    """Each pool takes two flow runs at a time while the block runs."""
    with made.stack.prefect() as http:

        def limit(most: int | None) -> None:
            for pool in POOLS:
                http.patch(f"/work_pools/{pool}", json={"concurrency_limit": most}).raise_for_status()

        limit(LIMIT)
        try:
            yield
        finally:
            limit(None)


def test_a_small_pool_full_of_parents_finishes(stack: Trial) -> None:
    """Both pools are small; each run has a sub-workflow that has a child on the other pool."""
    count = 10 if FULL else 5
    with small_pools(stack):
        run_ids = [stack.start("outer") for _ in range(count)]
        assert set(stack.until_ended(run_ids).values()) == {"completed"}
    print(f"\nn = {count} parents through pools of {LIMIT}: all completed")  # noqa: T201


def test_small_pools_full_of_nested_fan_outs_are_drained_and_finish(stack: Trial) -> None:
    """Fan-outs of sub-workflows that fan out on the other pool; both workers are told to stop in the midst of it."""
    count = 6 if FULL else 3
    with small_pools(stack):
        run_ids = [stack.start("nested") for _ in range(count)]
        until(lambda: any(stack.marks(run_id) for run_id in run_ids), 60)
        for pool in POOLS:
            os.kill(stack.service(f"worker-{pool}"), signal.SIGTERM)
        assert set(stack.until_ended(run_ids).values()) == {"completed"}
    for run_id in run_ids:
        told = [inner["results"] for inner in stack.record(run_id)["outputs"]["results"]]
        assert [[item["returns"] for item in items] for items in told] == [list(range(length)) for length in (2, 3, 4)]
    assert losses(stack, run_ids) == 0
    print(f"\nn = {count} runs of nested fan-outs through pools of {LIMIT}, drained at work: none lost")  # noqa: T201


def test_run_with_a_node_for_an_unserved_pool_is_marked_unroutable(stack: Trial) -> None:
    """Also where it is a sub-workflow's."""
    with stack.held_down("worker-gdal"):
        run_ids = [stack.start("items_gdal", count=2, seconds=0.1), stack.start("outer")]
        took = until(lambda: reasons(stack, run_ids) == ["unroutable"] * 2, UNROUTABLE_SECONDS + 10)
    assert set(stack.until_ended(run_ids).values()) == {"completed"}
    until(lambda: reasons(stack, run_ids) == [None, None], UNROUTABLE_SECONDS)
    print(f"\nunroutable after {took:.1f} s; completed once the pool was served again")  # noqa: T201
    assert took <= UNROUTABLE_SECONDS


def reasons(made: Trial, run_ids: list[str]) -> list[str | None]:
    return [made.record(run_id)["reason"] for run_id in run_ids]
