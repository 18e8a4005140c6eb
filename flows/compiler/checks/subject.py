"""Gives laws what they look at: a workflow, its graph, and the handlers and workflows around it."""

import types
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from flows.compiler.faults import Path
from flows.compiler.graph import Graph
from flows.compiler.interfaces import Interface
from flows.compiler.model import Model, NodeModel, Use
from flows.compiler.references import Reference
from flows.compiler.result_types import Hint, NoSuchField, element_of, follow
from flows.handlers.registry import AnyHandler

_FAN_IN_RESULTS: Mapping[str, tuple[str, ...]] = {
    "collect": ("results", "count"),
    "concat": ("results", "count"),
    "sum": ("total", "count"),
    "first": ("result", "count"),
    "last": ("result", "count"),
}


@dataclass
class Subject:
    """One workflow under examination."""

    model: Model
    handlers: Mapping[str, AnyHandler]
    siblings: Mapping[str, Interface]

    @cached_property
    def graph(self) -> Graph:
        return Graph(self.model.nodes, self.model.known_edges)

    @cached_property
    def fan_out_of(self) -> dict[str, NodeModel]:
        """Each fan_in's fan_out, where it has one."""
        pairs = {}
        for edge in self.model.known_edges:
            source, target = self.model.nodes[edge.source], self.model.nodes[edge.target]
            if source.type == "fan_out" and target.type == "fan_in":
                pairs[target.id] = source
        return pairs

    @cached_property
    def _uses_by_path(self) -> dict[Path, list[Use]]:
        found: dict[Path, list[Use]] = {}
        for use in self.model.uses:
            found.setdefault(use.path, []).append(use)
        return found

    def uses_at(self, path: Path) -> list[Use]:
        """The templates that stand at this path."""
        return self._uses_by_path.get(path, [])

    def handler(self, node: NodeModel) -> AnyHandler | None:
        """The declared handler of a node or of its children."""
        name = node.task.get("handler")
        return self.handlers[name] if isinstance(name, str) and name in self.handlers else None

    def sub_workflow(self, node: NodeModel) -> Interface | None:
        name = node.task.get("workflow")
        return self.siblings.get(name) if isinstance(name, str) else None

    def output_read(self, reference: Reference) -> tuple[str, tuple[str | int, ...]] | None:
        """The node whose output the reference reads and the steps into it, None where it reads something else."""
        words, steps = self.model.vocabulary, reference.steps
        if reference.root == words.root and steps[1:2] == words.facts[:1] and steps[0] in self.model.nodes:
            return str(steps[0]), steps[2:]
        return None

    def output_type(self, name: str) -> Hint:
        """The declared type of a node's output, Any where it is not known."""
        return self._output_types[name]

    @cached_property
    def _output_types(self) -> dict[str, Hint]:
        return {name: self._output_type(node) for name, node in self.model.nodes.items()}

    def _output_type(self, node: NodeModel) -> Hint:
        match node.type:
            case "start" | "end":
                return {}
            case "conditional":
                return {"chosen": list[str]}
            case "fan_out":
                return {"fan_out_count": int, "child_node_ids": list[str]}
            case "fan_in":
                return self._fan_in_type(node)
            case _:
                return self._work_type(node)

    def _work_type(self, node: NodeModel) -> Hint:
        """What the handler or sub-workflow of a node, or of each child of a fan_out, returns."""
        handler, workflow = self.handler(node), self.sub_workflow(node)
        if handler:
            return handler.result
        return dict.fromkeys(workflow.outputs, Any) if workflow else Any

    def _fan_in_type(self, node: NodeModel) -> Hint:
        fan_out = self.fan_out_of.get(node.id)
        child = self._work_type(fan_out) if fan_out else Any
        aggregation = node.fields.get("aggregation", "collect")
        record: dict[str, Hint] = dict.fromkeys((*_FAN_IN_RESULTS[aggregation], "succeeded", "failed"), Any)
        if aggregation == "collect" and not isinstance(child, dict):
            record["results"] = types.GenericAlias(list, (child,))
        if aggregation in ("first", "last"):
            record["result"] = child
        return record | {"count": int, "succeeded": int, "failed": list[dict[str, Any]]}

    def item_type(self, use: Use) -> Hint:
        """The type of `item`, or of the elements of `items`, where the fan_out's source is a plain path."""
        fan_out = self.model.nodes[use.node or ""]
        for source in self.uses_at((*fan_out.path, "source")):
            return self._source_element(source)
        return Any

    def _source_element(self, source: Use) -> Hint:
        references = source.template.references
        if len(references) != 1:
            return Any
        plain = source.template.source.strip() in (f"{{{{ {references[0]} }}}}", f"{{{{{references[0]}}}}}")
        read = self.output_read(references[0])
        try:
            return element_of(follow(self.output_type(read[0]), read[1])) if plain and read else Any
        except NoSuchField:
            return Any
