"""The nodes as a graph: order, cycles, ancestors. Works on names and edges only, and never by recursion."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush

from flows.compiler.model import Edge

_LISTED = 12


@dataclass(frozen=True)
class BackEdge:
    """An edge that closes a cycle, and the nodes of the cycle it closes: of a long one its two ends."""

    edge: Edge
    cycle: tuple[str, ...]


def _shortened(path: list[str], start: int) -> tuple[str, ...]:
    """The path from a place on, as a message may list it."""
    if len(path) - start <= _LISTED:
        return tuple(path[start:])
    return (*path[start : start + _LISTED - 2], "…", path[-1])


class Graph:
    """Nodes in file order and the edges between them, as written."""

    def __init__(self, nodes: Iterable[str], edges: Iterable[Edge]) -> None:
        self.nodes = list(nodes)
        self.out: dict[str, list[Edge]] = {name: [] for name in self.nodes}
        for edge in edges:
            self.out[edge.source].append(edge)

    @cached_property
    def into(self) -> dict[str, list[Edge]]:
        """The edges that lead to each node."""
        found: dict[str, list[Edge]] = {name: [] for name in self.nodes}
        for name in self.nodes:
            for edge in self.out[name]:
                found[edge.target].append(edge)
        return found

    @cached_property
    def back_edges(self) -> list[BackEdge]:
        """The edges that close cycles, found depth first in file order."""
        found: list[BackEdge] = []
        entered: set[str] = set()
        for root in self.nodes:
            if root not in entered:
                found += self._walk_from(root, entered)
        return found

    def _walk_from(self, root: str, entered: set[str]) -> Iterator[BackEdge]:
        """Walk from one node. `depth` knows the nodes on the way from the root to here, and only them."""
        path, depth, stack = [root], {root: 0}, [iter(self.out[root])]
        entered.add(root)
        while stack:
            edge = next(stack[-1], None)
            if edge is None:
                stack.pop()
                del depth[path.pop()]
            elif edge.target in depth:
                yield BackEdge(edge, _shortened(path, depth[edge.target]))
            elif edge.target not in entered:
                entered.add(edge.target)
                depth[edge.target] = len(path)
                path.append(edge.target)
                stack.append(iter(self.out[edge.target]))

    @cached_property
    def forward_edges(self) -> list[Edge]:
        """The edges without those that close cycles: a graph that has an order."""
        backward = {id(back.edge) for back in self.back_edges}
        return [edge for name in self.nodes for edge in self.out[name] if id(edge) not in backward]

    @cached_property
    def before(self) -> dict[str, list[str]]:
        """The predecessors of each node along forward edges."""
        found: dict[str, list[str]] = {name: [] for name in self.nodes}
        for edge in self.forward_edges:
            found[edge.target].append(edge.source)
        return found

    @cached_property
    def order(self) -> list[str]:
        """Topological order along forward edges; ties as in the file."""
        return topological_order(self.nodes, self.before)

    @cached_property
    def _ancestors(self) -> dict[str, int]:
        """For each node the set of its ancestors, as bits numbered by file order."""
        bit = {name: 1 << number for number, name in enumerate(self.nodes)}
        ancestors: dict[str, int] = {}
        for name in self.order:
            found = 0
            for predecessor in self.before[name]:
                found |= ancestors[predecessor] | bit[predecessor]
            ancestors[name] = found
        return ancestors

    @cached_property
    def _number(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.nodes)}

    def is_ancestor(self, name: str, of: str) -> bool:
        return bool(self._ancestors[of] >> self._number[name] & 1)

    def reached_from(self, starts: Iterable[str], *, backwards: bool = False) -> set[str]:
        """Everything that can be reached from these nodes, themselves included."""
        ways: dict[str, list[str]] = defaultdict(list)
        for edges in self.out.values():
            for edge in edges:
                source, target = (edge.target, edge.source) if backwards else (edge.source, edge.target)
                ways[source].append(target)
        reached = set(starts)
        waiting = list(reached)
        while waiting:
            for name in ways[waiting.pop()]:
                if name not in reached:
                    reached.add(name)
                    waiting.append(name)
        return reached


def topological_order(nodes: list[str], before: dict[str, list[str]]) -> list[str]:
    """The nodes so that each comes after its predecessors; among those that may come next, the first in the file.

    A heap of file positions keeps ties in file order.
    """
    number = {name: position for position, name in enumerate(nodes)}
    after: dict[str, list[str]] = {name: [] for name in nodes}
    missing = {name: len(before[name]) for name in nodes}
    for name in nodes:
        for predecessor in before[name]:
            after[predecessor].append(name)
    ready = [number[name] for name in nodes if not missing[name]]
    order = []
    while ready:
        name = nodes[heappop(ready)]
        order.append(name)
        for successor in after[name]:
            missing[successor] -= 1
            if not missing[successor]:
                heappush(ready, number[successor])
    return order
