"""`cairn deploy` against a real Prefect server: what it makes, that it makes it once, and that it says so."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from deployments.pools import FORK_RUNS
from tests.support.prefect_server import REPOSITORY, PrefectServer

DEPLOYMENTS = yaml.safe_load((REPOSITORY / "prefect.yaml").read_text())["deployments"]
VOLATILE = {"created", "updated", "last_polled", "status", "next_trigger", "last_triggered"}


@pytest.fixture
def prefect(prefect_server: PrefectServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=prefect_server.api, timeout=30) as client:
        yield client


def deploy(server: PrefectServer, *arguments: str, **settings: str) -> list[tuple[str, str]]:
    """Run the command; returns verdict and `kind name` of each thing."""
    done = server.cairn("deploy", "--json", "--storage-root", "/srv/zones", *arguments, **settings)
    assert done.returncode == 0, done.stderr
    return [(change["verdict"], f"{change['kind']} {change['name']}") for change in json.loads(done.stdout)["changes"]]


def not_unchanged(changes: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [change for change in changes if change[0] != "unchanged"]


def server_state(prefect: httpx.Client) -> dict[str, Any]:
    """Everything that a rollout touches, as the server has it, its times left out."""
    pools = found(prefect, "work_pools")
    return {
        "pools": pools,
        "queues": [found(prefect, f"work_pools/{pool['name']}/queues") for pool in pools],
        "deployments": found(prefect, "deployments"),
        "automations": found(prefect, "automations"),
        "blocks": found(prefect, "block_documents"),
        "flows": found(prefect, "flows"),
    }


def found(prefect: httpx.Client, kind: str) -> list[Any]:
    answer = prefect.post(f"/{kind}/filter", json={}).raise_for_status().json()
    return sorted((_stable(one) for one in answer), key=lambda one: str(one["id"]))


def _stable(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _stable(inner) for name, inner in value.items() if name not in VOLATILE}
    return [_stable(inner) for inner in value] if isinstance(value, list) else value


def test_a_second_rollout_changes_nothing(prefect_server: PrefectServer, prefect: httpx.Client) -> None:
    deploy(prefect_server)
    before = server_state(prefect)
    assert before["deployments"]
    assert not_unchanged(deploy(prefect_server)) == []
    assert server_state(prefect) == before


def test_prefect_deploys_the_generated_file_to_the_same_state(
    prefect_server: PrefectServer, prefect: httpx.Client
) -> None:
    """Prefect's own command, with the file as it is in the clone."""
    deploy(prefect_server)
    for deployment in prefect.post("/deployments/filter", json={}).json():
        prefect.delete(f"/deployments/{deployment['id']}").raise_for_status()
    done = prefect_server.run_module("prefect", "--no-prompt", "deploy", "--all")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Running refuse_reused_versions step" in done.stdout
    assert "Running publish step" in done.stdout
    assert "No domain was told" in done.stdout
    there = {one["entrypoint"]: one for one in prefect.post("/deployments/filter", json={}).json()}
    assert set(there) == {entry["entrypoint"] for entry in DEPLOYMENTS}
    assert "message" in there["flows.catalog.echo_test"]["parameter_openapi_schema"]["properties"]
    assert not_unchanged(deploy(prefect_server)) == []


def test_queues_of_a_pool_have_their_priorities(prefect_server: PrefectServer, prefect: httpx.Client) -> None:
    deploy(prefect_server)
    for pool in ("light", "gdal"):
        queues = found(prefect, f"work_pools/{pool}/queues")
        order = [queue["name"] for queue in sorted(queues, key=lambda queue: queue["priority"])]
        assert order == ["high", "normal", "low", "default"]


def test_limits_are_set_corrected_and_otherwise_left_to_operators(
    prefect_server: PrefectServer, prefect: httpx.Client
) -> None:
    assert ("changed", "pool gdal") in deploy(prefect_server, CAIRN_POOL_LIMITS="gdal=4,gdal/low=1")
    assert prefect.get("/work_pools/gdal").json()["concurrency_limit"] == 4
    assert prefect.get("/work_pools/gdal/queues/low").json()["concurrency_limit"] == 1
    assert not_unchanged(deploy(prefect_server)) == []
    assert prefect.get("/work_pools/gdal").json()["concurrency_limit"] == 4
    deploy(prefect_server, "--limit", "gdal=none,gdal/low=none")
    assert prefect.get("/work_pools/gdal").json()["concurrency_limit"] is None


@pytest.mark.parametrize("limit", ["gdal", "gdal=", "gdal=0", "gdal=-1", "gdal=many", "other=3", "gdal/urgent=1"])
def test_a_senseless_limit_is_refused(prefect_server: PrefectServer, limit: str) -> None:
    done = prefect_server.cairn("deploy", "--limit", limit)
    assert done.returncode == 2
    assert "Invalid value for '--limit'" in done.stderr


def environment(prefect: httpx.Client) -> dict[str, str]:
    """What the gdal pool's template puts into the environment of each run."""
    variables = prefect.get("/work_pools/gdal").json()["base_job_template"]["variables"]["properties"]
    found: dict[str, str] = variables["env"]["default"]
    return found


def test_rollout_keeps_pool_settings_that_it_is_not_told_to_change(
    prefect_server: PrefectServer, prefect: httpx.Client
) -> None:
    deploy(prefect_server, "--no-warm")
    assert environment(prefect)[FORK_RUNS] == "off"
    pool = prefect.get("/work_pools/gdal").json()["base_job_template"]
    pool["variables"]["properties"]["working_dir"]["default"] = "/data"  # as an operator does in Prefect's UI
    prefect.patch("/work_pools/gdal", json={"base_job_template": pool}).raise_for_status()
    assert not_unchanged(deploy(prefect_server, "--limit", "gdal=3")) == [("changed", "pool gdal")]
    assert prefect.get("/work_pools/gdal").json()["base_job_template"] == pool
    deploy(prefect_server, "--warm", "--limit", "gdal=none")
    assert FORK_RUNS not in environment(prefect)


def test_rollout_of_a_changed_workflow_keeps_what_operators_gave_its_deployment(
    prefect_server: PrefectServer, prefect: httpx.Client
) -> None:
    deploy(prefect_server)
    path = f"/deployments/{prefect.get('/deployments/name/echo_test/echo_test').json()['id']}"
    every_day = [{"schedule": {"interval": 86400}, "active": True}]
    prefect.post(f"{path}/schedules", json=every_day).raise_for_status()
    theirs = {"concurrency_limit": 2, "job_variables": {"env": {"A": "b"}}, "parameters": {"message": "hi"}}
    prefect.patch(path, json=theirs | {"version": "0"}).raise_for_status()
    assert not_unchanged(deploy(prefect_server)) == [("changed", "deployment echo_test/echo_test")]
    found = prefect.get(path).json()
    assert found["version"] != "0"
    assert [one["schedule"]["interval"] for one in found["schedules"]] == [86400.0]
    assert found["global_concurrency_limit"]["limit"] == 2
    assert {name: found[name] for name in ("job_variables", "parameters")} == {
        name: theirs[name] for name in ("job_variables", "parameters")
    }
    prefect.delete(path).raise_for_status()
    deploy(prefect_server)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"PREFECT_API_URL": ""}, "no stack is running here, and PREFECT_API_URL names no server"),
        ({"PREFECT_API_URL": "http://127.0.0.1:9/api"}, "the Prefect server at http://127.0.0.1:9/api does not answer"),
        ({"PREFECT_API_URL": "http://me:secret@127.0.0.1:9/api"}, "the Prefect server at http://127.0.0.1:9/api does"),
        (
            {"CAIRN_DOMAIN_URL": "http://127.0.0.1:9", "CAIRN_OPERATOR_TOKEN": "t"},
            "the domain at http://127.0.0.1:9 does",
        ),
    ],
)
def test_deploy_to_an_unreachable_server_ends_with_a_sentence(
    prefect_server: PrefectServer, tmp_path: Path, settings: dict[str, str], says: str
) -> None:
    """And no server of Prefect's own is started in its place: its home stays empty."""
    home = {"CAIRN_STATE": str(tmp_path), "PREFECT_HOME": str(tmp_path / "prefect")}
    done = prefect_server.cairn("deploy", **home, **settings)
    assert (done.returncode, done.stdout) == (2, "")
    [line] = done.stderr.splitlines()
    assert line.startswith(f"cairn: {says}")
    assert not list(tmp_path.rglob("*.db"))


def test_faulty_workflow_is_left_out_when_told_to(prefect_server: PrefectServer, tmp_path: Path) -> None:
    deploy(prefect_server)
    folder = tmp_path / "workflows"
    shutil.copytree(REPOSITORY / "workflows", folder)
    (folder / "echo_test.yaml").write_text("nodes: [")
    refused = prefect_server.cairn("deploy", "--workflows", str(folder))
    assert (refused.returncode, refused.stdout) == (1, "")
    left = deploy(prefect_server, "--workflows", str(folder), "--spare-faulty", "--prune")
    assert not_unchanged(left) == [], "its deployment stays as it was: the file is there"


def test_rollout_corrects_and_reports_manual_changes(prefect_server: PrefectServer, prefect: httpx.Client) -> None:
    deploy(prefect_server)
    deployment = prefect.get("/deployments/name/echo_test/echo_test").json()
    prefect.patch(f"/deployments/{deployment['id']}", json={"tags": ["mine"]}).raise_for_status()
    prefect.patch("/work_pools/light", json={"description": "mine"}).raise_for_status()
    assert not_unchanged(deploy(prefect_server)) == [
        ("changed", "pool light"),
        ("changed", "deployment echo_test/echo_test"),
    ]


def test_a_removed_workflow_is_reported_and_pruned_once_its_runs_are_over(
    prefect_server: PrefectServer, prefect: httpx.Client, tmp_path: Path
) -> None:
    deploy(prefect_server)
    fewer = tmp_path / "workflows"
    shutil.copytree(REPOSITORY / "workflows", fewer)
    (fewer / "echo_test.yaml").unlink()
    name = "deployment echo_test/echo_test"
    arguments = ("--workflows", str(fewer))
    assert not_unchanged(deploy(prefect_server, *arguments)) == [("left over", name)]
    deployment = prefect.get("/deployments/name/echo_test/echo_test").json()
    run = prefect.post(f"/deployments/{deployment['id']}/create_flow_run", json={}).json()
    assert not_unchanged(deploy(prefect_server, *arguments, "--prune")) == [("left over", name)]
    cancelled = {"state": {"type": "CANCELLED"}, "force": True}
    prefect.post(f"/flow_runs/{run['id']}/set_state", json=cancelled).raise_for_status()
    assert not_unchanged(deploy(prefect_server, *arguments, "--prune")) == [("removed", name)]
    assert prefect.get("/deployments/name/echo_test/echo_test").status_code == 404


def test_rollout_leaves_foreign_deployments_alone(prefect_server: PrefectServer, prefect: httpx.Client) -> None:
    flow = prefect.post("/flows/", json={"name": "theirs"}).json()
    theirs = {"flow_id": flow["id"], "name": "theirs", "tags": ["cairn"], "entrypoint": "their_flows.py:flow"}
    made = prefect.post("/deployments/", json=theirs).raise_for_status().json()
    deploy(prefect_server, "--prune")
    assert prefect.get(f"/deployments/{made['id']}").is_success
    prefect.delete(f"/deployments/{made['id']}").raise_for_status()


def test_a_pool_of_another_type_is_replaced_only_when_told_to(
    prefect_server: PrefectServer, prefect: httpx.Client
) -> None:
    deploy(prefect_server)
    right = prefect.get("/work_pools/gdal").json()["type"]
    prefect.delete("/work_pools/gdal").raise_for_status()
    prefect.post("/work_pools/", json={"name": "gdal", "type": "ecs"}).raise_for_status()
    refused = prefect_server.cairn("deploy")
    assert refused.returncode == 2
    assert "'ecs'" in refused.stderr
    assert "--replace-pools" in refused.stderr
    assert ("created", "pool gdal") in deploy(prefect_server, "--replace-pools")
    assert prefect.get("/work_pools/gdal").json()["type"] == right
    # Deleting the pool took its deployments' queue away: they have one again.
    deployment = prefect.get("/deployments/name/process_raster/process_raster").json()
    assert (deployment["work_pool_name"], deployment["work_queue_name"]) == ("gdal", "normal")


def test_rollout_makes_a_pool_that_is_served_by_containers(
    prefect_server: PrefectServer, prefect: httpx.Client
) -> None:
    chosen = ("--pool-type", "gdal=kubernetes", "--image", "gdal=registry/worker:2")
    assert ("created", "pool gdal") in deploy(prefect_server, *chosen, "--replace-pools")
    try:
        pool = prefect.get("/work_pools/gdal").json()
        assert pool["type"] == "kubernetes"
        assert pool["base_job_template"]["variables"]["properties"]["image"]["default"] == "registry/worker:2"
        assert not_unchanged(deploy(prefect_server, *chosen)) == []
        assert not_unchanged(deploy(prefect_server)) == [], "unsaid, it stays of its type"
        unknown = prefect_server.cairn("deploy", "--pool-type", "gdal=ecs")
        assert unknown.returncode == 2
        assert "process, docker, kubernetes, azure-container-instance" in unknown.stderr
    finally:
        deploy(prefect_server, "--replace-pools")
