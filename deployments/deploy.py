"""Rolls out: work pools, the storage block, one deployment per workflow. Says what it did, changes nothing twice."""

import contextlib
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from flows.compiler import Plan, compile_files
from flows.handlers.registry import registry
from flows.readiness import unready
from flows.segments import GDAL, LIGHT, home_pool

POOLS = {LIGHT: "Small handlers, waiting parents", GDAL: "Raster and vector work"}
QUEUES = {"high": 1, "normal": 2, "low": 3}
SEGMENT = "segment"
LAUNCHER = Path(__file__).resolve().parent / "warm" / "launcher.py"


@dataclass(frozen=True)
class Target:
    """One deployment: a flow of the catalogue on a pool."""

    flow: str
    name: str
    pool: str
    entrypoint: str
    description: str
    version: str | None
    tags: tuple[str, ...]

    def entry(self) -> dict[str, Any]:
        """The deployment as prefect.yaml words it."""
        return {
            "name": self.name,
            "version": self.version,
            "entrypoint": self.entrypoint,
            "description": self.description,
            "tags": list(self.tags),
            "work_pool": {"name": self.pool},
        }


def targets(plans: Sequence[Plan]) -> Iterator[Target]:
    """What is deployed: every workflow that can run, and the stretches of both pools."""
    for plan in plans:
        pool = home_pool(plan)
        yield Target(
            plan.workflow_id,
            plan.workflow_id,
            pool,
            f"flows.catalog.{plan.workflow_id}",
            plan.description or plan.name,
            str(plan.version),
            ("cairn", f"pool:{pool}"),
        )
    for pool in POOLS:
        description = "A stretch of a run on this pool. Started by its run, never by hand."
        yield Target(SEGMENT, pool, pool, f"flows.catalog.{SEGMENT}", description, None, ("cairn", "segment"))


def runnable_plans(folder: Path) -> tuple[list[Plan], dict[str, list[str]]]:
    """Plans that can run, and why the others cannot. A workflow with faults stops the rollout."""
    compiled = compile_files(sorted(folder.glob("*.yaml")), registry())
    faults = [f"{fault.file}:{fault.line}: {fault.message}" for result in compiled for fault in result.faults]
    if faults:
        raise SystemExit("\n".join(["Nothing was deployed; these workflows have faults:", *faults]))
    plans = [result.plan for result in compiled if result.plan is not None]
    by_id = {plan.workflow_id: plan for plan in plans}
    reasons = {plan.workflow_id: unready(plan, by_id) for plan in plans}
    runnable = [plan for plan in plans if not reasons[plan.workflow_id]]
    return runnable, {name: why for name, why in reasons.items() if why}


def prefect_yaml(plans: Sequence[Plan]) -> str:
    """The text of prefect.yaml."""
    head = "# Made by `cairn deploy --write` from workflows/*.yaml; `make check` refuses it when it is stale.\n"
    content = {"name": "cairn", "pull": None, "deployments": [target.entry() for target in targets(plans)]}
    return head + yaml.safe_dump(content, sort_keys=False, width=110, allow_unicode=True)


async def apply(plans: Sequence[Plan], storage_root: str | None, *, warm: bool = False) -> list[str]:
    """Make Prefect know all of it; returns a line for each thing."""
    from prefect.client.orchestration import get_client

    async with get_client(sync_client=False) as client:
        done = [await _ensure_pool(client, pool, text, warm=warm) for pool, text in POOLS.items()]
        for target in targets(plans):
            await _deploy(client, target)
            done.append(f"deployment {target.flow}/{target.name} on {target.pool}")
    if storage_root:
        from blocks.storage import LocalZones

        await LocalZones(root=Path(storage_root)).asave("cairn", overwrite=True)
        done.append("block local-zones/cairn")
    return done


async def _ensure_pool(client: Any, name: str, description: str, *, warm: bool) -> str:
    from prefect.client.schemas.actions import WorkPoolCreate, WorkPoolUpdate
    from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound

    kind, template = worker_type(name, warm=warm)
    try:
        if (await client.read_work_pool(name)).type != kind:
            await _drop_pool(client, name, kind)  # the update below then finds none
        await client.update_work_pool(name, WorkPoolUpdate(base_job_template=template))
    except ObjectNotFound:
        pool = WorkPoolCreate(name=name, type=kind, description=description, base_job_template=template)
        with contextlib.suppress(ObjectAlreadyExists):  # another rollout was faster
            await client.create_work_pool(pool)
    for queue, priority in QUEUES.items():
        try:
            await client.read_work_queue_by_name(queue, work_pool_name=name)
        except ObjectNotFound:
            await client.create_work_queue(name=queue, work_pool_name=name, priority=priority)
    return f"pool {name} with queues {', '.join(QUEUES)}"


async def _drop_pool(client: Any, name: str, kind: str) -> None:
    """Make way for a pool of another type: Prefect cannot change it. Runs that wait there would lose their queue."""
    from prefect.client.schemas.filters import (
        FlowRunFilter,
        FlowRunFilterState,
        FlowRunFilterStateType,
        WorkPoolFilter,
        WorkPoolFilterName,
    )
    from prefect.client.schemas.objects import StateType

    alive = [StateType.SCHEDULED, StateType.PENDING, StateType.RUNNING, StateType.CANCELLING, StateType.PAUSED]
    open_runs = await client.read_flow_runs(
        flow_run_filter=FlowRunFilter(state=FlowRunFilterState(type=FlowRunFilterStateType(any_=alive))),
        work_pool_filter=WorkPoolFilter(name=WorkPoolFilterName(any_=[name])),
        limit=1,
    )
    if open_runs:
        raise SystemExit(
            f"Pool {name} must become one of type {kind}, and runs are open in it. Pause dispatch (`cairn pause`), "
            "let them end, and deploy again."
        )
    await client.delete_work_pool(name)


def worker_type(pool: str, *, warm: bool) -> tuple[str, dict[str, Any]]:
    """The type of worker that serves the pool, and its job template."""
    if pool == LIGHT:
        from deployments.workers.inline import InlineWorker

        return InlineWorker.type, InlineWorker.get_default_base_job_template()
    return "process", job_template(warm=warm)


def job_template(*, warm: bool) -> dict[str, Any]:
    """How the pools' process workers start a flow run: warm through the launcher, or as Prefect does by itself."""
    from prefect.workers.process import ProcessWorker

    template = ProcessWorker.get_default_base_job_template()
    if warm:
        command = shlex.join([sys.executable, "-I", "-S", str(LAUNCHER)])
        template["variables"]["properties"]["command"]["default"] = command
    return template


async def _deploy(client: Any, target: Target) -> None:
    from prefect.utilities.callables import parameter_schema

    from flows import catalog

    flow = catalog.flow(target.flow)
    flow_id = await client.create_flow(flow)
    await client.create_deployment(
        flow_id=flow_id,
        name=target.name,
        version=target.version,
        work_pool_name=target.pool,
        entrypoint=target.entrypoint,
        description=target.description,
        tags=list(target.tags),
        parameter_openapi_schema=parameter_schema(flow).model_dump_for_openapi(),
        enforce_parameter_schema=False,  # the domain checks inputs; a run of ours brings a run id and a token only
    )
