"""A pool is one entry: with `gpu` in the registry and nothing else changed, every part of Cairn works with it.

What is read when a process starts is shown in processes of their own (`tests/support/one_more_pool.py`).
"""

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from prefect.client.orchestration import get_client
from prefect.settings import PREFECT_API_URL, temporary_settings

from deployments import deploy, pools
from deployments.doctor import examination
from deployments.stack.owner import tied
from deployments.stack.ports import PREFERRED
from deployments.stack.report import report
from deployments.stack.services import Layout, services
from deployments.stack.state import StackState
from deployments.workers import forking, serve
from domain.adapters.prefect_runs import NewFlowRun, PrefectRuns
from flows.compiler import Plan, compile_text
from flows.compiler.partition import home_pool, stretch, work_pool
from flows.handlers import registry
from flows.pools import POOLS, SEGMENT_FLOW
from flows.tries import one_try
from tests.support import one_more_pool
from tests.support.clock import until
from tests.support.cluster import TestDatabase
from tests.support.one_more_pool import GPU, HANDLER
from tests.support.prefect_server import PATIENCE_SECONDS, REPOSITORY, PrefectServer

ROOFS = f"""
workflow_id: roofs
version: 1
nodes:
  start: {{type: start, next: look}}
  look: {{handler: {HANDLER}, next: end}}
  end: {{type: end}}
"""
MIXED = f"""
workflow_id: mixed
version: 1
nodes:
  start: {{type: start, next: ask}}
  ask: {{handler: echo, next: check}}
  check: {{handler: raster.validate, params: {{source: a/b.tif}}, next: look}}
  look: {{handler: {HANDLER}, next: again}}
  again: {{handler: {HANDLER}, next: tell}}
  tell: {{handler: echo, next: end}}
  end: {{type: end}}
"""


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The entry, where the others are."""
    monkeypatch.setitem(POOLS._by_name, GPU.name, GPU)
    one_more_pool.declare()
    yield
    registry._declared.pop(HANDLER)
    registry.registry.cache_clear()


def plan(text: str) -> Plan:
    compiled = compile_text(text, f"{text.split()[1]}.yaml", registry.registry())
    assert compiled.plan is not None, compiled.faults
    return compiled.plan


def command(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """The `cairn` command in a process whose registry has the entry."""
    module = ("-m", "tests.support.one_more_pool", "deployments.cli")
    return subprocess.run(
        [sys.executable, *module, *arguments], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )


# --- the compiler ---


@pytest.mark.parametrize(
    "task",
    [
        f"handler: {HANDLER}",
        f"handler: {HANDLER}, queue: gpu",
        f"handler: {HANDLER}, pool: gpu-tasks",
        "handler: raster.validate, params: {source: a/b.tif}, queue: gpu",
    ],
)
def test_a_node_may_name_the_pool_and_its_handler_knows_it(task: str, tmp_path: Path) -> None:
    (tmp_path / "roofs.yaml").write_text(ROOFS.replace(f"handler: {HANDLER}", task))
    shown = command("workflow", "show", str(tmp_path / "roofs.yaml"), "--json")
    assert shown.returncode == 0, shown.stderr
    [look] = [node for node in json.loads(shown.stdout)["nodes"] if node["id"] == "look"]
    assert look["pool"] == "gpu"


@pytest.mark.parametrize(("queue", "lacks"), [("light", "GDAL, a GPU"), ("container-tasks", "a GPU")])
def test_a_handler_is_not_routed_to_a_pool_that_lacks_what_its_own_offers(
    queue: str, lacks: str, tmp_path: Path
) -> None:
    (tmp_path / "roofs.yaml").write_text(ROOFS.replace("next: end", f"queue: {queue}, next: end"))
    told = command("workflow", "validate", str(tmp_path / "roofs.yaml"))
    assert told.returncode == 1
    assert f"queue-mismatch: {HANDLER} needs {lacks}, and '{queue}' has none" in told.stdout
    assert "hint: write queue: gpu, or leave it out" in told.stdout


def test_an_unknown_queue_is_answered_with_the_pool_among_the_known(tmp_path: Path) -> None:
    (tmp_path / "roofs.yaml").write_text(ROOFS.replace("next: end", "queue: nowhere, next: end"))
    told = command("workflow", "validate", str(tmp_path / "roofs.yaml")).stdout
    assert "write one of light, gdal, gpu, functionapp-tasks, container-tasks, gpu-tasks, dag-worker-tasks" in told
    schema = json.loads(command("workflow", "schema").stdout)
    assert "gpu" in schema["$defs"]["task_node"]["properties"]["queue"]["enum"]


def test_nodes_of_the_added_pool_are_a_segment_of_their_own(gpu: None) -> None:
    mixed, only = plan(MIXED), plan(ROOFS)
    assert [node.pool for node in mixed.nodes.values() if node.pool] == ["light", "gdal", "gpu", "gpu", "light"]
    assert stretch(mixed, "check", ["start", "ask"]) == ["check"]
    assert stretch(mixed, "look", ["start", "ask", "check"]) == ["look", "again"]
    assert (home_pool(mixed), work_pool([mixed])) == ("light", "gpu")
    assert (home_pool(only), work_pool([only])) == ("gpu", "gpu")


# --- tries and workers ---


def test_tries_of_the_added_pool_are_confined_and_its_worker_forks(gpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not one_try.is_light(HANDLER)
    assert isinstance(serve._worker(GPU.name, "gpu-1", 1), forking.ForkingWorker)
    with pytest.raises(ValueError, match="only light handlers are given a credential"):
        registry.handler("probe.thief", pool=GPU.name, example=one_more_pool.Found(), database=True)


# --- rollout ---


def test_the_rollout_wants_its_pool_its_queues_and_its_deployment(gpu: None) -> None:
    [segment] = [one for one in deploy.targets([plan(ROOFS)]) if (one.flow, one.name) == (SEGMENT_FLOW, GPU.name)]
    assert (segment.pool, segment.queue) == ("gpu", "normal")
    [roofs] = [one for one in deploy.targets([plan(ROOFS)]) if one.flow == "roofs"]
    assert (roofs.pool, roofs.tags) == ("gpu", ("cairn", "pool:gpu"))
    assert "segment" in deploy.prefect_yaml([])
    variables = pools.template("kubernetes", GPU.name)["variables"]["properties"]
    assert (variables["image"]["default"], variables["memory_limit"]["default"]) == ("cairn-worker-gpu", "32Gi")
    assert variables["env"]["default"][pools.CONFINEMENT] == "required"


@pytest.fixture(scope="module")
def rolled_out(prefect_server: PrefectServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrefectServer]:
    """A Prefect server that `cairn deploy` has brought up to the entry, with one workflow; as before, afterwards."""
    workflows = tmp_path_factory.mktemp("workflows")
    (workflows / "roofs.yaml").write_text(ROOFS)
    done = prefect_server.run_module(
        "tests.support.one_more_pool", "deployments.cli", "deploy", "--limit", "gpu=2,gpu/low=1",
        CAIRN_WORKFLOWS_DIR=str(workflows),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    yield prefect_server
    with httpx.Client(base_url=prefect_server.api, timeout=30) as client:
        for name in ("segment/gpu", "roofs/roofs"):
            deployment = client.get(f"/deployments/name/{name}").raise_for_status().json()
            client.delete(f"/deployments/{deployment['id']}").raise_for_status()
        client.delete("/work_pools/gpu").raise_for_status()


def test_a_server_has_them_after_the_rollout(rolled_out: PrefectServer) -> None:
    with httpx.Client(base_url=rolled_out.api, timeout=30) as client:
        pool = client.get("/work_pools/gpu").raise_for_status().json()
        queues = client.post("/work_pools/gpu/queues/filter", json={}).raise_for_status().json()
        segment = client.get("/deployments/name/segment/gpu").raise_for_status().json()
    assert (pool["type"], pool["description"], pool["concurrency_limit"]) == ("process", GPU.description, 2)
    order = [queue["name"] for queue in sorted(queues, key=lambda queue: queue["priority"])]
    assert order == ["high", "normal", "low", "default"]
    assert (segment["work_pool_name"], segment["work_queue_name"]) == ("gpu", "normal")


@pytest.fixture
async def runs(rolled_out: PrefectServer) -> AsyncIterator[PrefectRuns]:
    with temporary_settings({PREFECT_API_URL: rolled_out.api}):
        async with PrefectRuns() as prefect:
            yield prefect


@pytest.mark.parametrize("priority", ["high", "normal", "low"])
async def test_flow_run_for_the_added_pool_waits_in_the_queue_of_its_priority(runs: PrefectRuns, priority: str) -> None:
    made = await runs.create("roofs/roofs", NewFlowRun(f"roofs/roofs:{priority}", "a run", {}, [], priority))
    async with get_client(sync_client=False) as client:
        found = await client.read_flow_run(made)
    assert (found.work_pool_name, found.work_queue_name) == ("gpu", priority)


def test_cairn_worker_start_serves_the_added_pool(rolled_out: PrefectServer) -> None:
    told = {"CAIRN_DOMAIN_URL": "http://127.0.0.1:9", "CAIRN_WORKER_TOKEN": "t", "PREFECT_WORKER_QUERY_SECONDS": "1"}
    module = ("-m", "tests.support.one_more_pool", "deployments.cli", "worker", "start", "--pool", "gpu")
    with (rolled_out.folder / "worker-gpu.log").open("wb") as log:
        process = subprocess.Popen(
            tied(sys.executable, *module, "--name", "gpu-1"),
            cwd=rolled_out.folder,
            env=rolled_out.environment | told,
            stdout=log,
            stderr=log,
        )
        try:
            until(lambda: rolled_out._online("gpu", process), PATIENCE_SECONDS)
        finally:
            process.terminate()
            process.wait(60)


# --- stack, doctor, commands ---


def test_the_stack_would_start_its_worker_and_leave_the_limit_to_it(gpu: None, tmp_path: Path) -> None:
    state = StackState(tmp_path)
    state.create()
    layout = Layout(state, dict(PREFERRED), "postgresql://admin:hidden@db.example/postgres")
    made = {service.name: service for service in services(layout)}
    worker = made["worker-gpu"]
    assert worker.command[-5:] == ["start", "--pool", "gpu", "--name", "gpu-1"]
    assert worker.needs == made["worker-gdal"].needs
    assert "CAIRN_DATABASE_LOADER_URL" not in worker.environment
    assert made["deploy"].environment["CAIRN_POOL_LIMITS"].endswith(",gpu=none")


async def test_the_status_tells_of_its_worker(gpu: None, tmp_path: Path) -> None:
    state = StackState(tmp_path)
    state.create()
    names = ("gateway", "domain", "serving", "prefect", "worker-light", "worker-gdal")
    facts: dict[str, Any] = {
        "services": {name: {"url": "http://127.0.0.1:9", "log": f"{name}.log"} for name in names},
        "ports": {"redis": 9},
        "ready_seconds": 1,
    }
    before = await report(state, facts)
    assert [worker["pool"] for worker in before["workers"]] == ["light", "gdal"], "a stack of before has none"
    facts["services"]["worker-gpu"] = {"log": "worker-gpu.log"}
    told = (await report(state, facts))["workers"][-1]
    assert (told["name"], told["pool"], told["healthy"]) == ("worker-gpu", "gpu", False)


def test_the_doctor_asks_who_serves_it(
    gpu: None, database: TestDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Ready(StackState):
        def running(self) -> dict[str, Any]:
            return {"phase": "ready", "ready_seconds": 1, "services": {"postgres": {"url": database.url()}}}

    monkeypatch.setattr(examination, "_report", lambda *_: {"services": {}, "workers": []})
    state = Ready(tmp_path)
    state.create()
    [found] = [one for one in examination.examine(state) if one.check == "pool gpu"]
    assert (found.verdict, found.advice) == ("wrong", "Start one: `cairn worker start --pool gpu`.")


def test_commands_name_it_where_they_name_pools() -> None:
    assert "[light|gdal|gpu]" in command("worker", "start", "--help").stdout
    told = " ".join(command("deploy", "--help").stdout.split())
    assert all(option in told for option in ("gpu=kubernetes", "gpu=8", "cairn-worker-gpu"))
    refused = command("deploy", "--limit", "cpu=1")
    assert (refused.returncode, "'gpu/low'" in refused.stderr) == (2, True)
