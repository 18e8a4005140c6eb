"""Part of a workflow: which nodes run when only some are asked for, or all that follow from some."""

from collections.abc import Collection

from flows.compiler.faults import did_you_mean
from flows.compiler.plan import Plan


class UnknownNode(ValueError):
    """A node that was asked for is not in the plan."""


def selected(plan: Plan, only: Collection[str] = (), start_from: Collection[str] = ()) -> frozenset[str] | None:
    """The nodes to run: those named by `only`, and those of `start_from` with all that follows. None means all."""
    for name in (*only, *start_from):
        if name not in plan.nodes:
            raise UnknownNode(f"there is no node {name!r} in {plan.workflow_id}; {did_you_mean(name, plan.nodes)}")
    if not only and not start_from:
        return None
    return frozenset(only) | following(plan, start_from)


def following(plan: Plan, names: Collection[str]) -> frozenset[str]:
    """These nodes and every node that comes after one of them."""
    found = set(names)
    for name, node in plan.nodes.items():  # topological: predecessors were looked at before
        if not found.isdisjoint(node.predecessors):
            found.add(name)
    return frozenset(found)
