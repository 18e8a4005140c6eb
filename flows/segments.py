"""A plan cut by pool: which nodes a flow run executes itself, and which stretches become child runs. Pure."""

from collections.abc import Collection

from flows.compiler import Node, Plan

LIGHT, GDAL = "light", "gdal"


def home_pool(plan: Plan) -> str:
    """Where the workflow's own flow run lives: on `gdal` only if nothing of it runs elsewhere."""
    pools = {node.pool for node in plan.nodes.values() if node.pool}
    return GDAL if pools == {GDAL} else LIGHT


def stretch(plan: Plan, first: str, settled: Collection[str]) -> list[str]:
    """The nodes that one child run executes when `first` becomes ready, in topological order.

    It takes along every follower of the same pool whose other predecessors have ended or come along too: each one
    saves a hop. A fan-in comes with its fan-out, whose children only the child run knows.
    """
    pool = plan.nodes[first].pool
    taken = {first}
    for node in plan.nodes.values():  # topological: predecessors come first
        if node.id not in taken and _comes_along(node, pool, taken, settled):
            taken.add(node.id)
    return [name for name in plan.nodes if name in taken]


def _comes_along(node: Node, pool: str | None, taken: set[str], settled: Collection[str]) -> bool:
    if not any(name in taken for name in node.predecessors):
        return False
    if node.fan_in:
        return node.fan_in.source in taken
    runs_here = node.type in {"task", "fan_out"} and node.pool == pool
    return runs_here and all(name in taken or name in settled for name in node.predecessors)
