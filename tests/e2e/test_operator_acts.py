"""What an operator does in Prefect's UI to runs and pools, on the whole stack, does what Prefect says of it."""

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from deployments import sample
from flows.storage import Zones
from tests.flows.traces import read_marks
from tests.support.clock import until
from tests.support.quick_runs import FINAL, QuickRun, deployment, quick_run
from tests.support.stack import RunningStack

pytestmark = pytest.mark.stack
CANCELLED_SECONDS = 10.0
WORK = """
workflow_id: %s
version: 1
inputs: {seconds: {type: number, default: 0}, fails: {type: boolean, default: false}}
nodes:
  start: {type: start, next: %s}
%s  work:
    handler: scripted
    queue: %s
    params: {seconds: "{{ inputs.seconds }}", fails: "{{ 1 if inputs.fails else 0 }}"}
    retry: {max_attempts: 0}
    next: end
  end: {type: end}
"""
FIRST = "  first: {handler: echo, next: work}\n"
# At work in the worker's own process, in a flow run of the other pool, and in a child run there.
WORKFLOWS = {
    "acts_light": WORK % ("acts_light", "work", "", "light"),
    "acts_gdal": WORK % ("acts_gdal", "work", "", "gdal"),
    "acts_child": WORK % ("acts_child", "first", FIRST, "gdal"),
}
LONG = {"seconds": 120}


def begun(run: QuickRun) -> list[dict[str, Any]]:
    """The tries of its work that have begun."""
    return [mark for run_id in run.runs() for mark in read_marks(storage(run.stack) / "runs", run_id).get("work", [])]


def storage(stack: RunningStack) -> Path:
    return stack.folder / "storage"


@contextmanager
def changed(stack: RunningStack, path: str, change: Mapping[str, Any], back: Mapping[str, Any]) -> Iterator[None]:
    """Something of Prefect's is set so while the block runs."""
    with stack.prefect() as http:
        http.patch(path, json=change).raise_for_status()
        try:
            yield
        finally:
            http.patch(path, json=back).raise_for_status()


def inside(run: QuickRun) -> list[str]:
    """The states of all flow runs of its run: its own and those of its children."""
    query = "select f.flow_run_id::text from app.attempt_flow_runs f where run_id = any(%s::uuid[])"
    wanted = {"flow_runs": {"id": {"any_": [one for (one,) in run.stack.rows(query, run.runs())]}}}
    with run.stack.prefect() as http:
        found = http.post("/flow_runs/filter", json=wanted).raise_for_status().json()
    return [str(one["state_type"]) for one in found]


def cancelled_within(runs: Mapping[str, QuickRun]) -> None:
    """All are pressed, and over with all that they began, for Prefect and for the domain."""
    for run in runs.values():
        run.press("CANCELLING")

    def left() -> list[str]:
        return [f"{name}: {run.state()}" for name, run in runs.items() if not run.is_over() or set(inside(run)) - FINAL]

    until(lambda: not left(), CANCELLED_SECONDS, lambda: str(left()))
    assert {name: run.state() for name, run in runs.items()} == dict.fromkeys(runs, "Cancelled")
    for run in runs.values():
        states = [run.stack.rows("select state from app.runs where run_id = %s", run_id) for run_id in run.runs()]
        assert all(state == [("cancelled",)] for state in states), states


def test_cancelled_quick_run_is_over_soon_wherever_it_works(stack: RunningStack) -> None:
    runs = {name: quick_run(stack, name, LONG) for name in WORKFLOWS}
    for run in runs.values():
        until(partial(begun, run), 60)
    cancelled_within(runs)


def test_quick_run_that_is_cancelled_as_it_begins_is_over_soon(stack: RunningStack) -> None:
    runs = {f"{name} {number}": quick_run(stack, name, LONG) for name in WORKFLOWS for number in range(2)}
    cancelled_within(runs)


def test_paused_pool_holds_quick_runs_until_it_goes_on(stack: RunningStack) -> None:
    """One that waits can be cancelled at once."""
    with changed(stack, "/work_pools/light", {"is_paused": True}, {"is_paused": False}):
        waits, not_wanted = (quick_run(stack, "echo_test", {"message": "waited"}) for _ in range(2))
        other = quick_run(stack, "acts_gdal", {})  # of a pool that is not paused
        assert other.until_over(60) == "Completed"
        assert waits.state() in {"Scheduled", "Late"}
        cancelled_within({"waits": not_wanted})
    assert waits.until_over(60) == "Completed"
    assert waits.record()["outputs"] == {"echoed_params": {"message": "waited"}}


def test_limit_of_a_work_queue_is_kept(stack: RunningStack) -> None:
    with stack.prefect() as http:
        queue = http.get("/work_pools/light/queues/normal").raise_for_status().json()["id"]
    with changed(stack, f"/work_queues/{queue}", {"concurrency_limit": 1}, {"concurrency_limit": None}):
        runs = [quick_run(stack, "acts_light", {"seconds": 1}) for _ in range(3)]
        assert [run.until_over(90) for run in runs] == ["Completed"] * 3
    times = sorted((mark["began"], mark["ended"]) for run in runs for mark in begun(run))
    assert len(times) == 3
    assert all(ended <= began for (_, ended), (began, _) in pairwise(times)), times


@pytest.mark.parametrize("kind", ["of its own", "by name"])
def test_concurrency_limit_of_a_deployment_is_kept(stack: RunningStack, kind: str) -> None:
    """The second run waits for the first one's slot, and may be cancelled while it does."""
    path = f"/deployments/{deployment(stack, 'acts_light')['id']}"
    with limit_of_one(stack, kind) as limited, changed(stack, path, limited, dict.fromkeys(limited)):
        first = quick_run(stack, "acts_light", {"seconds": 6})
        until(partial(begun, first), 60)
        second = quick_run(stack, "acts_light", {})
        until(lambda: second.state() == "AwaitingConcurrencySlot", 30, second.state)
        assert second.runs() == []
        cancelled_within({"second": second})
        assert first.until_over(60) == "Completed"
        assert quick_run(stack, "acts_light", {}).until_over(60) == "Completed"


@contextmanager
def limit_of_one(stack: RunningStack, kind: str) -> Iterator[dict[str, Any]]:
    """What a deployment is told."""
    if kind == "of its own":
        yield {"concurrency_limit": 1}
        return
    with stack.prefect() as http:
        limit = {"name": "operators", "limit": 1}
        made = http.post("/v2/concurrency_limits/", json=limit).raise_for_status().json()["id"]
        yield {"global_concurrency_limit_id": made}
        http.delete(f"/v2/concurrency_limits/{made}").raise_for_status()


def test_retry_of_a_failed_quick_run_does_the_work_again(stack: RunningStack, tmp_path: Path) -> None:
    source = "uploads/operators/late.tif"
    run = quick_run(stack, "validate_dataset", {"source": source})
    assert run.until_over(90) == "Failed"
    sample.write(tmp_path / "late.tif", 3, size=256)
    Zones.local(storage(stack)).bronze.put_file(source, tmp_path / "late.tif")
    run.press("SCHEDULED")
    until(lambda: run.shown()["run_count"] > 1 and run.is_over(), 90)
    assert (run.state(), run.record()["state"]) == ("Completed", "completed")
    assert [attempt["number"] for attempt in run.record()["attempts"]] == [1, 2]


def test_schedule_of_a_deployment_makes_internal_requests(stack: RunningStack) -> None:
    there = deployment(stack, "echo_test")["id"]
    body = [{"schedule": {"interval": 1}, "active": True, "parameters": {"message": "by schedule"}}]
    query = (
        "select q.is_internal, q.status from app.runs r join app.requests q using (request_id)"
        " where r.inputs->>'message' = 'by schedule'"
    )
    with stack.prefect() as http:
        [schedule] = http.post(f"/deployments/{there}/schedules", json=body).raise_for_status().json()
        try:
            until(lambda: (True, "completed") in stack.rows(query), 90)
        finally:
            http.delete(f"/deployments/{there}/schedules/{schedule['id']}").raise_for_status()


STOCK_EVENTS = ("flow-run.Completed", "flow-run.Failed", "flow-run.Crashed", "task-run.Completed", "task-run.Failed")


def test_automations_on_stock_events_fire(stack: RunningStack) -> None:
    """Each runs a deployment, as an operator may have it: the run that it starts is what is looked for."""
    echo = deployment(stack, "echo_test")["id"]
    with stack.prefect() as http:
        made = [
            http.post("/automations/", json=automation(event, echo)).raise_for_status().json()["id"]
            for event in STOCK_EVENTS
        ]
    good, bad, killed = (quick_run(stack, "acts_gdal", inputs) for inputs in ({}, {"fails": True}, LONG))
    try:
        assert (good.until_over(90), bad.until_over(90)) == ("Completed", "Failed")
        until(partial(begun, killed), 90)
        kill_process_of(killed.flow_run_id)
        query = "select distinct inputs->>'message' from app.runs where inputs->>'message' like 'seen %%'"
        seen = partial(stack.rows, query)
        until(
            lambda: {word for (word,) in seen()} == {f"seen {event}" for event in STOCK_EVENTS},
            120,
            lambda: str(seen()),
        )
        assert killed.state() == "Crashed"
    finally:
        with stack.prefect() as http, stack.operator() as domain:
            for one in made:
                http.delete(f"/automations/{one}").raise_for_status()
            domain.post(f"/api/v1/runs/{killed.run_id()}/cancel", json={"reason": "seen"}).raise_for_status()


def automation(event: str, runs: str) -> dict[str, Any]:
    """For a flow run of `acts_gdal`; for a task run, which names its flow run and nothing else, by its own name."""
    of_flow = {"prefect.resource.role": "flow", "prefect.resource.name": "acts_gdal"}
    is_task = event.startswith("task-run")
    match = {"prefect.resource.id": "prefect.task-run.*", "prefect.resource.name": "work"}
    return {
        "name": f"operators: {event}",
        "trigger": {
            "type": "event",
            "posture": "Reactive",
            "expect": [f"prefect.{event}"],
            "match": match if is_task else {"prefect.resource.id": "prefect.flow-run.*"},
            "match_related": {} if is_task else of_flow,
            "threshold": 1,
            "within": 0,
        },
        "actions": [
            {
                "type": "run-deployment",
                "source": "selected",
                "deployment_id": runs,
                "parameters": {"message": f"seen {event}"},
            }
        ],
    }


def kill_process_of(flow_run_id: str) -> None:
    """SIGKILL to the process that its worker started for it."""
    wanted = f"PREFECT__FLOW_RUN_ID={flow_run_id}".encode()
    found = []
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            with suppress(OSError):
                if wanted in (place / "environ").read_bytes().split(b"\0"):
                    found.append(int(place.name))
    assert found
    for pid in found:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
