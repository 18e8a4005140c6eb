"""Creates and corrects deployments on a Prefect server, one for each target, and removes those of gone workflows."""

from collections.abc import AsyncIterator, Collection, Sequence
from typing import Any

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.actions import DeploymentUpdate
from prefect.client.schemas.filters import (
    DeploymentFilter,
    DeploymentFilterId,
    DeploymentFilterTags,
    FlowRunFilter,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import TERMINAL_STATES, StateType
from prefect.client.schemas.responses import DeploymentResponse
from prefect.exceptions import ObjectNotFound
from prefect.utilities.callables import parameter_schema

from deployments.deploy import OURS, FlowDeployment
from deployments.rollout.report import Change, Difference, differing
from flows import catalog

PAGE = 200
UNDER_WAY = [state for state in StateType if state not in TERMINAL_STATES]


async def ensure_deployment(client: PrefectClient, target: FlowDeployment) -> Change:
    """Create or correct one deployment."""
    name = f"{target.flow}/{target.name}"
    flow = catalog.flow(target.flow)
    fields: dict[str, Any] = {
        "version": target.version,
        "entrypoint": target.entrypoint,
        "description": target.description,
        "tags": list(target.tags),
        "work_pool_name": target.pool,
        "work_queue_name": target.queue,
        "pull_steps": [],  # the image holds the code
        "parameter_openapi_schema": parameter_schema(flow).model_dump(exclude_unset=True),
        "enforce_parameter_schema": False,  # the domain checks inputs; a run of ours brings a run id and a token only
    }
    try:
        found = await client.read_deployment_by_name(name)
    except ObjectNotFound:
        found = None
    changed = differing(fields, found) if found else []
    if found and not changed:
        return Change(Difference.UNCHANGED, "deployment", name)
    if found is None:
        await client.create_deployment(flow_id=await client.create_flow(flow), name=target.name, **fields)
        return Change(Difference.CREATED, "deployment", name, f"on {target.pool}")
    # Creating it again would take away the schedules, limits and job variables that operators gave it.
    await client.update_deployment(found.id, DeploymentUpdate(**fields))
    return Change(Difference.CHANGED, "deployment", name, ", ".join(changed))


async def leftovers(
    client: PrefectClient, targets: Sequence[FlowDeployment], *, prune: bool, spared: Collection[str] = ()
) -> AsyncIterator[Change]:
    """Return our deployments that no target needs; with `prune` delete them, unless their runs are under way.

    The file of a spared workflow is there, with faults: what was rolled out of it before still serves.
    """
    wanted = {(target.flow, target.name) for target in targets} | {(name, name) for name in spared}
    flows: dict[Any, str] = {}
    for found in await _ours(client):
        if found.flow_id not in flows:
            flows[found.flow_id] = (await client.read_flow(found.flow_id)).name
        if (flows[found.flow_id], found.name) in wanted:
            continue
        name = f"{flows[found.flow_id]}/{found.name}"
        if not prune:
            yield Change(Difference.LEFT_OVER, "deployment", name, "no workflow asks for it; `--prune` removes it")
        elif under_way := await _runs_under_way(client, found):
            yield Change(Difference.LEFT_OVER, "deployment", name, f"{under_way} of its runs are under way")
        else:
            await client.delete_deployment(found.id)
            yield Change(Difference.REMOVED, "deployment", name)


async def _ours(client: PrefectClient) -> Collection[DeploymentResponse]:
    """Every deployment that carries our tag and comes from our catalogue."""
    tagged = DeploymentFilter(tags=DeploymentFilterTags(all_=[OURS]))
    found: list[DeploymentResponse] = []
    while True:
        page = await client.read_deployments(deployment_filter=tagged, limit=PAGE, offset=len(found))
        found += page
        if len(page) < PAGE:
            return [one for one in found if (one.entrypoint or "").startswith("flows.catalog.")]


async def _runs_under_way(client: PrefectClient, deployment: DeploymentResponse) -> int:
    return await client.count_flow_runs(
        deployment_filter=DeploymentFilter(id=DeploymentFilterId(any_=[deployment.id])),
        flow_run_filter=FlowRunFilter(state=FlowRunFilterState(type=FlowRunFilterStateType(any_=UNDER_WAY))),
    )
