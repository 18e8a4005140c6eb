"""Task runs as we run them: what Prefect's own engine would record, without its question about limits nobody set."""

import json
from typing import Any

import pytest

from tests.support.clock import until
from tests.support.prefect_server import PrefectServer
from tests.support.task_runs import AT_ONCE, TAG


@pytest.fixture(scope="module")
def told(workers_prefect: PrefectServer) -> dict[str, Any]:
    done = workers_prefect.run_module("tests.support.task_runs")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_a_limit_that_an_operator_put_on_a_tag_is_kept(told: dict[str, Any]) -> None:
    assert told["limited"] == [1, AT_ONCE]


def test_without_a_limit_nobody_asks_for_a_slot(told: dict[str, Any]) -> None:
    assert told["unlimited"] == [AT_ONCE, 0]


def test_a_limit_stays_known_while_the_server_is_away(told: dict[str, Any]) -> None:
    assert told["known_without_an_answer"]


def test_what_raises_is_tried_again_and_at_last_told(told: dict[str, Any]) -> None:
    assert told["tries"] == [[1, 2, 3], [None, "never"]]


def test_the_server_records_every_task_run_and_how_it_ended(
    workers_prefect: PrefectServer, told: dict[str, Any]
) -> None:
    def runs() -> list[dict[str, Any]]:
        wanted = {"flow_runs": {"id": {"any_": [told["ended"]]}}}
        found: list[dict[str, Any]] = (
            workers_prefect.http.post("/task_runs/filter", json=wanted).raise_for_status().json()
        )
        return found

    until(lambda: sorted(run["state_name"] for run in runs()) == ["Cached", "Failed"], 20)
    assert {(run["name"], run["state"]["message"]) for run in runs()} == {
        ("node Cached", "told"),
        ("node Failed", "told"),
    }
    assert {tuple(run["tags"]) for run in runs()} == {(TAG,)}
    assert all(run["start_time"] and run["end_time"] for run in runs())


@pytest.mark.parametrize(("kind", "events"), [("ended", ["Cached", "Failed"]), ("slow", ["Completed", "Running"])])
def test_a_task_run_is_told_in_one_event_or_two_if_it_takes_long_and_names_its_flow_run_alone(
    workers_prefect: PrefectServer, told: dict[str, Any], kind: str, events: list[str]
) -> None:
    flow_run = f"prefect.flow-run.{told[kind]}"
    wanted = {"filter": {"related": {"id": [flow_run]}, "event": {"prefix": ["prefect.task-run."]}}}

    def found() -> list[dict[str, Any]]:
        page: dict[str, Any] = workers_prefect.http.post("/events/filter", json=wanted).raise_for_status().json()
        return list(page["events"])

    expected = [f"prefect.task-run.{name}" for name in events]
    until(lambda: sorted(one["event"] for one in found()) == expected, tell=lambda: str(found()))
    assert {one["prefect.resource.id"] for event in found() for one in event["related"]} == {flow_run}
