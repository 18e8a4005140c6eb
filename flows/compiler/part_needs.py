"""What a part of a workflow reads of nodes outside of it: found in its templates, before anything runs. Pure."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from flows.compiler.expressions import Template, parse_condition, parse_template
from flows.compiler.plan import Node, Plan


def needs(plan: Plan, part: Collection[str]) -> dict[str, list[str]]:
    """The nodes outside of the part whose outputs it cannot do without, each with who reads them.

    What has a default can be missing. The run's outputs are made where the part holds an end.
    """
    found: dict[str, list[str]] = {}
    for reader, template in _templates(plan, part):
        for reference in template.references:
            name = str(reference.steps[0]) if reference.root == "nodes" and len(reference.steps) > 1 else ""
            outside = name in plan.nodes and name not in part
            if outside and reference.steps[1] == "output" and not reference.guarded:
                readers = found.setdefault(name, [])
                readers += [reader] if reader not in readers else []
    return found


def _templates(plan: Plan, part: Collection[str]) -> Iterator[tuple[str, Template]]:
    for name, node in plan.nodes.items():
        if name in part:
            yield from ((name, template) for template in _of_node(node))
    if any(plan.nodes[name].type == "end" for name in part):
        yield from (("outputs", template) for template in _within(plan.outputs))


def _of_node(node: Node) -> Iterator[Template]:
    yield from _within(node.params)
    if node.when is not None:
        yield parse_condition(node.when)
    if node.choice is not None:
        yield parse_condition(node.choice.expression)
    if node.fan_out is not None:
        yield from _within(node.fan_out.source)
        yield from _within(node.fan_out.item_key)


def _within(value: Any) -> Iterator[Template]:
    """Every template in the JSON value."""
    if isinstance(value, str):
        yield parse_template(value)
    elif isinstance(value, Mapping):
        for member in value.values():
            yield from _within(member)
    elif isinstance(value, list | tuple):
        for element in value:
            yield from _within(element)
