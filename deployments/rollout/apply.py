"""Rolls everything out, each thing after what it needs."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from prefect.client.orchestration import PrefectClient, get_client

from deployments import pools
from deployments.automations import remove_retired
from deployments.deploy import targets
from deployments.rollout.blocks import AzurePlace, ensure_azure, ensure_local
from deployments.rollout.pools import WantedPool, ensure_pool, find_pool
from deployments.rollout.report import Change
from deployments.rollout.workflows import ensure_deployment, leftovers
from flows.compiler import Plan
from flows.pools import POOLS


@dataclass(frozen=True)
class Options:
    """What an operator may choose. `limits` by pool or pool/queue, `types` and `images` by pool.

    What nobody chooses stays as it is: types, images, whether runs are forked (`warm`), the container prefix.
    Deployments of `spared` workflows are left alone: their files are there, and cannot be rolled out now.
    """

    storage_root: str | None = None
    storage_account: AzurePlace | None = None
    types: Mapping[str, str] = field(default_factory=dict)
    images: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, int | None] = field(default_factory=dict)
    warm: bool | None = None
    prune: bool = False
    replace_pools: bool = False
    spared: Collection[str] = ()


async def apply(plans: Sequence[Plan], options: Options) -> list[Change]:
    """Bring Prefect's blocks, pools, queues, limits and deployments up to date."""
    wanted = list(targets(plans))
    async with get_client(sync_client=False) as client:
        changes = [
            change
            for pool in POOLS
            async for change in ensure_pool(client, await _pool(client, pool, options), replace=options.replace_pools)
        ]
        if options.storage_root:
            changes.append(await ensure_local(options.storage_root))
        if options.storage_account:
            changes += [change async for change in ensure_azure(options.storage_account)]
        changes += [await ensure_deployment(client, target) for target in wanted]
        changes += [change async for change in leftovers(client, wanted, prune=options.prune, spared=options.spared)]
        changes += [change async for change in remove_retired(client)]
    return changes


async def _pool(client: PrefectClient, name: str, options: Options) -> WantedPool:
    kind = options.types.get(name) or await _type_now(client, name, options) or POOLS[name].worker_type
    template = pools.template(kind, name, image=options.images.get(name), forks=options.warm is not False)
    said = (pools.IMAGE_PARTS if name in options.images else ()) + (
        pools.FORKING_PARTS if options.warm is not None else ()
    )
    return WantedPool(name, kind, POOLS[name].description, template, options.limits, POOLS[name].queues, said)


async def _type_now(client: PrefectClient, name: str, options: Options) -> str | None:
    """The type that the pool was given by an earlier rollout, unless pools are to be made anew."""
    found = None if options.replace_pools else await find_pool(client, name)
    return found.type if found and found.type in pools.KINDS else None
