"""What operators see of a run in Prefect's own UI is what happened: each fact through its API, and pages in Chromium.

CAIRN_ARTIFACTS names a folder that keeps the screenshots.
"""

import os
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.async_api import Browser, Page, expect

from tests.support.browsing import PATIENCE_MS, chromium
from tests.support.clock import until
from tests.support.stack import RunningStack

pytestmark = pytest.mark.stack
WAIT_SECONDS = 120.0
ITEMS, CAP = 1000, 200
BAD, FLAKY = (100, 500, 900), 7
FAN_OUT = """
workflow_id: shown_fan_out
version: 1
nodes:
  start: {type: start, next: each}
  each:
    type: fan_out
    source: "{{ [0] * 1000 }}"
    item_key: "scene-{{ index }}"
    tolerated_failures: 3
    max_concurrency: 100
    task:
      handler: scripted
      params: {fails: "{{ none if index in [100, 500, 900] else (1 if index == 7 else 0) }}"}
      retry: {max_attempts: 1, delays_seconds: [0.05]}
    next: all
  all: {type: fan_in, next: end}
  end: {type: end}
"""
GIVEN_UP = """
workflow_id: shown_given_up
version: 1
nodes:
  start: {type: start, next: each}
  each:
    type: fan_out
    source: "{{ [0] * 60 }}"
    tolerated_failures: "10%"
    max_concurrency: 5
    task: {handler: scripted, params: {fails: 1, seconds: 0.02}, retry: {max_attempts: 0}}
    next: all
  all: {type: fan_in, next: end}
  end: {type: end}
"""
RETRIED = """
workflow_id: shown_retried
version: 1
nodes:
  start: {type: start, next: [flaky, other]}
  flaky: {handler: scripted, params: {fails: 2}, retry: {max_attempts: 2, delays_seconds: [0.05]}, next: fatal}
  other: {handler: echo, when: "nodes.start.status == 'failed'", next: end}
  fatal: {handler: scripted, params: {fails: 1}, retry: {max_attempts: 0}, next: end}
  end: {type: end}
"""
LASTING = """
workflow_id: shown_lasting
version: 1
nodes:
  start: {type: start, next: wait}
  wait: {handler: scripted, params: {seconds: 600}, next: end}
  end: {type: end}
"""
WORKFLOWS = {
    "shown_fan_out": FAN_OUT,
    "shown_given_up": GIVEN_UP,
    "shown_retried": RETRIED,
    "shown_lasting": LASTING,
}


@dataclass(frozen=True)
class Seen:
    """What Prefect's API says of flow runs."""

    http: httpx.Client

    def flow_run(self, flow_run_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.http.get(f"/flow_runs/{flow_run_id}").raise_for_status().json()
        return found

    def of(self, kind: str, flow_run_id: str, **more: Any) -> list[dict[str, Any]]:
        """The task runs, artifacts or logs of a flow run, all pages."""
        found: list[dict[str, Any]] = []
        wanted = {"logs": {"flow_run_id": {"any_": [flow_run_id]}}} if kind == "logs" else None
        wanted = wanted or {"flow_runs": {"id": {"any_": [flow_run_id]}}}
        while page := self._page(kind, {**wanted, **more, "offset": len(found), "limit": CAP}):
            found += page
        return found

    def _page(self, kind: str, body: Mapping[str, Any]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.http.post(f"/{kind}/filter", json=body).raise_for_status().json()
        return found

    def children(self, flow_run_id: str) -> list[dict[str, Any]]:
        return self._page("flow_runs", {"flow_runs": {"parent_flow_run_id": {"any_": [flow_run_id]}}})


@pytest.fixture(scope="module")
def seen(stack: RunningStack) -> Iterator[Seen]:
    with stack.prefect() as http:
        yield Seen(http)


@pytest.fixture(scope="module")
def artifacts() -> Path | None:
    kept = os.environ.get("CAIRN_ARTIFACTS")
    if kept:
        Path(kept).mkdir(parents=True, exist_ok=True)
    return Path(kept) if kept else None


@pytest.fixture(scope="module")
async def page(stack: RunningStack) -> AsyncIterator[Page]:
    """A tab of somebody who is signed in at Prefect's UI."""
    async with chromium() as browser:
        yield await signed_in(browser, stack)


async def signed_in(browser: Browser, stack: RunningStack) -> Page:
    page = await browser.new_page(viewport={"width": 1440, "height": 1100})
    secret = stack.credentials()["prefect"]["auth_string"]
    await page.add_init_script(f"localStorage.setItem('prefect-password', btoa({secret!r}))")
    return page


async def look(
    page: Page, stack: RunningStack, path: str, *texts: str, keep: Path | None = None, tab: str | None = None
) -> None:
    """Open a page of Prefect's UI, wait until it shows these texts, and keep a picture where one is wanted."""
    await page.goto(f"{stack.url('prefect')}{path}")
    if tab is not None:
        await page.get_by_text(tab, exact=True).click(timeout=2 * PATIENCE_MS)
    for text in texts:
        await expect(page.get_by_text(text).first).to_be_visible(timeout=2 * PATIENCE_MS)
    if keep is not None:
        await page.wait_for_timeout(3000)  # its graph is drawn once all else is there
        await page.screenshot(path=keep, full_page=True)


def kept(artifacts: Path | None, name: str) -> Path | None:
    return artifacts / f"{name}.png" if artifacts else None


def begun(stack: RunningStack, workflow_id: str) -> tuple[str, str]:
    """The run and its flow run, once it has one."""
    with stack.operator() as domain:
        run_id = domain.post("/api/v1/runs", json={"workflow_id": workflow_id}).raise_for_status().json()["run_id"]
    return run_id, flow_run_of(stack, run_id)


def flow_run_of(stack: RunningStack, run_id: str) -> str:
    query = "select flow_run_id::text from app.attempts where run_id = %s and flow_run_id is not null"
    until(lambda: stack.rows(query, run_id), WAIT_SECONDS)
    return str(stack.rows(query, run_id)[0][0])


def ended(seen: Seen, flow_run_id: str, state: str, run_count: int = 1) -> dict[str, Any]:
    """The flow run, once it is in this state after so many runs."""

    def is_there() -> bool:
        run = seen.flow_run(flow_run_id)
        return (run["state_name"], run["run_count"]) == (state, run_count)

    until(is_there, WAIT_SECONDS, tell=lambda: str(seen.flow_run(flow_run_id)["state"]))
    return seen.flow_run(flow_run_id)


def task_runs(seen: Seen, flow_run_id: str, count: int) -> list[dict[str, Any]]:
    """The flow run's task runs, once so many have been recorded as ended."""

    def over() -> list[dict[str, Any]]:
        return [one for one in seen.of("task_runs", flow_run_id) if one["end_time"]]

    until(lambda: len(over()) >= count, WAIT_SECONDS, tell=lambda: str(len(over())))
    return over()


async def test_fan_out_of_a_thousand_items_shows_its_three_failures_and_a_retry(
    stack: RunningStack, seen: Seen, page: Page, artifacts: Path | None
) -> None:
    _, flow_run_id = begun(stack, "shown_fan_out")
    ended(seen, flow_run_id, "Completed")
    runs = {run["name"]: run["state"] for run in task_runs(seen, flow_run_id, CAP)}
    assert len(runs) == CAP
    states = Counter((state["type"], state["name"]) for state in runs.values())
    assert states == {("COMPLETED", "Completed"): CAP - 3, ("COMPLETED", "CompletedWithFailures"): 3}
    told = runs["each__100-104"]["message"]
    assert told == "5 items, 1 failed, 1 retry; 100 key 'scene-100': failed as asked"
    assert runs["each__5-9"]["message"] == "5 items, 1 retry"
    shown = {one["type"]: one for one in seen.of("artifacts", flow_run_id)}
    assert Counter(one["type"] for one in seen.of("artifacts", flow_run_id)) == {
        "markdown": 1,
        "progress": 1,
        "table": 1,
    }
    assert shown["progress"]["data"] == 100.0
    assert shown["progress"]["description"] == "**each**: 1,000 items, 997 succeeded, 3 failed"
    for index in BAD:
        assert f'"item": {index}, "key": "`scene-{index}`", "tries": 2' in str(shown["table"]["data"])
    assert "/console/" in shown["markdown"]["data"]
    assert "/api/v1/" not in shown["markdown"]["data"]
    lines = [one["message"] for one in seen.of("logs", flow_run_id)]
    for key in (f"item {FLAKY} 'scene-{FLAKY}', try 1", "item 100 'scene-100', try 2"):
        assert [line for line in lines if line.startswith(f"[{key}]")], lines[:20]
    await look(page, stack, f"/runs/flow-run/{flow_run_id}", "200 Task runs", keep=kept(artifacts, "fan-out"))
    told, place = "997 succeeded, 3 failed", kept(artifacts, "fan-out-artifacts")
    await look(page, stack, f"/runs/flow-run/{flow_run_id}", told, keep=place, tab="Artifacts")
    table = f"/artifacts/artifact/{shown['table']['id']}"
    await look(page, stack, table, "scene-500", "failed as asked", keep=kept(artifacts, "fan-out-failed-items"))


async def test_fan_out_that_is_given_up_begins_nothing_more_and_tells_true_counts(
    stack: RunningStack, seen: Seen
) -> None:
    run_id, flow_run_id = begun(stack, "shown_given_up")
    ended(seen, flow_run_id, "Failed")
    marks = list((stack.folder / "storage" / "runs" / "trials" / run_id).glob("*.json"))
    assert 7 <= len(marks) <= 11  # the seventh failure crosses; four others may be under way
    runs = task_runs(seen, flow_run_id, len(marks))
    failed = [run for run in runs if run["state_type"] == "FAILED"]
    assert len(runs) == len(marks)
    with stack.operator() as domain:
        record = domain.get(f"/api/v1/runs/{run_id}").raise_for_status().json()
    stage = next(stage for stage in record["stages"] if stage["id"] == "each")
    assert (stage["items_total"], stage["items_done"], stage["items_failed"]) == (60, 0, len(failed))
    message = f"{len(failed)} of 60 children failed, 0 succeeded, {60 - len(failed)} not begun or cut short; "
    assert record["problem"]["message"].startswith(message)
    assert stage["problem"]["message"] == record["problem"]["message"]


async def test_retries_and_skipped_nodes_are_seen_and_a_retried_run_has_one_card(
    stack: RunningStack, seen: Seen, page: Page, artifacts: Path | None
) -> None:
    _, flow_run_id = begun(stack, "shown_retried")
    ended(seen, flow_run_id, "Failed")
    again = {"state": {"type": "SCHEDULED", "name": "AwaitingRetry"}, "force": True}
    seen.http.post(f"/flow_runs/{flow_run_id}/set_state", json=again).raise_for_status()
    ended(seen, flow_run_id, "Failed", run_count=2)
    runs = task_runs(seen, flow_run_id, 6)
    told = Counter((run["name"], run["state_type"], run["state_name"], run["state"]["message"]) for run in runs)
    assert told[("flaky", "COMPLETED", "Completed", "3 tries")] == 1
    assert told[("flaky", "COMPLETED", "Cached", None)] == 1
    assert told[("other", "CANCELLED", "Skipped", "Not chosen by the workflow.")] == 2
    assert len([run for run in runs if run["name"] == "fatal" and run["state_type"] == "FAILED"]) == 2
    [flaky] = [run for run in runs if run["name"] == "flaky" and run["state_name"] == "Completed"]
    assert flaky["run_count"] == 3
    states = seen.http.get("/task_run_states/", params={"task_run_id": flaky["id"]}).raise_for_status().json()
    assert Counter(state["name"] for state in states)["AwaitingRetry"] == 2
    assert not [one for one in seen.of("logs", flow_run_id) if "Skipped" in one["message"]]
    [card] = seen.of("artifacts", flow_run_id)
    assert "attempt 2: failed (handler-failed)" in card["data"]
    await look(page, stack, f"/runs/flow-run/{flow_run_id}", "fatal", keep=kept(artifacts, "retried"))


async def test_cancelled_run_is_shown_as_cancelled_with_what_it_was_doing(
    stack: RunningStack, seen: Seen, page: Page, artifacts: Path | None
) -> None:
    run_id, flow_run_id = begun(stack, "shown_lasting")
    marks = stack.folder / "storage" / "runs" / "trials" / run_id
    until(marks.is_dir, WAIT_SECONDS)
    cancel = {"state": {"type": "CANCELLING", "name": "Cancelling"}}
    seen.http.post(f"/flow_runs/{flow_run_id}/set_state", json=cancel).raise_for_status()
    assert ended(seen, flow_run_id, "Cancelled")["state_type"] == "CANCELLED"
    [run] = task_runs(seen, flow_run_id, 1)
    assert run["state_type"] != "COMPLETED"
    assert not [card for card in seen.of("artifacts", flow_run_id) if "running" in str(card["data"])]
    await look(page, stack, f"/runs/flow-run/{flow_run_id}", "Cancelled", keep=kept(artifacts, "cancelled"))


async def test_child_run_of_a_raster_is_inside_its_parent_and_says_of_which_asset_for_whom(
    stack: RunningStack, seen: Seen, page: Page, artifacts: Path | None
) -> None:
    request_id = stack.json("demo", "--seed", "3")["request_id"]
    [(run_id,)] = stack.rows("select run_id::text from app.runs where request_id = %s", request_id)
    flow_run_id = flow_run_of(stack, run_id)
    [child] = seen.children(flow_run_id)
    assert child["parent_task_run_id"] is not None
    assert child["name"].startswith("raster_ingest · gdal ")
    assert child["name"].endswith(" of ddh #1")
    stands_for = seen.http.get(f"/task_runs/{child['parent_task_run_id']}").raise_for_status().json()
    assert stands_for["flow_run_id"] == flow_run_id
    until(lambda: _state_of(seen, stands_for["id"]) == "Completed", WAIT_SECONDS)
    assert stands_for["state"]["state_details"]["child_flow_run_id"] == child["id"]
    until(lambda: "Skipped" in states_of(seen, flow_run_id) + states_of(seen, child["id"]), WAIT_SECONDS)
    for run in seen.of("task_runs", flow_run_id):
        assert (run["state_name"] == "Skipped") == (run["state_type"] == "CANCELLED")
    await look(page, stack, f"/runs/flow-run/{flow_run_id}", "Task runs", keep=kept(artifacts, "raster"))
    place = kept(artifacts, "raster-child")
    await look(page, stack, f"/runs/flow-run/{flow_run_id}", child["name"], keep=place, tab="Subflow Runs")


def _state_of(seen: Seen, task_run_id: str) -> str:
    return str(seen.http.get(f"/task_runs/{task_run_id}").raise_for_status().json()["state_name"])


def states_of(seen: Seen, flow_run_id: str) -> list[str]:
    return [run["state_name"] for run in seen.of("task_runs", flow_run_id)]
