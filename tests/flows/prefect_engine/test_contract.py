"""What Prefect shows and keeps of runs, by either engine: states, names, retries, tags, logs, spans, stops.

One plan of everything, run on a real server by a process as a worker's (`tests.support.contract_runs`).
"""

import json
from collections import Counter
from typing import Any

import pytest

from tests.support.clock import until
from tests.support.contract_runs import STEP
from tests.support.prefect_server import PrefectServer

TAGS = {"light", STEP}
ENDS = {
    "says": "Completed",
    "retried": "Completed",
    "fails": "Failed",
    "slow": "Failed",
    "left_out": "Skipped",
    "each__0": "Completed",
    "each__1": "Failed",
    "each__2": "Completed",
}


class Told:
    """What one engine's process printed, and what the server has of it."""

    def __init__(self, server: PrefectServer, engine: str) -> None:
        done = server.run_module("tests.support.contract_runs", engine, "everything")
        assert done.returncode == 0, done.stderr[-3000:]
        self.server, self.engine = server, engine
        self.said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])

    def task_runs(self, run: str) -> dict[str, dict[str, Any]]:
        wanted = {"flow_runs": {"id": {"any_": [self.said[run]]}}}
        found = self.server.http.post("/task_runs/filter", json=wanted).raise_for_status().json()
        return {one["name"]: one for one in found}

    def until_ended(self, run: str, count: int) -> dict[str, dict[str, Any]]:
        def all_there() -> bool:
            found = self.task_runs(run).values()
            return len(found) == count and all(one["end_time"] for one in found)

        until(all_there, 20, lambda: str({name: one["state_name"] for name, one in self.task_runs(run).items()}))
        return self.task_runs(run)

    def history(self, task_run: dict[str, Any]) -> list[str]:
        query = {"task_run_id": task_run["id"]}
        found = self.server.http.get("/task_run_states/", params=query).raise_for_status().json()
        return [state["name"] for state in sorted(found, key=lambda state: state["timestamp"])]


@pytest.fixture(scope="module", params=["fast", "stock"])
def told(request: pytest.FixtureRequest, workers_prefect: PrefectServer) -> Told:
    return Told(workers_prefect, request.param)


@pytest.fixture(scope="module")
def runs(told: Told) -> dict[str, dict[str, Any]]:
    found = told.until_ended("whole", len(ENDS) + 1)  # a sub-workflow's place in the graph is one more
    return {name: run for name, run in found.items() if name in ENDS}


def test_task_runs_are_named_and_end_as_their_nodes_do(runs: dict[str, dict[str, Any]]) -> None:
    assert {name: run["state_name"] for name, run in runs.items()} == ENDS


def test_engine_is_the_one_that_was_asked_for(told: Told, runs: dict[str, dict[str, Any]]) -> None:
    """Ours tells of a quick task run once; Prefect's own three times."""
    assert (
        told.history(runs["says"]) == {"fast": ["Completed"], "stock": ["Pending", "Running", "Completed"]}[told.engine]
    )


def test_sub_workflow_is_a_flow_run_inside_with_task_runs_of_its_own(told: Told) -> None:
    wanted = {"flow_runs": {"parent_flow_run_id": {"any_": [told.said["whole"]]}}}
    (inside,) = told.server.http.post("/flow_runs/filter", json=wanted).raise_for_status().json()
    assert inside["state_name"] == "Completed"
    told.said["inside"] = inside["id"]
    [nodes] = told.said["noted"]["flow_runs"].values()
    assert told.said["noted"]["flow_runs"] == {inside["id"]: nodes}, "the domain is told of it"
    assert len(nodes) == 1
    assert {name: run["state_name"] for name, run in told.until_ended("inside", 1).items()} == {
        "innermost": "Completed"
    }


def test_task_runs_carry_pool_and_handler_as_tags(runs: dict[str, dict[str, Any]]) -> None:
    assert {frozenset(run["tags"]) for run in runs.values()} == {frozenset(TAGS)}


def test_retries_are_states_and_counted(told: Told, runs: dict[str, dict[str, Any]]) -> None:
    assert {name: runs[name]["run_count"] for name in ("says", "retried", "each__1")} == {
        "says": 1,
        "retried": 3,
        "each__1": 2,
    }
    assert Counter(told.history(runs["retried"]))["AwaitingRetry"] == 2
    assert "AwaitingRetry" not in told.history(runs["fails"])
    noted = [[state, tries] for node, state, tries in told.said["noted"]["events"] if node == "retried"]
    assert noted[:5] == [["running", 1], ["ready", 1], ["running", 2], ["ready", 2], ["running", 3]]


def test_state_of_a_try_that_took_too_long_says_so(runs: dict[str, dict[str, Any]]) -> None:
    assert "took longer than its 0.2 s" in runs["slow"]["state"]["message"]
    assert "failed as asked" in runs["fails"]["state"]["message"]


def test_handlers_line_is_kept_with_its_task_run(told: Told, runs: dict[str, dict[str, Any]]) -> None:
    query = {"logs": {"flow_run_id": {"any_": [told.said["whole"]]}}}

    def lines() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = told.server.http.post("/logs/filter", json=query).raise_for_status().json()
        return [line for line in found if line["message"] == "a line of the handler"]

    until(lines, 20)
    assert [line["task_run_id"] for line in lines()] == [runs["says"]["id"]]


def test_every_task_run_is_one_span_that_ended_as_it_did_inside_its_flow_runs(
    told: Told, runs: dict[str, dict[str, Any]]
) -> None:
    spans = {span["name"]: span for span in told.said["spans"]}
    assert len(spans) == len(told.said["spans"]) == len(ENDS) + 3  # two flow runs, one task run in the inner of them
    assert spans.pop("innermost")["status"] == "OK"
    tasks = {name: span for name, span in spans.items() if span["kind"] == "task"}
    ended = {name: "OK" if end == "Completed" else "ERROR" for name, end in ENDS.items()}
    assert {name: span["status"] for name, span in tasks.items()} == ended | {"left_out": tasks["left_out"]["status"]}
    assert {name: span["run"] for name, span in tasks.items()} == {name: run["id"] for name, run in runs.items()}
    assert all(span["inside"] for span in tasks.values())
    flows = [(span["run"] == told.said["whole"], span["inside"]) for span in spans.values() if span["kind"] == "flow"]
    assert sorted(flows) == [(False, True), (True, False)]
    assert {span["status"] for span in spans.values() if span["kind"] == "flow"} == {"OK"}


def test_cancelled_run_leaves_its_work_and_its_waits_at_once(told: Told) -> None:
    ended = told.until_ended("cancelled", 2)
    assert told.server.run(told.said["cancelled"])["state_name"] == "Cancelled"
    assert told.said["cancelled_seconds"] < 60  # a node works, and waits for its next try, for ten minutes
    assert all(run["state_type"] != "COMPLETED" for run in ended.values())
