"""Work pools, their queues and their limits on a Prefect server."""

import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.actions import WorkPoolCreate, WorkPoolUpdate
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterState,
    FlowRunFilterStateType,
    WorkPoolFilter,
    WorkPoolFilterName,
)
from prefect.client.schemas.objects import StateType, WorkPool
from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound

from deployments import pools
from deployments.rollout.report import Change, Difference, differing

UNDER_WAY = [StateType.SCHEDULED, StateType.PENDING, StateType.RUNNING, StateType.CANCELLING, StateType.PAUSED]


class WrongType(RuntimeError):
    """The pool exists with another type, which Prefect cannot change."""


@dataclass(frozen=True)
class WantedPool:
    """A pool as it should be. `limits` go by pool and pool/queue; what they do not name is left as operators set it.

    `said` are parts of the template that this rollout chooses; of all others a pool that is there keeps its own.
    """

    name: str
    type: str
    description: str
    template: Mapping[str, Any]
    limits: Mapping[str, int | None]
    queues: Mapping[str, int]
    said: tuple[str, ...] = ()

    def beside(self, found: WorkPool) -> "WantedPool":
        """Return the wanted pool with all that was chosen before as it is found."""
        return replace(self, template=pools.beside(dict(self.template), found.base_job_template, self.said))

    def fields(self) -> dict[str, Any]:
        named = {"concurrency_limit": self.limits[self.name]} if self.name in self.limits else {}
        return {"description": self.description, "base_job_template": dict(self.template)} | named


async def ensure_pool(client: PrefectClient, wanted: WantedPool, *, replace: bool) -> AsyncIterator[Change]:
    """Create or correct the pool and its queues."""
    found = await find_pool(client, wanted.name)
    detail = ""
    if found is not None and found.type != wanted.type:
        if not replace:
            raise WrongType(
                f"Pool {wanted.name!r} is of type {found.type!r} and Prefect cannot change that to {wanted.type!r}. "
                f"When none of its runs is under way, say `cairn deploy --replace-pools`: it is deleted and made anew."
            )
        await _refuse_while_used(client, wanted)
        await client.delete_work_pool(wanted.name)
        detail, found = f"was of type {found.type}", None
    if found is not None:
        wanted = wanted.beside(found)
    if found is None:
        create = WorkPoolCreate(name=wanted.name, type=wanted.type, **wanted.fields())
        with contextlib.suppress(ObjectAlreadyExists):  # another rollout was faster
            await client.create_work_pool(create)
        yield Change(Difference.CREATED, "pool", wanted.name, detail or wanted.type)
    elif changed := differing(wanted.fields(), found):
        await client.update_work_pool(wanted.name, WorkPoolUpdate(**wanted.fields()))
        yield Change(Difference.CHANGED, "pool", wanted.name, ", ".join(changed))
    else:
        yield Change(Difference.UNCHANGED, "pool", wanted.name)
    for queue, priority in wanted.queues.items():
        yield await _ensure_queue(client, wanted, queue, priority)


async def _refuse_while_used(client: PrefectClient, wanted: WantedPool) -> None:
    """Refuse to replace a pool with waiting runs, which deletion would lose."""
    under_way = await client.read_flow_runs(
        flow_run_filter=FlowRunFilter(state=FlowRunFilterState(type=FlowRunFilterStateType(any_=UNDER_WAY))),
        work_pool_filter=WorkPoolFilter(name=WorkPoolFilterName(any_=[wanted.name])),
        limit=1,
    )
    if under_way:
        raise WrongType(
            f"Pool {wanted.name!r} must become one of type {wanted.type!r}, and runs are under way in it. "
            "Pause dispatch (`cairn pause`), let them end, and deploy again."
        )


async def find_pool(client: PrefectClient, name: str) -> WorkPool | None:
    """The pool as the server has it, or None."""
    with contextlib.suppress(ObjectNotFound):
        return await client.read_work_pool(name)
    return None


async def _ensure_queue(client: PrefectClient, pool: WantedPool, queue: str, priority: int) -> Change:
    """Queues in their order. Prefect moves the ones behind when one is put before them, its own `default` too."""
    name = f"{pool.name}/{queue}"
    fields: dict[str, Any] = {"priority": priority}
    if name in pool.limits:
        fields["concurrency_limit"] = pool.limits[name]
    try:
        found = await client.read_work_queue_by_name(queue, work_pool_name=pool.name)
    except ObjectNotFound:
        with contextlib.suppress(ObjectAlreadyExists):
            await client.create_work_queue(name=queue, work_pool_name=pool.name, **fields)
        return Change(Difference.CREATED, "queue", name)
    if not (changed := differing(fields, found)):
        return Change(Difference.UNCHANGED, "queue", name)
    await client.update_work_queue(found.id, **fields)
    return Change(Difference.CHANGED, "queue", name, ", ".join(changed))
