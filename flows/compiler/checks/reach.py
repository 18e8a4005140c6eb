"""Laws of reach: every node can run, and leads somewhere."""

from collections.abc import Iterator

from flows.compiler.checks.subject import Subject
from flows.compiler.faults import Fault
from flows.compiler.model import NodeModel


def everything_is_reached(subject: Subject) -> Iterator[Fault]:
    """Every node can be reached from the start."""
    if not graph_is_whole(subject):
        return
    starts = [node.id for node in subject.model.of_type("start")]
    reached = subject.graph.reached_from(starts)
    for node in subject.model.nodes.values():
        if node.id not in reached:
            message = f"nothing leads from the start to {node.id!r}"
            hint = f"name it in the next of another node, or give it depends_on: [{starts[0]}]"
            yield subject.model.document.at_key(node.path, "unreachable-node", message, hint)


def everything_reaches_an_end(subject: Subject) -> Iterator[Fault]:
    """Every node can reach an end."""
    if not graph_is_whole(subject):
        return
    ends = [node.id for node in subject.model.of_type("end")]
    reaching = subject.graph.reached_from(ends, backwards=True)
    for node in subject.model.nodes.values():
        if node.id not in reaching:
            message = f"{node.id!r} leads to no end"
            yield subject.model.document.at_key(node.path, "dead-end", message, f"give it next: {ends[0]}")


def graph_is_whole(subject: Subject) -> bool:
    """Whether the laws of reach apply: there is a start, an end, and no misread or dangling edge."""
    model = subject.model
    has_terminals = model.of_type("start") and model.of_type("end")
    return (
        bool(has_terminals)
        and len(model.known_edges) == len(model.edges)
        and not any(map(_misread, model.nodes.values()))
    )


def _misread(node: NodeModel) -> bool:
    """Whether the node draws an edge that could not be read."""
    if not isinstance(node.raw, dict):
        return True
    targets = [node.raw[key] for key in ("next", "on_true", "on_false") if key in node.raw]
    depends = node.raw.get("depends_on", [])
    targets += depends.values() if isinstance(depends, dict) else [depends]
    branches = node.raw.get("branches", [])
    if not isinstance(branches, list) or not all(isinstance(branch, dict) for branch in branches):
        return True
    targets += [branch.get("next", []) for branch in branches]
    return not all(map(_is_target, targets))


def _is_target(value: object) -> bool:
    names = value if isinstance(value, list) else [value]
    return all(isinstance(name, str) for name in names)
