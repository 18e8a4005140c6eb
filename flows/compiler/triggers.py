"""Which predecessors make a node run, and by which rule: what the edges of a file mean for each node."""

from dataclasses import dataclass
from functools import reduce

from flows.compiler.diagrams import FALSE, TRUE, Diagram, Diagrams
from flows.compiler.graph import Graph
from flows.compiler.model import Edge, Model, NodeModel


@dataclass(frozen=True)
class Rule:
    """The predecessors of one node. A name is in one of the two only: any_of takes an edge from all_of."""

    all_of: tuple[str, ...]
    any_of: tuple[str, ...]


def rules(model: Model) -> dict[str, Rule]:
    """The rule of every node."""
    into: dict[str, list[Edge]] = {name: [] for name in model.nodes}
    for edge in model.known_edges:
        into[edge.target].append(edge)
    return {name: _rule(edges) for name, edges in into.items()}


def _rule(edges: list[Edge]) -> Rule:
    any_of = dict.fromkeys(edge.source for edge in edges if edge.kind == "any_of")
    all_of = dict.fromkeys(edge.source for edge in edges if edge.source not in any_of)
    return Rule(tuple(all_of), tuple(any_of))


class RunConditions:
    """For every node, the decisions under which it is triggered, and those under which it runs."""

    def __init__(self, model: Model, graph: Graph) -> None:
        self.diagrams = Diagrams()
        self.triggered: dict[str, Diagram] = {}
        self.running: dict[str, Diagram] = {}
        self._chosen: dict[tuple[str, str], Diagram] = {}
        known = rules(model)
        for name in graph.order:
            self.triggered[name] = self._trigger(name, known[name])
            self.running[name] = self._run(model.nodes[name])
            self._choose(model, graph, name)

    def any_running(self, names: list[str]) -> Diagram:
        return reduce(self.diagrams.either, (self.running[name] for name in names), FALSE)

    def may_lack(self, read: str, where: Diagram) -> bool:
        """Whether a node can be skipped under decisions of the given kind."""
        return self.diagrams.without(where, self.running[read]) != FALSE

    def _trigger(self, name: str, rule: Rule) -> Diagram:
        groups = [group for group in (rule.all_of, rule.any_of) if group]
        return reduce(self.diagrams.both, (self._any_active(group, name) for group in groups), TRUE)

    def _any_active(self, group: tuple[str, ...], name: str) -> Diagram:
        active = (self.diagrams.both(self.running[source], self._chosen.get((source, name), TRUE)) for source in group)
        return reduce(self.diagrams.either, active, FALSE)

    def _run(self, node: NodeModel) -> Diagram:
        trigger = self.triggered[node.id]
        return self.diagrams.both(trigger, self.diagrams.variable()) if "when" in node.raw else trigger

    def _choose(self, model: Model, graph: Graph, name: str) -> None:
        """Make a decision for each way out but the last: a way is taken where it holds and no earlier one does."""
        arms: dict[tuple[str | int, ...], list[str]] = {}
        for edge in graph.out[name]:
            if edge.kind == "arm":
                arms.setdefault(_arm_of(edge), []).append(edge.target)
        open_until_now = TRUE
        for number, targets in enumerate(arms.values(), start=1):
            last = number == len(arms)
            holds = TRUE if last else self.diagrams.variable()
            chosen = self.diagrams.both(open_until_now, holds)
            open_until_now = self.diagrams.without(open_until_now, holds)
            for target in targets:
                before = self._chosen.get((name, target), FALSE)
                self._chosen[name, target] = self.diagrams.either(before, chosen)


def _arm_of(edge: Edge) -> tuple[str | int, ...]:
    """What tells the ways out of one conditional apart: on_true, on_false, or the number of the branch."""
    return edge.path[2:4] if edge.path[2] == "branches" else edge.path[2:3]
