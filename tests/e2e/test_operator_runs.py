"""Every shipped workflow, run by an operator in each of the three ways there are, on the whole stack.

All are begun at once, so that the stack works on them together and none may disturb another. Those that change the
external zone are the service's alone, and say so; it orders them when a decision is made (`test_path`).
"""

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from deployments import sample
from deployments.stack.state import REPOSITORY
from flows.compiler import Plan, compile_files
from flows.handlers.registry import registry
from flows.storage import Zones
from tests.support import vectors
from tests.support.clock import until
from tests.support.quick_runs import WAIT_SECONDS, QuickRun, deployment, faults, quick_run
from tests.support.stack import RunningStack

pytestmark = pytest.mark.stack
RASTER, VECTOR = "uploads/operators/dem.tif", "uploads/operators/fields.gpkg"
FAILS_ONCE = 4  # the first try of `retry_test` fails with this seed, the second does not
SIZE_PIXELS = 640
FIRST: Mapping[str, Mapping[str, Any]] = {
    "raster_ingest": {"source": RASTER},
    "raster_tiled": {"source": RASTER, "tile_pixels": 512},
    "vector_ingest": {"source": VECTOR},
    "validate_dataset": {"source": RASTER},
    "process_raster": {"source": RASTER, "source_crs": sample.CRS},
}
LAST = "create_stac_item"  # of what process_raster made
LEAVES_NOTHING = "validate_dataset"
# They make no asset. Of the seed it is known which tries fail.
PLAIN: Mapping[str, Mapping[str, Any]] = {
    "echo_test": {"message": "hi"},
    "hello_world": {"n": 3},
    "retry_test": {"seed": FAILS_ONCE},
    "retry_fan_out_test": {"seed": 4, "numbers": [1, 2, 3, 4, 5, 6]},
}
THE_SERVICES: Mapping[str, Mapping[str, Any]] = {
    "adf_export": {"artifacts": [{"name": "a"}], "destination": "there"},
    "withdraw_external": {"external_blob_path": "there"},
}
Way = Callable[[RunningStack, str, Mapping[str, Any]], str]


def by_form(stack: RunningStack, workflow: str, inputs: Mapping[str, Any]) -> str:
    """As Prefect's UI does it."""
    return quick_run(stack, workflow, inputs).run_id()


def by_api(stack: RunningStack, workflow: str, inputs: Mapping[str, Any]) -> str:
    with stack.operator() as domain:
        body = {"workflow_id": workflow, "inputs": dict(inputs)}
        return str(domain.post("/api/v1/runs", json=body).raise_for_status().json()["run_id"])


def by_command(stack: RunningStack, workflow: str, inputs: Mapping[str, Any]) -> str:
    given = [word for name, value in inputs.items() for word in ("-i", f"{name}={json.dumps(value)}")]
    command = [sys.executable, "-m", "deployments.cli", "workflow", "run", workflow, *given, "--json"]
    done = subprocess.run(
        command, env=stack.environment, capture_output=True, text=True, check=False, timeout=WAIT_SECONDS
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return str(json.loads(done.stdout)["run_id"])


DISPATCHED = ("quick run", "POST /runs")  # by Prefect, and by the domain
WAYS: Mapping[str, Way] = {"quick run": by_form, "POST /runs": by_api, "cairn workflow run": by_command}


def ended(stack: RunningStack, run_id: str) -> dict[str, Any]:
    """The run's record once it has ended."""
    with stack.operator() as domain:

        def record() -> dict[str, Any]:
            found: dict[str, Any] = domain.get(f"/api/v1/runs/{run_id}").raise_for_status().json()
            return found

        until(lambda: record()["state"] not in {"pending", "running"}, WAIT_SECONDS)
        return record()


@dataclass(frozen=True)
class Done:
    """How every run ended, by its way and workflow, and the service's own workflows where an operator began them."""

    runs: Mapping[tuple[str, str], dict[str, Any]]
    refused: Mapping[str, QuickRun]


@pytest.fixture(scope="module")
def done(stack: RunningStack, tmp_path_factory: pytest.TempPathFactory) -> Done:
    folder, bronze = tmp_path_factory.mktemp("operators"), Zones.local(stack.folder / "storage").bronze
    sample.write(folder / "dem.tif", 7, size=SIZE_PIXELS)
    bronze.put_file(RASTER, folder / "dem.tif")
    bronze.put_file(VECTOR, vectors.write(folder / "fields.gpkg", vectors.squares(40, side=0.001)))

    def run(way: str, workflow: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
        return ended(stack, WAYS[way](stack, workflow, inputs))

    with ThreadPoolExecutor(len(WAYS) * (len(FIRST) + len(PLAIN))) as at_once:
        refused = {name: quick_run(stack, name, inputs) for name, inputs in THE_SERVICES.items()}
        begun = {(way, name): at_once.submit(run, way, name, FIRST[name]) for way in WAYS for name in FIRST}
        begun |= {(way, name): at_once.submit(run, way, name, PLAIN[name]) for way in DISPATCHED for name in PLAIN}
        runs = {place: one.result() for place, one in begun.items()}
        products = {way: runs[way, "process_raster"]["outputs"]["product"] for way in WAYS}
        source = {"source": RASTER, "source_sha256": runs["POST /runs", "validate_dataset"]["outputs"]["sha256"]}
        last = {way: at_once.submit(run, way, LAST, {"product": products[way], **source}) for way in WAYS}
        runs |= {(way, LAST): one.result() for way, one in last.items()}
    return Done(runs, refused)


def shipped() -> dict[str, Plan]:
    compiled = compile_files(sorted((REPOSITORY / "workflows").glob("*.yaml")), registry())
    return {one.plan.workflow_id: one.plan for one in compiled if one.plan}


def test_every_shipped_workflow_is_run_by_its_form(stack: RunningStack, done: Done) -> None:
    """All that an operator may run completed; those of the service alone ended at once, with a sentence."""
    assert {*FIRST, LAST, *PLAIN, *THE_SERVICES} == shipped().keys()
    states = {name: done.runs["quick run", name]["state"] for name in (*FIRST, LAST, *PLAIN)}
    assert set(states.values()) == {"completed"}, states
    for name, run in done.refused.items():
        assert run.until_over(60) == "Failed"
        assert f"Workflow {name} changes the external zone" in run.shown()["state"]["message"]
        assert "Traceback" not in run.shown()["state"]["message"]


def test_form_of_every_workflow_is_typed_and_shows_nothing_of_the_platform(stack: RunningStack) -> None:
    """It says what is missing, and which value is wrong, before anything is sent."""
    for name, plan in shipped().items():
        schema = deployment(stack, name)["parameter_openapi_schema"]
        assert set(schema["properties"]) == set(plan.inputs)
        needed = {each.name for each in plan.inputs.values() if each.required}
        assert set(schema.get("required", [])) == needed
        assert bool(faults(stack, schema, {})) == bool(needed)
    [wrong] = faults(stack, schema_of(stack, "hello_world"), {"n": 0, "message": "hi"})
    assert wrong["property"] == "n"


def schema_of(stack: RunningStack, name: str) -> dict[str, Any]:
    found: dict[str, Any] = deployment(stack, name)["parameter_openapi_schema"]
    return found


@pytest.mark.parametrize("way", DISPATCHED)
def test_failed_tries_are_seen_as_retries(stack: RunningStack, done: Done, way: str) -> None:
    """In the domain's records of nodes and items, and in Prefect's task runs."""
    single, many = (done.runs[way, name] for name in ("retry_test", "retry_fan_out_test"))
    assert (single["state"], many["state"]) == ("completed", "completed")
    assert {node["id"]: node["tries"] for node in single["stages"] if node["tries"]} == {"flaky": 2}
    with stack.operator() as domain:
        items = domain.get(f"/api/v1/runs/{many['run_id']}/nodes/children/items").raise_for_status().json()["items"]
    assert [item["state"] for item in items] == ["completed"] * 6
    tries = {f"children__{item['index']}": item["tries"] for item in items}
    assert max(tries.values()) > 1
    assert task_runs(stack, single, {"flaky": 2}) == {"flaky": 2}
    assert task_runs(stack, many, tries) == tries


def task_runs(stack: RunningStack, run: Mapping[str, Any], expected: Mapping[str, int]) -> dict[str, int]:
    """How often each task run of the run was run, once Prefect has recorded the last of them."""
    wanted = {"flow_runs": {"id": {"any_": [run["attempts"][0]["flow_run_id"]]}}}
    with stack.prefect() as http:

        def counts() -> dict[str, int]:
            found = http.post("/task_runs/filter", json=wanted).raise_for_status().json()
            return {one["name"]: one["run_count"] for one in found if one["state_type"] == "COMPLETED"}

        until(lambda: counts() == expected, 60, lambda: str(counts()))
        return counts()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("workflow", [*FIRST, LAST])
def test_an_operators_run_completes_under_an_asset_of_its_own(
    stack: RunningStack, done: Done, way: str, workflow: str
) -> None:
    run = done.runs[way, workflow]
    assert (run["state"], run["problem"], run["is_internal"]) == ("completed", None, True)
    assert [attempt["number"] for attempt in run["attempts"]] == [1]
    if workflow == LEAVES_NOTHING:
        assert (run["asset_id"], run["artifacts"]) == (None, 0)
        return
    assert run["artifacts"] > 0
    if "collection_id" in run["outputs"]:
        assert run["outputs"]["collection_id"] == run["asset_id"]
    assert stack.rows(
        "select a.platform_id, a.clearance, v.served_revision, r.processing from app.assets a"
        " join app.asset_versions v using (asset_id) join app.revisions r using (asset_id, ordinal)"
        " where a.asset_id = %s",
        run["asset_id"],
    ) == [("internal", "uncleared", None, "completed")]
    assert list((stack.folder / "storage" / "silver" / "assets" / run["asset_id"]).rglob("*.*"))


def test_no_two_runs_share_an_asset(done: Done) -> None:
    ids = [run["asset_id"] for run in done.runs.values() if run["asset_id"]]
    assert len(ids) == len(WAYS) * len({*FIRST, LAST} - {LEAVES_NOTHING})
    assert len(set(ids)) == len(ids)


def test_only_staff_see_what_operators_runs_made(stack: RunningStack, done: Done) -> None:
    gateway = stack.url("gateway")
    reviewer = {"Authorization": f"Bearer {stack.credentials()['reviewer']['token']}"}
    partner = {"X-API-Key": stack.credentials()["clients"]["ddh"]["api_key"]}
    raster = done.runs["quick run", "raster_ingest"]["asset_id"]
    vector = done.runs["quick run", "vector_ingest"]["asset_id"]
    for path in (f"/tiles/{raster}/info?version=0", f"/vector/collections/{vector}/items?version=0"):
        answers = [httpx.get(f"{gateway}{path}", headers=headers).status_code for headers in (reviewer, partner, {})]
        assert answers == [200, 404, 404], path
    assert stack.rows("select count(*) from pgstac.collections where id = any(%s)", [raster, vector]) == [(0,)]


def test_deleting_an_operators_asset_removes_what_its_run_made(stack: RunningStack, done: Done) -> None:
    """Its files go at once, its table with the next look at what is left over."""
    asset_id = done.runs["POST /runs", "vector_ingest"]["asset_id"]
    folder = stack.folder / "storage" / "silver" / "assets" / asset_id
    table = "select table_name from geo.layers l join app.artifacts f on f.name = l.product where f.asset_id = %s"
    [(name,)] = stack.rows(table, asset_id)
    assert stack.cairn("assets", "delete", asset_id, "--reason", "seen").returncode == 0
    assert not list(folder.rglob("*.*"))
    until(lambda: stack.rows("select to_regclass('geo.' || %s)::text", name) == [(None,)])
