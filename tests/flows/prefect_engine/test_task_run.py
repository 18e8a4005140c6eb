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


def test_concurrency_limit_on_a_tag_is_kept(told: dict[str, Any]) -> None:
    peak, asked = told["limited"]
    assert peak == 1
    assert asked < AT_ONCE  # the slot goes from one to the next


def test_no_slot_is_asked_for_without_a_concurrency_limit(told: dict[str, Any]) -> None:
    assert told["unlimited"] == [AT_ONCE, 0]


def test_limit_that_is_made_while_a_flow_run_works_holds_for_what_begins_later(told: dict[str, Any]) -> None:
    assert told["limited_meanwhile"] == [AT_ONCE, 1]


def test_concurrency_limit_stays_known_while_prefect_is_away(told: dict[str, Any]) -> None:
    assert told["known_without_an_answer"]


def test_raising_task_is_retried_and_its_last_error_raised(told: dict[str, Any]) -> None:
    assert told["tries"] == [[1, 2, 3], [None, "never"]]


def test_prefect_records_every_task_run_with_its_end_state(
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
def test_task_run_emits_one_event_or_two_if_long_naming_only_its_flow_run(
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
