"""Part runs: which nodes, and whether what they read of the others is known."""

import json
from dataclasses import dataclass
from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession

from domain.contracts.runs import KnownOutputs, RunCreate
from domain.errors import InvalidSubmission
from domain.models import Run
from domain.repositories.node_states import NodeStates
from domain.repositories.runs import Runs
from domain.rules.lifecycle import RequestState
from domain.services.lookups import found_request
from flows.compiler import OutOfTurn, Plan, Schedule, UnknownNode, selected
from flows.compiler.part_needs import needs

LARGEST_OUTPUTS = 200_000  # bytes of JSON that may be given by hand
COMPLETED = "completed"


@dataclass(frozen=True)
class PartOrder:
    """What of a workflow is to run, on what, and what is known of the rest. `nodes` is None for all of it."""

    nodes: list[str] | None
    inputs: dict[str, Any]
    known: KnownOutputs | None

    def content(self, plan: Plan, inputs: dict[str, Any]) -> dict[str, Any]:
        """The order as its request keeps it."""
        content: dict[str, Any] = {"workflow_id": plan.workflow_id, "inputs": inputs}
        content |= {} if self.nodes is None else {"only": self.nodes}
        return content | ({} if self.known is None else {"known": self.known.model_dump(mode="json")})


async def part_order(session: AsyncSession, plan: Plan, order: RunCreate) -> PartOrder:
    """The part that is ordered. Refused where it reads what nobody knows."""
    nodes = _nodes(plan, order)
    if nodes is None:
        if order.outputs or order.outputs_of:
            raise InvalidSubmission("Outputs are taken over by a part of a workflow alone: say `only` or `from`.")
        return PartOrder(None, order.inputs, None)
    earlier = await _earlier(session, plan, order)
    states = {} if earlier is None else await NodeStates(session).states(earlier.run_id)
    _refuse_missing(plan, nodes, order, states)
    if earlier is None:
        known = KnownOutputs(outputs=order.outputs) if order.outputs else None
        return PartOrder(nodes, order.inputs, known)
    inputs = {name: value for name, value in earlier.inputs.items() if name in plan.inputs and value is not None}
    known = KnownOutputs(run_id=earlier.run_id, memory=earlier.memory, states=states, outputs=order.outputs)
    return PartOrder(nodes, inputs | order.inputs, known)


def _nodes(plan: Plan, order: RunCreate) -> list[str] | None:
    """The nodes that an order asks for, in the plan's order; None where it asks for all of them."""
    try:
        part = selected(plan, order.only, order.start_from)
        Schedule(plan, only=part)  # knows which parts can be run
    except (UnknownNode, OutOfTurn) as fault:
        told = f"{str(fault)[0].upper()}{str(fault)[1:]}"
        raise InvalidSubmission(told if told.endswith("?") else f"{told}.") from fault
    return None if part is None else [name for name in plan.nodes if name in part]


async def _earlier(session: AsyncSession, plan: Plan, order: RunCreate) -> Run | None:
    """The run whose outputs are taken over, if one is named."""
    if order.outputs_of is None:
        return None
    run = await Runs(session).get(order.outputs_of)
    if run is None or run.workflow_id != plan.workflow_id:
        raise InvalidSubmission(f"Run {order.outputs_of} is no run of {plan.workflow_id}: outputs are of one workflow.")
    request = await found_request(session, run.request_id)
    if request.collecting_at is not None and request.status is not RequestState.COMPLETED:
        raise InvalidSubmission(f"What run {run.run_id} returned is removed: it failed too long ago.")
    return run


def _refuse_missing(plan: Plan, nodes: list[str], order: RunCreate, states: dict[str, str]) -> None:
    if unknown := sorted(order.outputs.keys() - (plan.nodes.keys() - set(nodes))):
        raise InvalidSubmission(f"Outputs are given of {unknown[0]!r}, which is no node outside of the part.")
    if len(json.dumps(order.outputs)) > LARGEST_OUTPUTS:
        raise InvalidSubmission(f"The outputs that are given have more than {LARGEST_OUTPUTS:,} bytes of JSON.")
    wanted = needs(plan, nodes)
    missing = [name for name in wanted if name not in order.outputs and states.get(name) != COMPLETED]
    if not missing:
        return
    told = "; ".join(f"{', '.join(wanted[name])} reads what {name} returns{_stands(states, name)}" for name in missing)
    raise InvalidSubmission(
        f"The part cannot run by itself: {told}. Name a run whose outputs it takes over (`outputs_of`), or give them "
        "(`outputs`)."
    )


def _stands(states: dict[str, str], name: str) -> str:
    return f", which is {states[name]} in the earlier run" if name in states else ""
