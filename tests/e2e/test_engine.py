"""What the engine promises and only a whole stack shows: large results, pauses that cost nothing, older workers."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.engine_chaos import Trial, items_workflow, until
from tests.support.prefect_server import REPOSITORY

pytestmark = pytest.mark.stack
WORDS = 3000  # of eleven bytes each in JSON: twice what travels between the processes of a run
SILENCE_SECONDS = 10.0  # after which this stack's parents give up a child
WAIT_SECONDS = 300.0

LARGE = """
workflow_id: large
version: 1
inputs: {count: {type: integer, default: 3000}, word: {type: string, default: abcdefgh}}
nodes:
  start: {type: start, next: make}
  make: {handler: scripted, params: {returns: "{{ [inputs.word] * inputs.count }}"}, next: end}
  end: {type: end}
outputs: {words: "{{ nodes.make.output.returns }}"}
"""
COUNTED = """
workflow_id: counted
version: 1
inputs: {words: {type: array, required: true}}
nodes:
  start: {type: start, next: count}
  count: {handler: scripted, params: {returns: "{{ inputs.words | length }}"}, next: end}
  end: {type: end}
outputs: {count: "{{ nodes.count.output.returns }}", last: "{{ inputs.words | last }}"}
"""
PLAN = """
plan_id: large_then_counted
version: 1
accepts: {data_type: [raster], operation: [count_words]}
inputs: {source: {type: string, required: true}}
steps:
  - {id: large, workflow: large}
  - {id: counted, workflow: counted, depends_on: large, inputs: {words: "{{ steps.large.outputs.words }}"}}
outputs:
  words: "{{ steps.large.outputs.words }}"
  second: "{{ steps.large.outputs.words[1] }}"
  count: "{{ steps.counted.outputs.count }}"
"""
WORKFLOWS = {f"items_{pool}": items_workflow(pool) for pool in ("light", "gdal")} | {
    "large": LARGE,
    "counted": COUNTED,
    "plans/large_then_counted": PLAN,
}


@pytest.fixture(scope="module")
def made(impatient_stack: Trial) -> Trial:
    return impatient_stack


def test_a_large_result_reaches_the_next_run_and_the_partner_whole(made: Trial) -> None:
    body = {"dataset_id": "words", "resource_id": "r", "version_id": "1", "data_type": "raster"}
    body |= {"operation": "count_words", "source": "uploads/ddh/words.tif"}
    with made.stack.partner() as gateway:
        request_id = gateway.post("/api/platform/submit", json=body).raise_for_status().json()["request_id"]

        def status() -> dict[str, Any]:
            found: dict[str, Any] = gateway.get(f"/api/platform/status/{request_id}").raise_for_status().json()
            return found

        until(lambda: status()["status"] not in {"pending", "processing"}, WAIT_SECONDS)
        told = status()
    assert told["status"] == "completed", told
    assert told["result"]["outputs"] == {"words": ["abcdefgh"] * WORDS, "second": "abcdefgh", "count": WORDS}
    assert all(len(str(parameters)) < 500 for parameters in flow_parameters(made)), "Prefect is told ids only"


def flow_parameters(made: Trial) -> list[dict[str, Any]]:
    with made.stack.prefect() as http:
        runs: list[dict[str, Any]] = http.post("/flow_runs/filter", json={}).raise_for_status().json()
    assert runs
    return [run["parameters"] for run in runs]


def test_too_large_result_fails_its_run_with_a_sentence(made: Trial) -> None:
    run_id = made.start("large", count=60_000, word="a word of twenty two.")
    assert made.until_ended([run_id]) == {run_id: "failed"}
    problem = made.record(run_id)["problem"]
    assert problem["code"] == "invalid-output"
    assert "'words' alone 1,440,001; a run returns at most 1,000,000" in problem["message"]


def test_a_pause_and_a_drain_under_it_cost_no_attempt(made: Trial) -> None:
    """A child's start is held longer than a silent child is waited for, and its worker is drained meanwhile."""
    with made.held_down("worker-gdal"):
        run_id = made.start("items_gdal", count=2, seconds=0.1)
        until(lambda: children(made, run_id) == ["Scheduled"], WAIT_SECONDS)
        order(made, "pause")
    until(lambda: children(made, run_id) == ["Running"], WAIT_SECONDS)
    time.sleep(SILENCE_SECONDS + 5)
    assert (made.attempts(run_id), children(made, run_id)) == (["started"], ["Running"])
    os.kill(made.service("worker-gdal"), signal.SIGTERM)
    until(lambda: children(made, run_id) == ["HandedOver"], WAIT_SECONDS)
    time.sleep(3)
    assert children(made, run_id) == ["HandedOver"], "under a pause no other child begins"
    order(made, "resume")
    assert made.until_ended([run_id]) == {run_id: "completed"}
    assert made.attempts(run_id) == ["committed"]


def test_a_run_whose_start_is_held_when_its_worker_ends_is_taken_by_the_next(made: Trial) -> None:
    with made.held_down("worker-light"):
        run_id = made.start("items_light", count=2, seconds=0.1)
        until(lambda: made.attempts(run_id) == ["sent"], WAIT_SECONDS)
        order(made, "pause")
    until(lambda: flow_state(made, run_id) == "Running", WAIT_SECONDS)
    os.kill(made.service("worker-light"), signal.SIGTERM)
    until(lambda: flow_state(made, run_id) == "AwaitingRetry", WAIT_SECONDS)
    order(made, "resume")
    assert made.until_ended([run_id]) == {run_id: "completed"}
    assert made.attempts(run_id) == ["committed"]


def order(made: Trial, verb: str) -> None:
    with made.stack.operator() as http:
        body = {"reason": "a test"} if verb == "pause" else {}
        http.post(f"/api/v1/{verb}", json=body).raise_for_status()


def children(made: Trial, run_id: str) -> list[str]:
    """The states of its child runs, as Prefect has them."""
    with made.stack.prefect() as http:
        wanted = {"flows": {"name": {"any_": ["segment"]}}}
        runs = http.post("/flow_runs/filter", json=wanted).raise_for_status().json()
    return [run["state_name"] for run in runs if run["parameters"]["run_id"] == run_id]


def flow_state(made: Trial, run_id: str) -> str:
    [(flow_run_id,)] = made.stack.rows("select flow_run_id::text from app.attempts where run_id = %s", run_id)
    with made.stack.prefect() as http:
        return str(http.get(f"/flow_runs/{flow_run_id}").raise_for_status().json()["state_name"])


def test_a_worker_that_lacks_a_handler_leaves_the_run_to_another(made: Trial) -> None:
    pairs = Path(f"/proc/{made.service('worker-light')}/environ").read_text().split("\0")
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.older_release", "items_light", "scripted"],
        cwd=REPOSITORY,
        env=dict(pair.split("=", 1) for pair in pairs if "=" in pair),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "handler-missing This worker's image has no handler scripted" in done.stdout, done.stderr
    [(run_id, code)] = made.stack.rows(
        "select run_id::text, problem->>'code' from app.attempts where problem->>'code' = 'handler-missing'"
    )
    assert code == "handler-missing"
    assert made.until_ended([run_id]) == {run_id: "completed"}
    assert made.attempts(run_id) == ["failed", "committed"]
