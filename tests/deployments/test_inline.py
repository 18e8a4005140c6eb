"""The worker type `cairn-inline`: real Prefect server, real worker process, flows that behave and misbehave."""

import asyncio
import os
import re
import shutil
import signal
import time
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from itertools import accumulate
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

from deployments.workers import inline
from domain.adapters.prefect_runs import PrefectRuns
from flows.tries.time_budget import RUNS_DRAIN_SECONDS
from tests.support.clock import until
from tests.support.inline_flows import LEAVING
from tests.support.prefect_server import ENDED, PATIENCE_SECONDS, REPOSITORY, PrefectServer, Process

FLOWS = "tests.support.inline_flows"
TOLD = "told to end"  # what a worker says as soon as it has heard a signal


@pytest.fixture(scope="module")
def prefect(workers_prefect: PrefectServer) -> PrefectServer:
    return workers_prefect


@pytest.fixture(scope="module")
def shared(prefect: PrefectServer) -> Iterator[PrefectServer]:
    """A worker for tests that leave it as they found it."""
    prefect.pool("shared")
    with prefect.worker("shared"):
        yield prefect


@pytest.fixture
def own(prefect: PrefectServer, request: pytest.FixtureRequest) -> str:
    """A pool for tests that end its worker."""
    name: str = request.node.name.replace("_", "-")[:60]
    prefect.pool(name)
    return name


def begin(prefect: PrefectServer, pool: str, flow: str, count: int = 1, **parameters: object) -> list[str]:
    """So many runs of the flow, once all have begun. A short one may have ended before it is looked at."""
    deployment = prefect.deploy(pool, f"{FLOWS}.{flow}")
    runs = [prefect.trigger(deployment, **parameters) for _ in range(count)]
    for run in runs:
        prefect.until_state(run, "RUNNING", *ENDED)
    return runs


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """The file that runs wait for, so that a test says when they end and no clock does."""
    return tmp_path / "go on"


def drained(worker: Process) -> float:
    """How long the worker takes to end once it is told to."""
    began = time.monotonic()
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(PATIENCE_SECONDS) == 0
    return time.monotonic() - began


def test_a_run_goes_through_its_states_and_logs_its_own_lines(shared: PrefectServer) -> None:
    deployment = shared.deploy("shared", f"{FLOWS}.quick")
    runs = [shared.trigger(deployment, number=number) for number in range(8)]
    assert {shared.until_state(run) for run in runs} == {"COMPLETED"}
    for number, run in enumerate(runs):
        assert shared.states(run) == ["Scheduled", "Pending", "Running", "Completed"]
        until(lambda run=run: any("Finished in state" in line for line in shared.logs(run)[3:]))  # type: ignore[misc]
        assert [line for line in shared.logs(run) if "line of" in line] == [f"line of {number}, run count 1"]


def test_a_retry_in_the_ui_is_the_same_run_counted_once_more(shared: PrefectServer) -> None:
    run = shared.trigger(shared.deploy("shared", f"{FLOWS}.quick"))
    shared.until_state(run)
    retry = {"state": {"type": "SCHEDULED", "name": "AwaitingRetry"}, "force": True}
    shared.http.post(f"/flow_runs/{run}/set_state", json=retry).raise_for_status()
    until(lambda: shared.run(run)["run_count"] == 2 and shared.state(run) == "COMPLETED")
    until(lambda: "line of 1, run count 2" in shared.logs(run))


@pytest.mark.parametrize(
    ("flow", "state", "message"),
    [
        ("raises", "FAILED", "ValueError: on purpose"),
        ("leaves_the_interpreter", "CRASHED", "SystemExit(3)"),
        ("not_there", "CRASHED", f"This worker has no flow {FLOWS}.not_there"),
        ("NO_FLOW", "CRASHED", "is no async flow"),
    ],
)
def test_failure_of_one_run_is_recorded_and_ends_no_other(
    shared: PrefectServer, gate: Path, flow: str, state: str, message: str
) -> None:
    [other] = begin(shared, "shared", "waits", path=str(gate))
    run = shared.trigger(shared.deploy("shared", f"{FLOWS}.{flow}"))
    assert shared.until_state(run) == state
    assert message in shared.run(run)["state"]["message"]
    gate.touch()
    assert shared.until_state(other) == "COMPLETED"


def test_a_run_whose_deployment_was_deleted_does_not_stay_pending(shared: PrefectServer, gate: Path) -> None:
    [other] = begin(shared, "shared", "waits", path=str(gate))
    deployment = shared.deploy("shared", f"{FLOWS}.raises")
    run = shared.trigger(deployment)
    shared.http.delete(f"/deployments/{deployment}").raise_for_status()
    until(lambda: shared.http.get(f"/flow_runs/{run}").status_code == 404 or shared.state(run) != "PENDING")
    gate.touch()
    assert shared.until_state(other) == "COMPLETED"


@pytest.mark.parametrize("flow", ["waits", "ignores"])
def test_cancelled_run_ends_cancelled_whether_it_stops_or_is_aborted(
    shared: PrefectServer, gate: Path, flow: str
) -> None:
    """Both would go on for ten minutes. The seconds that each has for it are those of `flows.tries.time_budget`."""
    [cancelled] = begin(shared, "shared", flow)
    [other] = begin(shared, "shared", "waits", path=str(gate))
    shared.cancel(cancelled)
    assert shared.until_state(cancelled) == "CANCELLED"
    gate.touch()
    assert shared.until_state(other) == "COMPLETED"
    if flow == "waits":  # one that is torn off says nothing any more
        until(lambda: LEAVING in shared.logs(cancelled))


def test_run_that_ends_during_its_cancellation_becomes_cancelled(shared: PrefectServer) -> None:
    """Prefect refuses what it wanted to end as, and its worker looks for runs that it still has."""
    run = shared.trigger(shared.deploy("shared", f"{FLOWS}.cancelled_meanwhile"))
    assert shared.until_state(run) == "CANCELLED"
    assert shared.run(run)["state"]["message"] == "It was cancelled before it was Completed."


def test_drained_worker_stops_its_runs_and_ends(prefect: PrefectServer, own: str) -> None:
    with prefect.worker(own) as worker:
        runs = begin(prefect, own, "waits", 5)
        assert drained(worker) < RUNS_DRAIN_SECONDS, "it waited for runs that had left"
    assert [prefect.run(run)["state"]["message"] for run in runs] == ["told to stop: draining"] * 5


def test_run_being_taken_by_a_worker_that_is_told_to_end_is_not_lost(prefect: PrefectServer, own: str) -> None:
    """A run is handed over by itself, or nobody has taken it: none stays Pending at a worker that is gone."""
    deployment = prefect.deploy(own, f"{FLOWS}.waits")
    with prefect.worker(own) as worker:
        begin(prefect, own, "waits")
        runs = [prefect.trigger(deployment) for _ in range(40)]
        until(lambda: any(prefect.state(run) != "SCHEDULED" for run in runs[:3]))
        drained(worker)
    left = {(prefect.state(run), prefect.run(run)["state"]["message"]) for run in runs}
    assert left <= {("SCHEDULED", None), ("FAILED", "told to stop: draining")}


async def test_drain_waits_for_runs_that_are_being_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the claim and its first line a run is in nobody's list of those that run."""
    monkeypatch.setattr(inline, "DRAIN_LOOK_SECONDS", 0.01)
    worker = inline.InlineWorker("light", create_pool_if_not_found=False)
    taken = uuid4()
    worker._submitting_flow_run_ids.add(taken)
    handing_over = asyncio.create_task(worker._hand_over())
    await asyncio.sleep(0.2)
    assert not handing_over.done()
    worker._submitting_flow_run_ids.discard(taken)
    await asyncio.wait_for(handing_over, RUNS_DRAIN_SECONDS - 1)


def test_a_run_inside_another_keeps_no_worker_from_draining(prefect: PrefectServer, own: str) -> None:
    """The signal is the worker's, whoever holds a flow run inside: all its runs leave, and are told why."""
    with prefect.worker(own) as worker:
        runs = begin(prefect, own, "waits", 3) + begin(prefect, own, "holds_another", 2)
        until(lambda: len(inner_runs(prefect, runs)) == 2)
        assert drained(worker) < RUNS_DRAIN_SECONDS, "it waited for runs that had left"
    assert [prefect.run(run)["state"]["message"] for run in runs] == ["told to stop: draining"] * 5
    assert [run["state_name"] for run in inner_runs(prefect, runs)] == ["HandedOver"] * 2


def test_run_inside_another_is_recorded_and_leaves_its_worker_drainable(prefect: PrefectServer, own: str) -> None:
    """It ends well, logs its own lines, is counted once; and the worker can be drained after it."""
    with prefect.worker(own) as worker:
        [run] = begin(prefect, own, "holds_another", seconds=0.5)
        assert prefect.until_state(run) == "COMPLETED"
        [inner] = inner_runs(prefect, [run])
        assert (inner["state_name"], inner["name"], inner["run_count"]) == ("Completed", "inside", 1)
        until(lambda: "line of the inner run" in prefect.logs(inner["id"]))
        [waiting] = begin(prefect, own, "waits")
        drained(worker)
    assert prefect.run(waiting)["state"]["message"] == "told to stop: draining"


async def test_child_runs_left_by_a_killed_worker_can_be_ended(prefect: PrefectServer, own: str) -> None:
    with prefect.worker(own) as worker:
        runs = begin(prefect, own, "holds_another", 2)
        until(lambda: len(inner_runs(prefect, runs)) == 2)
        worker.kill()
        worker.wait()
    with temporary_settings({PREFECT_API_URL: prefect.api}):
        async with PrefectRuns() as flow_runs:
            assert await flow_runs.end_inside([UUID(runs[0])])
    assert [run["state_type"] for run in inner_runs(prefect, runs[:1])] == ["CRASHED"]
    assert [run["state_type"] for run in inner_runs(prefect, runs[1:])] == ["RUNNING"]


def inner_runs(prefect: PrefectServer, runs: list[str]) -> list[dict[str, Any]]:
    """The running or ended flow runs inside these."""
    wanted = {"flow_runs": {"parent_flow_run_id": {"any_": runs}}}
    found: list[dict[str, Any]] = prefect.http.post("/flow_runs/filter", json=wanted).raise_for_status().json()
    return [run for run in found if run["state_type"] not in {"SCHEDULED", "PENDING"}]


def test_run_that_does_not_leave_a_draining_worker_is_recorded_as_crashed(prefect: PrefectServer, own: str) -> None:
    with prefect.worker(own) as worker:
        [run] = begin(prefect, own, "ignores")
        worker.send_signal(signal.SIGTERM)
        prefect.until_logged(own, TOLD)
        late = prefect.trigger(prefect.deploy(own, f"{FLOWS}.quick"))
        assert worker.wait(PATIENCE_SECONDS) == 0
    assert prefect.state(run) == "CRASHED"
    assert prefect.state(late) == "SCHEDULED"  # nothing new was taken


def test_a_second_signal_ends_the_worker_at_once(prefect: PrefectServer, own: str) -> None:
    with prefect.worker(own) as worker:
        begin(prefect, own, "ignores")
        worker.send_signal(signal.SIGTERM)
        prefect.until_logged(own, TOLD)  # before, the second could become one with the first
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(PATIENCE_SECONDS) == 128 + signal.SIGTERM


def test_a_handler_that_overstays_has_its_process_replaced_once_it_is_idle(
    prefect: PrefectServer, own: str, gate: Path
) -> None:
    with prefect.worker(own) as worker:
        [run] = begin(prefect, own, "overstays", seconds=600)
        [other] = begin(prefect, own, "waits", path=str(gate))
        prefect.cancel(run)
        assert prefect.until_state(run) == "CANCELLED"
        prefect.until_logged(own, "a handler did not leave")
        time.sleep(inline.CODE_LOOK_SECONDS)  # after which it would have ended, were it not for the other
        gate.touch()
        assert prefect.until_state(other) == "COMPLETED"  # the thread that is left keeps nobody from working
        assert worker.wait(PATIENCE_SECONDS) == 0


def test_a_killed_workers_runs_do_not_keep_the_next_worker_from_working(prefect: PrefectServer, own: str) -> None:
    with prefect.worker(own) as worker:
        runs = begin(prefect, own, "waits", 10)
        os.kill(worker.pid, signal.SIGKILL)
        worker.wait()
    with prefect.worker(own):
        run = prefect.trigger(prefect.deploy(own, f"{FLOWS}.quick"))
        assert prefect.until_state(run) == "COMPLETED"
    assert {prefect.state(run) for run in runs} == {"RUNNING"}  # the domain's reconciler gives them another attempt


def test_an_outage_of_prefect_costs_no_run(prefect: PrefectServer, own: str, gate: Path) -> None:
    """Twelve seconds here, for thirty: longer than the client's own retries at this pace of polling."""
    with prefect.worker(own) as worker:
        runs = begin(prefect, own, "waits", 3, path=str(gate))
        prefect.kill()
        gate.touch()
        time.sleep(12)
        assert worker.poll() is None
        prefect.start()
        assert {prefect.until_state(run) for run in runs} == {"COMPLETED"}
        run = prefect.trigger(prefect.deploy(own, f"{FLOWS}.quick"))
        assert prefect.until_state(run) == "COMPLETED"


def test_two_workers_of_a_pool_run_nothing_twice(prefect: PrefectServer, own: str) -> None:
    with prefect.worker(own), prefect.worker(own):
        deployment = prefect.deploy(own, f"{FLOWS}.quick")
        runs = [prefect.trigger(deployment) for _ in range(12)]
        assert {prefect.until_state(run) for run in runs} == {"COMPLETED"}
    for run in runs:
        assert (prefect.run(run)["run_count"], prefect.states(run).count("Running")) == (1, 1)


def test_worker_runs_no_more_than_its_limit_at_once(prefect: PrefectServer, own: str, gate: Path) -> None:
    """By what Prefect noted of their times: asked one after the other, runs would seem to be at work together."""
    with prefect.worker(own, CAIRN_RUNS_AT_ONCE="2"):
        deployment = prefect.deploy(own, f"{FLOWS}.waits")
        runs = [prefect.trigger(deployment, path=str(gate)) for _ in range(5)]
        until(lambda: [prefect.state(run) for run in runs].count("RUNNING") >= 2)
        time.sleep(1)  # in which a worker without a limit would take the others
        gate.touch()
        until(lambda: all(prefect.state(run) == "COMPLETED" for run in runs))
    told = [prefect.run(run) for run in runs]
    moments = {"start_time": 1, "end_time": -1}
    moves = sorted((datetime.fromisoformat(run[name]), move) for run in told for name, move in moments.items())
    assert max(accumulate(move for _, move in moves)) == 2


def test_worker_hands_over_and_ends_once_its_code_changed(prefect: PrefectServer, own: str, tmp_path: Path) -> None:
    """A copy of the rooms, compiled as they are, stands in for the release that is replaced."""
    for room in ("flows", "blocks", "domain", "deployments", "tests", "workflows"):
        shutil.copytree(REPOSITORY / room, tmp_path / room, ignore=shutil.ignore_patterns("*.pyc.*"))
    path = f"{tmp_path}:{prefect.environment['PYTHONPATH']}"
    with prefect.worker(own, cold=True, PYTHONPATH=path) as worker:
        [run] = begin(prefect, own, "waits")
        (tmp_path / "flows" / "context.py").touch()
        assert worker.wait(PATIENCE_SECONDS) == 0
    assert prefect.run(run)["state"]["message"] == "told to stop: draining"


def test_worker_makes_a_bounded_number_of_calls_to_prefect(prefect: PrefectServer, own: str) -> None:
    """Three states a run. What else is asked is asked of things that runs share, now and then and not for each run.

    Some of it only after the first run has ended: so all runs are counted, and no moment is where counting begins.
    """
    began = time.monotonic()
    with prefect.worker(own, PREFECT_LOGGING_ROOT_LEVEL="INFO") as worker:
        deployment = prefect.deploy(own, f"{FLOWS}.quick")
        runs = []
        for _ in range(8):
            runs.append(prefect.trigger(deployment))
            assert prefect.until_state(runs[-1]) == "COMPLETED"
        drained(worker)
    asked = Counter(asked_by(prefect, own))
    of_runs = {path: asked.pop(path) for path in list(asked) if "/flow_runs/" in path}
    assert of_runs == {f"/api/flow_runs/{run}/set_state": 3 for run in runs}
    again = int((time.monotonic() - began) / SHORTEST_AGE_SECONDS)
    assert max(asked.values()) <= AT_FIRST + again


AT_FIRST = 3  # the worker and Prefect's events remember apart; the second run may come before an answer for the first
SHORTEST_AGE_SECONDS = 30.0  # of what a worker asks again after its time: its pool, as it says that it lives


def asked_by(prefect: PrefectServer, worker: str) -> list[str]:
    """What the worker's client asked of the server, but for what it asks for all runs together."""
    paths = re.findall(r"HTTP Request: \w+ http://[^/]+(/\S+)", prefect.worker_log(worker))
    for_all = ("get_scheduled_flow_runs", "/logs/", "/flow_runs/filter")
    # A client asks once whether it needs a token against forged requests, whenever it first writes.
    return [path for path in paths if not path.endswith(for_all) and "/csrf-token" not in path]
