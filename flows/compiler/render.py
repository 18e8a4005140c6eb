"""A plan as a picture's source: Mermaid or Graphviz text. Conditions are labelled, a fan-out is one stack."""

from collections.abc import Iterator
from dataclasses import dataclass

from flows.compiler.plan import Node, Plan


@dataclass(frozen=True)
class DrawnEdge:
    """One edge of the picture."""

    source: str
    target: str
    label: str = ""
    any_of: bool = False


def caption(node: Node) -> str:
    """What a node does, in a word."""
    if node.fan_out:
        return f"each: {node.handler or node.workflow}"
    if node.fan_in:
        return node.fan_in.aggregation
    if node.choice:
        return node.choice.expression
    return node.handler or node.workflow or node.type


def links(plan: Plan) -> Iterator[DrawnEdge]:
    """Every edge; those of a conditional say when they are taken."""
    for node in plan.nodes.values():
        for name in node.predecessors:
            label = " | ".join(arm_labels(plan.nodes[name], node.id))
            yield DrawnEdge(name, node.id, label, name in node.any_of)


def arm_labels(node: Node, target: str) -> list[str]:
    """When a conditional goes to this node; of other nodes nothing."""
    arms = node.choice.arms if node.choice else ()
    return [arm.test or "otherwise" for arm in arms if target in arm.targets]


def mermaid(plan: Plan) -> str:
    """The plan as a Mermaid flowchart."""
    lines = ["flowchart TD"]
    lines += [f"    {_mermaid_node(node)}" for node in plan.nodes.values()]
    for link in links(plan):
        arrow = "-.->" if link.any_of else "-->"
        label = f'|"{_mermaid_text(link.label)}"|' if link.label else ""
        lines.append(f"    n_{link.source} {arrow}{label} n_{link.target}")
    return "\n".join(lines) + "\n"


def _mermaid_node(node: Node) -> str:
    # Ids get a prefix: `end` is a word of Mermaid's own.
    opening, closing = {
        "start": ("([", "])"),
        "end": ("([", "])"),
        "conditional": ("{", "}"),
        "fan_out": ("[[", "]]"),
        "fan_in": ("[/", "\\]"),
        "workflow": ("[(", ")]"),
        "task": ("[", "]"),
    }[node.type]
    text = _mermaid_text(node.id) if node.type in ("start", "end") else f"{node.id}<br/>{_mermaid_text(caption(node))}"
    return f'n_{node.id}{opening}"{text}"{closing}'


def _mermaid_text(text: str) -> str:
    """Text inside quotes: what Mermaid or HTML would read as their own is written as an entity."""
    return "".join(f"#{ord(character)};" if character in '"#<>&{}|`\n\\' else character for character in text)


def dot(plan: Plan) -> str:
    """The plan as a Graphviz digraph."""
    lines = [f"digraph {_quoted(plan.workflow_id)} {{", '    node [shape=box, fontname="sans-serif"];']
    lines += [f"    {_dot_node(node)}" for node in plan.nodes.values()]
    for link in links(plan):
        style = ", style=dashed" if link.any_of else ""
        lines.append(f"    {_quoted(link.source)} -> {_quoted(link.target)} [label={_quoted(link.label)}{style}];")
    return "\n".join([*lines, "}"]) + "\n"


def _dot_node(node: Node) -> str:
    shape = {"start": "oval", "end": "oval", "conditional": "diamond", "fan_in": "invtrapezium", "workflow": "cylinder"}
    stack = ", peripheries=3" if node.fan_out else ""
    label = f"{node.id}\n{caption(node)}"
    return f"{_quoted(node.id)} [label={_quoted(label)}, shape={shape.get(node.type, 'box')}{stack}];"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
