"""What child runs of a node are to be given: a pool, what their tries need of a host, and a place in its queues."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from prefect.client.orchestration import PrefectClient

from domain.contracts.runs import NodeEvent
from flows.compiler import Plan
from flows.compiler.needs import most
from flows.compiler.partition import child_queue, most_urgent
from flows.compiler.plan import NO_RESOURCES, Resources
from flows.pools import POOLS
from flows.runs.child_flow_runs.job_variables import job_variables


@dataclass(frozen=True)
class ChildWants:
    """What is asked for child runs of some nodes."""

    pool: str
    needs: Resources = NO_RESOURCES
    priority: str | None = None

    @classmethod
    def of(cls, plan: Plan, nodes: Sequence[str], needs: Resources) -> "ChildWants":
        """What these nodes of one pool want, of which the first was just decided: the most that one of them does."""
        planned = [plan.nodes[name] for name in nodes]
        priority = most_urgent(one.priority for one in planned)
        return cls(planned[0].pool or POOLS.home, most([needs, *(one.resources for one in planned)]), priority)

    def waited_for_by(self, node_id: str) -> NodeEvent:
        """What the domain is told of a node that waits for its child runs."""
        needs = {name: value for name, value in vars(self.needs).items() if value}
        return NodeEvent(node_id=node_id, state="dispatched", pool=self.pool, needs=needs or None)

    def queue(self, own: str | None, cap: str | None) -> str | None:
        """The queue of its pool, for a run that came by this one."""
        return child_queue(self.priority, own, cap)

    async def job_variables(self, prefect: PrefectClient) -> dict[str, Any] | None:
        """What workers of the pool's kind are told of the needs; None where there are none."""
        if self.needs == NO_RESOURCES:
            return None
        pool = await prefect.read_work_pool(self.pool)
        return job_variables(pool.type, pool.base_job_template, self.needs)
