"""A Prefect that says of flow runs what a test has it say, and sweeps that ask it."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from domain.loops.reconciler import Reconciler
from domain.repositories import outbox
from domain.rules.reconcile import Action, FlowState, Patience
from tests.support.acts import Flow, submit
from tests.support.platform import Domain


@dataclass
class ScriptedPrefect:
    """What Prefect would say, by flow run; and what it was told to stop."""

    flows: dict[UUID, FlowState] = field(default_factory=dict)
    by_key: dict[str, UUID] = field(default_factory=dict)
    stopped: list[UUID] = field(default_factory=list)
    inside: set[UUID] = field(default_factory=set)  # those with a flow run inside that nobody has ended
    silent: bool = False
    children: dict[UUID, str] = field(default_factory=dict)  # child runs under way, with their attempts' tokens

    async def children_under_way(self) -> dict[UUID, str]:
        return dict(self.children)

    async def end_child(self, flow_run_id: UUID) -> None:
        del self.children[flow_run_id]

    async def states(self, flow_run_ids: Iterable[UUID]) -> dict[UUID, FlowState]:
        return {one: self.flows.get(one, FlowState.MISSING) for one in flow_run_ids}

    async def find(self, key: str) -> tuple[UUID | None, FlowState]:
        found = self.by_key.get(key)
        return (found, self.flows[found]) if found else (None, FlowState.MISSING)

    async def stop(self, flow_run_id: UUID, flow: FlowState) -> None:
        self.stopped.append(flow_run_id)

    async def end_inside(self, flow_run_ids: Iterable[UUID]) -> bool:
        self.inside -= set() if self.silent else set(flow_run_ids)
        return not self.silent


async def sweep(domain: Domain, prefect: ScriptedPrefect) -> dict[Action, int]:
    return await Reconciler(domain.service.database, prefect, 60, Patience(), max_attempts=3, pause_seconds=0).sweep()


async def sent(domain: Domain, prefect: ScriptedPrefect, state: str, **changes: Any) -> Flow:
    """An attempt that was sent, whose flow run Prefect has in this state."""
    await submit(domain, **changes)
    [claimed] = await outbox.claim(domain.service.database, 10)
    flow = Flow(domain, claimed.run_id, claimed.token)
    await outbox.link(domain.service.database, claimed.run_id, claimed.number, flow.flow_run_id)
    prefect.flows[flow.flow_run_id] = FlowState(state)
    return flow


def attempts(domain: Domain) -> list[tuple[object, ...]]:
    return domain.rows("select number, state from app.attempts order by number")
