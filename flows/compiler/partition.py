"""A plan cut by pool: which nodes a flow run executes itself, and which stretches become child runs. Pure."""

from collections.abc import Collection, Iterable, Iterator

from flows.compiler import Node, Plan
from flows.compiler.plan import NO_RESOURCES
from flows.pools import POOLS

RANKS = POOLS[POOLS.home].queues  # of priorities, the most urgent first: every pool has the same


def priority_of(asked: str, kind: str = "offline") -> str:
    """A run's priority, which is also the name of its queue. Realtime workflows ride high whatever was asked."""
    return "high" if kind == "realtime" else asked


def most_urgent(asked: Iterable[str | None]) -> str | None:
    """Return the highest of these priorities; None where none is asked for."""
    return min((one for one in asked if one), key=RANKS.__getitem__, default=None)


def child_queue(asked: str | None, own: str | None, cap: str | None) -> str | None:
    """The queue of a child run: what its node asks for, but none above its run's own and its platform's cap."""
    if asked is None or own is None or own not in RANKS:
        return own
    highest = min(own, cap or "high", key=RANKS.__getitem__)
    return max(asked, highest, key=RANKS.__getitem__)


def home_pool(plan: Plan) -> str:
    """Where the workflow's own flow run lives: on the one pool that all its handlers run on, else at home.

    What waits for others lives at home: it must not hold a place of the pool that its shards or sub-workflows need. So
    does what says of nodes what they need: that is given to child runs, and a run of its own is sent without it.
    """
    nodes = plan.nodes.values()
    asks = any(node.priority or node.resources != NO_RESOURCES for node in nodes)
    waits = asks or any(node.workflow or (node.fan_out and (node.fan_out.shards or 1) > 1) for node in nodes)
    pool, *others = {node.pool for node in nodes if node.pool} or {POOLS.home}
    return POOLS.home if others or waits or pool not in POOLS else pool


def work_pool(plans: Iterable[Plan]) -> str:
    """Whose places a run needs that comes to these plans: of the pools that its nodes run on, the scarcest."""
    return POOLS.scarcest({node.pool for plan in plans for node in plan.nodes.values() if node.pool})


def split(count: int, parts: int) -> Iterator[range]:
    """Cut the numbers up to the count into runs of nearly equal length, none of them empty."""
    parts = min(count, parts)
    for part in range(parts):
        yield range(part * count // parts, (part + 1) * count // parts)


def grouped(count: int, cap: int) -> list[range]:
    """The groups of a fan-out's items that share task runs: each item alone up to the cap, then as many as the cap.

    So there is no size at which a fan-out suddenly has fewer task runs, and an item more makes one group larger by one.
    """
    return list(split(count, cap))


def stretch(plan: Plan, first: str, settled: Collection[str]) -> list[str]:
    """Return the nodes that one child run executes when `first` becomes ready, in topological order.

    It takes along every follower of the same pool whose other predecessors have ended or come along too: each one
    saves a hop. A fan-in comes with its fan-out, whose children only the child run knows; a fan-out that may become
    several child runs stays behind, because they are its run's to start. What is settled is not run again.
    """
    pool = plan.nodes[first].pool
    taken = {first}
    for node in plan.nodes.values():  # topological: predecessors come first
        if node.id not in taken and node.id not in settled and _comes_along(node, pool, taken, settled):
            taken.add(node.id)
    return [name for name in plan.nodes if name in taken]


def _comes_along(node: Node, pool: str | None, taken: set[str], settled: Collection[str]) -> bool:
    if not any(name in taken for name in node.predecessors):
        return False
    if node.fan_in:
        return node.fan_in.source in taken
    runs_here = (node.type == "task" or _is_undivided(node)) and node.pool == pool
    return runs_here and all(name in taken or name in settled for name in node.predecessors)


def _is_undivided(node: Node) -> bool:
    return node.fan_out is not None and node.fan_out.shards == 1
