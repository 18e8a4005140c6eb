"""Whole stories on the whole stack: real PostgreSQL, real Prefect, real workers, real GDAL."""

import hashlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from deployments import sample
from tests.support.stack import RunningStack

pytestmark = pytest.mark.stack
REFS = ("--ref", "resource_id=dem", "--ref", "version_id=1")
WAIT_SECONDS = 300.0


def until(question: Callable[[], Any]) -> Any:
    """The first answer that is not empty."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not (answer := question()):
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.3)
    return answer


@pytest.mark.parametrize("seed", [11, 12])
def test_a_raster_goes_all_the_way_through(stack: RunningStack, seed: int) -> None:
    outcome = stack.json("demo", "--seed", str(seed))
    row, col = sample.pick_pixel(seed)
    assert outcome["pixel"] == {
        "row": row,
        "col": col,
        "served": sample.value_at(seed, row, col),
        "expected": sample.value_at(seed, row, col),
    }
    assert Path(outcome["png"]).read_bytes().startswith(b"\x89PNG")
    assert stack.cairn("status").returncode == 0  # a stack that was up before the demo stays up
    self_link = next(link for link in httpx.get(outcome["item"]).json()["links"] if link["rel"] == "self")
    assert self_link["href"] == outcome["item"]


def test_a_reviewer_finds_what_really_ran_at_the_console(stack: RunningStack) -> None:
    request_id = stack.json("demo", "--seed", "6")["request_id"]
    [(asset_id, flow_run_id)] = stack.rows(
        "select q.asset_id, a.flow_run_id from app.requests q join app.runs r using (request_id)"
        " join app.attempts a using (run_id) where q.request_id = %s",
        request_id,
    )
    reviewer = stack.credentials()["reviewer"]
    keys = {"username": reviewer["username"], "password": reviewer["password"], "next": "/console/?show=approved"}
    browser = {"Sec-Fetch-Site": "same-origin"}
    with httpx.Client(base_url=stack.url("gateway"), headers=browser, follow_redirects=True, timeout=30) as http:
        assert f"/console/versions/{asset_id}/0" in http.post("/console/sign-in", data=keys).text
        page = http.get(f"/console/versions/{asset_id}/0").text
        assert http.get(f"/tiles/{asset_id}/info?version=0").status_code == 200
    for told in ("make_cog: completed", "is served as latest", f"{stack.url('prefect')}/runs/flow-run/{flow_run_id}"):
        assert told in page
    assert 'data-bounds="-180' not in page


def test_the_request_its_run_and_its_flow_runs_are_linked(stack: RunningStack) -> None:
    request_id = stack.json("demo", "--seed", "5")["request_id"]
    [(run_id, state, flow_run_id)] = stack.rows(
        "select r.run_id, r.state, a.flow_run_id from app.runs r join app.attempts a using (run_id)"
        " where r.request_id = %s",
        request_id,
    )
    assert state == "completed"
    links = stack.rows(
        "select segment, pool from app.attempt_flow_runs where run_id = %s order by segment nulls first", run_id
    )
    assert links == [(None, "light"), (1, "gdal")]
    events = [
        kind
        for (kind,) in stack.rows("select kind from app.events where request_id = %s order by event_id", request_id)
    ]
    assert events == [
        "request.accepted", "run.queued", "attempt.started", "request.processing",
        "run.completed", "request.completed", "export.queued", "revision.approved",
    ]  # fmt: skip
    nodes = stack.rows("select node_id, state, tries from app.run_nodes where run_id = %s order by position", run_id)
    assert nodes == [
        ("start", "completed", 0), ("fetch", "completed", 1), ("validate", "completed", 1), ("plan", "completed", 1),
        ("make_cog", "completed", 1), ("tiles", "skipped", 0), ("tiled", "skipped", 0), ("join", "skipped", 0),
        ("discard", "skipped", 0), ("register", "completed", 1), ("end", "completed", 0),
    ]  # fmt: skip
    assert_partners_are_told_of_none_of_it(stack, request_id, run_id)
    with stack.operator() as domain:
        # Left out where Prefect takes longer than a reader should wait; and a line comes after what it tells of.
        until(lambda: "Completed" in str(domain.get(f"/api/v1/requests/{request_id}/timeline").json()["logs"]))
    with stack.prefect() as prefect:
        flow_run = prefect.get(f"/flow_runs/{flow_run_id}").json()
        flow = prefect.get(f"/flows/{flow_run['flow_id']}").json()
    assert (flow["name"], flow_run["state"]["type"]) == ("raster_ingest", "COMPLETED")
    assert sorted(name for name, value in flow_run["parameters"].items() if value is not None) == [
        "attempt_token",
        "run_id",
    ]
    assert flow_run["name"].startswith("ddh ")


def assert_partners_are_told_of_none_of_it(stack: RunningStack, request_id: str, run_id: str) -> None:
    """A real run's results, in every way that its partner reads them; operators are told, which is the control."""
    within = stack.rows(
        "select a.run_id, a.token, a.flow_run_id, f.flow_run_id from app.attempts a"
        " join app.attempt_flow_runs f using (run_id, number) where run_id = %s",
        run_id,
    )
    ids = {str(one) for row in within for one in row}
    assert len(ids) == 4
    with stack.partner() as gateway:
        asset = gateway.get(f"/api/platform/status/{request_id}").json()["result"]["asset_id"]
        ways = (f"platform/status/{request_id}", "assets", f"assets/{asset}", f"assets/{asset}/versions")
        paths = [*(f"/api/{way}" for way in ways), f"/ogc/jobs/{request_id}", f"/ogc/jobs/{request_id}/results"]
        told = [gateway.get(path).raise_for_status().text for path in paths]
    assert not [(one, text) for one in ids for text in told if one in text]
    operators = {"Authorization": f"Bearer {stack.credentials()['operator']['token']}"}
    job = httpx.get(f"{stack.url('gateway')}/api/status/job/{run_id}", headers=operators).raise_for_status()
    assert len([one for one in ids if one in job.text]) >= 2


def test_public_version_is_exported_and_withdrawn_when_no_longer_public(stack: RunningStack) -> None:
    """The demo approves with clearance public; afterwards a reviewer thinks better of it."""
    request_id = stack.json("demo", "--seed", "4")["request_id"]
    [(asset_id,)] = stack.rows("select asset_id from app.requests where request_id = %s", request_id)
    copies = "select external_blob_path, sha256 from app.artifacts where asset_id = %s and role = 'cog'"
    [(name, sha256)] = until(lambda: [row for row in stack.rows(copies, asset_id) if row[0]])
    external = stack.folder / "storage" / "external"
    assert hashlib.sha256((external / name).read_bytes()).hexdigest() == sha256
    assert stack.cairn("clearance", asset_id, "ouo", "--reason", "too early").returncode == 0
    assert stack.rows(copies, asset_id)[0][0] is None
    until(lambda: not (external / name).exists())
    withdrawal = "select q.status from app.exports e join app.requests q on q.request_id = e.withdrawal_id"
    until(lambda: stack.rows(withdrawal) == [("completed",)])


def test_operator_pauses_a_workflow_by_command(stack: RunningStack) -> None:
    def held(kind: str, *order: str) -> list[tuple[str, Any]]:
        return [(one["name"], one["value"]) for one in stack.json(*order) if one["kind"] == kind]

    assert held("in_flight", "limit", "--workflow", "retry_test", "3") == [("workflow:retry_test", 3)]
    assert held("in_flight", "limit", "--workflow", "retry_test", "none") == []
    paused = held("pause", "pause", "--workflow", "retry_test", "--reason", "a test")
    assert [name for name, _ in paused] == ["workflow:retry_test"]
    assert held("pause", "resume", "--workflow", "retry_test") == []
    assert stack.cairn("limit", "--workflow", "retry_test", "few").returncode == 2


def test_prefect_shows_a_typed_form_for_a_workflow(stack: RunningStack) -> None:
    with stack.prefect() as prefect:
        deployment = prefect.get("/deployments/name/raster_ingest/raster_ingest").json()
    fields = deployment["parameter_openapi_schema"]["properties"]
    assert fields["source"]["description"] == "container/path, or an address that is fetched"
    assert fields["target_crs"]["default"] == "EPSG:4326"
    assert fields["resampling"]["anyOf"][0]["enum"] == ["nearest", "bilinear", "cubic", "average", "mode"]
    assert deployment["parameter_openapi_schema"]["required"] == ["source"]
    assert not {"run_id", "attempt_token"} & fields.keys()


def test_run_started_in_prefects_ui_is_registered_with_the_domain(stack: RunningStack) -> None:
    with stack.prefect() as prefect:
        deployment = prefect.get("/deployments/name/echo_test/echo_test").json()
        started = prefect.post(
            f"/deployments/{deployment['id']}/create_flow_run", json={"parameters": {"message": "hi"}}
        )
        flow_run_id = started.json()["id"]
        until(lambda: prefect.get(f"/flow_runs/{flow_run_id}").json()["state"]["type"] == "COMPLETED")
    assert stack.rows(
        "select r.workflow_id, r.state, r.outputs, q.is_internal, q.status"
        " from app.attempts a join app.runs r using (run_id) join app.requests q using (request_id)"
        " where a.flow_run_id = %s",
        flow_run_id,
    ) == [("echo_test", "completed", {"echoed_params": {"message": "hi"}}, True, "completed")]


def test_hello_world_returns_its_known_statistics(stack: RunningStack) -> None:
    with stack.operator() as domain:
        created = domain.post("/api/v1/runs", json={"workflow_id": "hello_world", "inputs": {"n": 3}}).json()
        run = until(
            lambda: (found := domain.get(f"/api/v1/runs/{created['run_id']}").json())["state"] == "completed" and found
        )
    assert run["outputs"]["hello_statistics"] == {
        "total_hellos_requested": 3,
        "hellos_completed_successfully": 3,
        "worlds_replies_generated": 3,
        "success_rate": "100%",
    }
    assert run["outputs"]["stage_1_messages"] == [f"Hello from task_{n}!" for n in (1, 2, 3)]
    assert run["outputs"]["stage_2_messages"] == [f"Hello task_{n} from task_{n + 3}!" for n in (1, 2, 3)]


def test_a_part_of_a_workflow_runs_alone(stack: RunningStack) -> None:
    done = stack.cairn("workflow", "run", "echo_test", "--only", "echo_handler", "--json")
    assert done.returncode == 0, done.stderr
    run = json.loads(done.stdout)
    with stack.operator() as domain:
        nodes = domain.get(f"/api/v1/runs/{run['run_id']}").json()["stages"]
    assert [(node["id"], node["status"]) for node in nodes] == [("echo_handler", "completed")]


def test_a_text_file_named_tif_fails_with_a_sentence_and_publishes_nothing(stack: RunningStack, tmp_path: Path) -> None:
    file = tmp_path / "notes.tif"
    file.write_text("these are notes, not a raster")
    done = stack.cairn("submit", str(file), "--ref", "dataset_id=notes", *REFS)
    assert done.returncode == 1
    assert "status    failed" in done.stdout
    assert (
        "notes.tif' is not a GeoTIFF, whatever its name says. Convert it to GeoTIFF and send it again." in done.stdout
    )
    [(asset_id, problem)] = stack.rows(
        "select asset_id, q.problem from app.requests q join app.assets using (asset_id)"
        " where refs->>'dataset_id' = 'notes'"
    )
    assert problem["code"] == "invalid-input"
    assert stack.rows("select count(*) from app.artifacts where asset_id = %s", asset_id) == [(0,)]
    assert stack.rows("select count(*) from pgstac.items where collection = %s", asset_id) == [(0,)]
    assert httpx.get(f"{stack.url('gateway')}/tiles/{asset_id}/info").status_code == 404


def test_a_worker_that_is_killed_is_started_again(stack: RunningStack) -> None:
    import os
    import signal

    worker = next(worker for worker in stack.json("status")["workers"] if worker["pool"] == "light")
    os.kill(worker["pid"], signal.SIGKILL)
    log = stack.folder / "logs" / "supervisor.log"
    until(lambda: log.read_text().count("worker-light ready") >= 2)
    assert stack.json("demo", "--seed", "6")["pixel"]


def test_the_tokens_of_the_stack_are_in_no_log(stack: RunningStack) -> None:
    import json

    secrets = json.loads((stack.folder / "secrets.json").read_text())
    logs = {path.name: path.read_text(errors="replace") for path in (stack.folder / "logs").iterdir()}
    leaks = [(name, secret) for name, text in logs.items() for secret, value in secrets.items() if value in text]
    assert leaks == []
