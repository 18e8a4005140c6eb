"""What a whole stack tells of a run afterwards: each transition, what did each stage, what it measured and cost.

And that a part of it can be run again on what it returned.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from flows.storage import Zones
from tests.support import vectors
from tests.support.clock import until
from tests.support.stack import RunningStack

pytestmark = pytest.mark.stack
VECTOR = "uploads/operators/history.gpkg"
INNER = """
workflow_id: history_inner
version: 1
nodes:
  start: {type: start, next: work}
  work: {handler: scripted, params: {returns: 7}, next: end}
  end: {type: end}
outputs: {seven: "{{ nodes.work.output.returns }}"}
"""
OUTER = """
workflow_id: history_outer
version: 1
nodes:
  start: {type: start, next: [first, inside, many]}
  first: {handler: scripted, params: {fails: 1, returns: {word: hello}}, retry: {delays_seconds: [0.1]}, next: last}
  inside: {type: workflow, workflow: history_inner, next: last}
  many:
    type: fan_out
    source: [1, 2, 3]
    task: {handler: scripted, params: {fails: 1, returns: "{{ item }}"}, retry: {delays_seconds: [0.1]}}
    next: all
  all: {type: fan_in, aggregation: sum, next: last}
  last:
    handler: scripted
    params:
      returns:
        - "{{ nodes.first.output.returns.word }}"
        - "{{ nodes.inside.output.seven }}"
        - "{{ nodes.all.output.total }}"
    next: end
  end: {type: end}
outputs: {all: "{{ nodes.last.output.returns }}"}
"""
WORKFLOWS = {"history_inner": INNER, "history_outer": OUTER}
RETURNED = ["hello", 7, 6]


def ran(stack: RunningStack, workflow: str, **order: Any) -> dict[str, Any]:
    """The record of an operator's run once it has completed."""
    with stack.operator() as domain:
        body = {"workflow_id": workflow, **order}
        run_id = domain.post("/api/v1/runs", json=body).raise_for_status().json()["run_id"]

        def record() -> dict[str, Any]:
            found: dict[str, Any] = domain.get(f"/api/v1/runs/{run_id}").raise_for_status().json()
            return found

        until(lambda: record()["state"] not in {"pending", "running"}, seconds=300)
        ended = record()
    assert ended["state"] == "completed", ended["problem"]
    return ended


@pytest.fixture(scope="module")
def outer(shared_stack: RunningStack) -> dict[str, Any]:
    return ran(shared_stack, "history_outer")


def events(stack: RunningStack, run_id: str) -> list[dict[str, Any]]:
    with stack.operator() as operator:  # whose token opens the gateway as well
        address = f"{stack.url('gateway')}/api/status/job/{run_id}/events"
        found: list[dict[str, Any]] = operator.get(address, params={"limit": 500}).raise_for_status().json()["events"]
    return found


def test_each_transition_of_a_run_is_an_event_and_retries_say_why(
    shared_stack: RunningStack, outer: dict[str, Any]
) -> None:
    assert outer["outputs"] == {"all": RETURNED}
    told = [each for each in events(shared_stack, outer["run_id"]) if each["kind"].startswith("node.")]
    of_first = [(each["kind"], each["details"].get("tries")) for each in told if each["details"]["node"] == "first"]
    assert of_first == [("node.running", 1), ("node.ready", 1), ("node.running", 2), ("node.completed", 2)]
    [waits] = [each for each in told if each["kind"] == "node.ready"]
    assert waits["details"]["problem"]["code"]
    [*_, many] = [each["details"] for each in told if each["details"]["node"] == "many"]
    assert (many["items"]["done"], many["items"]["retried"], many["retries"]) == (3, 3, 3)
    assert {each["details"]["node"] for each in told} == {stage["id"] for stage in outer["stages"]}


def test_flow_run_of_a_sub_workflow_is_found_by_its_id(shared_stack: RunningStack, outer: dict[str, Any]) -> None:
    with shared_stack.prefect() as prefect:
        wanted = {"flows": {"name": {"any_": ["history_inner"]}}, "sort": "START_TIME_DESC"}
        [inside, *_] = prefect.post("/flow_runs/filter", json=wanted).raise_for_status().json()
    with shared_stack.operator() as domain:
        found = domain.get("/api/v1/status/lookup", params={"flow_run_id": inside["id"]}).raise_for_status().json()
    assert found["run_id"] == outer["run_id"]
    [stage] = [each for each in outer["stages"] if each["id"] == "inside"]
    assert stage["resources_assigned"]["flow_run_id"] == inside["id"]


def test_part_runs_on_outputs_of_an_earlier_run_or_of_a_fixtures_file(
    shared_stack: RunningStack, outer: dict[str, Any], tmp_path: Path
) -> None:
    again = ran(shared_stack, "history_outer", **{"from": ["last"], "outputs_of": outer["run_id"]})
    assert (again["outputs"], [stage["id"] for stage in again["stages"]]) == ({"all": RETURNED}, ["last", "end"])
    given = {"first": {"returns": {"word": "bye"}}, "inside": {"seven": 8}, "all": {"total": 1}}
    (tmp_path / "f.json").write_text(json.dumps(given))
    command = [sys.executable, "-m", "deployments.cli", "workflow", "run", "history_outer", "--from", "last", "--json"]
    done, refused = (
        subprocess.run(words, env=shared_stack.environment, capture_output=True, text=True, check=False, timeout=300)
        for words in ([*command, "--fixtures", str(tmp_path / "f.json")], command)
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["outputs"] == {"all": ["bye", 8, 1]}
    assert refused.returncode == 1
    assert "last reads what first returns; last reads what inside returns; last reads what all" in refused.stderr


def test_what_a_child_run_measures_and_where_it_runs_is_in_the_record(
    shared_stack: RunningStack, tmp_path: Path
) -> None:
    bronze = Zones.local(shared_stack.folder / "storage").bronze
    bronze.put_file(VECTOR, vectors.write(tmp_path / "fields.gpkg", vectors.squares(40, side=0.001)))
    record = ran(shared_stack, "vector_ingest", inputs={"source": VECTOR})
    assert record["metrics"]["features"] == 40
    [own] = [one for one in record["attempts"][0]["flow_runs"] if one["segment"] is None]
    on_gdal = [stage for stage in record["stages"] if stage["resources_assigned"]["pool"] == "gdal" and stage["tries"]]
    assert on_gdal
    assert all(stage["resources_assigned"]["flow_run_id"] != own["flow_run_id"] for stage in on_gdal)
    assert all(stage["resolved_parameters"] for stage in on_gdal)
    with shared_stack.operator() as domain:
        shown = domain.get("/api/v1/stats").raise_for_status().json()
    assert shown["metrics"]["features"]["cost_per_run"] > 0
    assert any(cell["node_id"] == "first" for cell in shown["retries"]["cells"])
