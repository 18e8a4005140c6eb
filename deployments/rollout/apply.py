"""Rolls everything out, each thing after what it needs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from prefect.client.orchestration import get_client

from deployments import pools
from deployments.automations import remove_retired
from deployments.deploy import targets
from deployments.rollout.blocks import AzurePlace, ensure_azure, ensure_local
from deployments.rollout.pools import WantedPool, ensure_pool
from deployments.rollout.report import Change
from deployments.rollout.workflows import ensure_deployment, leftovers
from flows.compiler import Plan
from flows.pools import POOLS


@dataclass(frozen=True)
class Options:
    """What an operator may choose. `limits` by pool or pool/queue, `types` and `images` by pool.

    Where nobody says whether runs are forked (`warm`), or from which image they start, a pool stays as it is.
    """

    storage_root: str | None = None
    storage_account: AzurePlace | None = None
    types: Mapping[str, str] = field(default_factory=dict)
    images: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, int | None] = field(default_factory=dict)
    warm: bool | None = None
    prune: bool = False
    replace_pools: bool = False


async def apply(plans: Sequence[Plan], options: Options) -> list[Change]:
    """Bring Prefect's blocks, pools, queues, limits and deployments up to date."""
    wanted = list(targets(plans))
    async with get_client(sync_client=False) as client:
        changes = [
            change
            for pool in POOLS
            async for change in ensure_pool(client, _pool(pool, options), replace=options.replace_pools)
        ]
        if options.storage_root:
            changes.append(await ensure_local(options.storage_root))
        if options.storage_account:
            changes += [change async for change in ensure_azure(options.storage_account)]
        changes += [await ensure_deployment(client, target) for target in wanted]
        changes += [change async for change in leftovers(client, wanted, prune=options.prune)]
        changes += [change async for change in remove_retired(client)]
    return changes


def _pool(name: str, options: Options) -> WantedPool:
    kind = options.types.get(name, POOLS[name].worker_type)
    template = pools.template(kind, name, image=options.images.get(name), warm=bool(options.warm))
    unsaid = [("command", options.warm is None), ("image", name not in options.images)]
    kept = tuple(variable for variable, is_unsaid in unsaid if is_unsaid)
    return WantedPool(name, kind, POOLS[name].description, template, options.limits, POOLS[name].queues, kept)
