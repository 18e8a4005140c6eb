"""Every shipped workflow of an ingest, run by an operator in each of the three ways there are, on the whole stack.

All are begun at once, so that the stack works on them together and none may disturb another.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from deployments import sample
from flows.storage import Zones
from tests.support import vectors
from tests.support.stack import RunningStack

pytestmark = pytest.mark.stack
RASTER, VECTOR = "uploads/operators/dem.tif", "uploads/operators/fields.gpkg"
SIZE_PIXELS = 640
FIRST: Mapping[str, Mapping[str, Any]] = {
    "raster_ingest": {"source": RASTER},
    "raster_tiled": {"source": RASTER, "tile_pixels": 512},
    "vector_ingest": {"source": VECTOR},
    "validate_dataset": {"source": RASTER},
    "process_raster": {"source": RASTER, "source_crs": sample.CRS},
}
LAST = "create_stac_item"  # of what process_raster made
WAIT_SECONDS = 600.0
Way = Callable[[RunningStack, str, Mapping[str, Any]], str]


def quick_run(stack: RunningStack, workflow: str, inputs: Mapping[str, Any]) -> str:
    """As Prefect's UI does it: a flow run of the deployment, scheduled for now; every field of its form is sent."""
    with stack.prefect() as prefect:
        deployment = prefect.get(f"/deployments/name/{workflow}/{workflow}").raise_for_status().json()
        fields = deployment["parameter_openapi_schema"]["properties"]
        form = {name: field.get("default") for name, field in fields.items()} | dict(inputs)
        body = {"parameters": form, "state": {"type": "SCHEDULED", "message": "Run from the Prefect UI"}}
        flow_run = prefect.post(f"/deployments/{deployment['id']}/create_flow_run", json=body).raise_for_status().json()
    query = "select run_id::text from app.attempts where flow_run_id = %s"
    [(run_id,)] = until(lambda: stack.rows(query, flow_run["id"]))
    return str(run_id)


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


WAYS: Mapping[str, Way] = {"quick run": quick_run, "POST /runs": by_api, "cairn workflow run": by_command}


def until(question: Callable[[], Any]) -> Any:
    """The first answer that is not empty."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not (answer := question()):
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.3)
    return answer


def ended(stack: RunningStack, run_id: str) -> dict[str, Any]:
    """The run's record once it has ended."""
    with stack.operator() as domain:

        def record() -> dict[str, Any]:
            found: dict[str, Any] = domain.get(f"/api/v1/runs/{run_id}").raise_for_status().json()
            return found if found["state"] not in {"pending", "running"} else {}

        found: dict[str, Any] = until(record)
    return found


@dataclass(frozen=True)
class Done:
    """How every run ended, by its way and workflow."""

    runs: Mapping[tuple[str, str], dict[str, Any]]


@pytest.fixture(scope="module")
def done(stack: RunningStack, tmp_path_factory: pytest.TempPathFactory) -> Done:
    folder, bronze = tmp_path_factory.mktemp("operators"), Zones.local(stack.folder / "storage").bronze
    sample.write(folder / "dem.tif", 7, size=SIZE_PIXELS)
    bronze.put_file(RASTER, folder / "dem.tif")
    bronze.put_file(VECTOR, vectors.write(folder / "fields.gpkg", vectors.squares(40, side=0.001)))

    def run(way: str, workflow: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
        return ended(stack, WAYS[way](stack, workflow, inputs))

    with ThreadPoolExecutor(len(WAYS) * len(FIRST)) as at_once:
        begun = {(way, name): at_once.submit(run, way, name, FIRST[name]) for way in WAYS for name in FIRST}
        runs = {place: one.result() for place, one in begun.items()}
        products = {way: runs[way, "process_raster"]["outputs"]["product"] for way in WAYS}
        source = {"source": RASTER, "source_sha256": runs["POST /runs", "validate_dataset"]["outputs"]["sha256"]}
        last = {way: at_once.submit(run, way, LAST, {"product": products[way], **source}) for way in WAYS}
        runs |= {(way, LAST): one.result() for way, one in last.items()}
    return Done(runs)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("workflow", [*FIRST, LAST])
def test_an_operators_run_completes_under_an_asset_of_its_own(
    stack: RunningStack, done: Done, way: str, workflow: str
) -> None:
    run = done.runs[way, workflow]
    assert (run["state"], run["problem"], run["is_internal"]) == ("completed", None, True)
    assert [attempt["number"] for attempt in run["attempts"]] == [1]
    if workflow == "validate_dataset":  # it leaves nothing
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
    assert len(ids) == len(WAYS) * 5
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
