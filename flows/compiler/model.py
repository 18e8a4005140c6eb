"""The model: a document read as a workflow, with everything the laws ask about. Knows places, judges nothing.

Built leniently: whatever is well shaped is here, whatever is not has been reported already and is absent.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from flows.compiler.expressions import Template, is_template, parse_condition, parse_template
from flows.compiler.faults import Fault, Path
from flows.compiler.inputs import Input
from flows.compiler.language import FAN_OUT_OF_WORKFLOWS, NODE_FIELDS, WORKFLOW_FIELDS
from flows.compiler.shape import OMITTED, ShapeCheck
from flows.compiler.source import Document

EdgeKind = Literal["next", "arm", "all_of", "any_of"]
Scope = Literal["none", "item", "batch"]


@dataclass(frozen=True)
class Edge:
    """One edge as it is written: who leads to whom, by which field, at which path."""

    source: str
    target: str
    kind: EdgeKind
    path: Path

    @property
    def named(self) -> str:
        """The end of the edge that the author wrote down."""
        return self.source if self.kind in ("all_of", "any_of") else self.target


@dataclass(frozen=True)
class Use:
    """One template, where it stands, and what it may see: of which node, and which fan-out names."""

    path: Path
    template: Template
    node: str | None
    scope: Scope = "none"


@dataclass
class NodeModel:
    """One node as written. `type` is empty where the file names none that exists."""

    id: str
    type: str
    fields: dict[str, Any]
    raw: Any
    path: Path

    @property
    def task(self) -> dict[str, Any]:
        """What says which handler or workflow runs: of a fan_out its child, else the node itself."""
        return self.fields.get("task", {}) if self.type == "fan_out" else self.fields

    @property
    def task_path(self) -> Path:
        return (*self.path, "task") if self.type == "fan_out" else self.path

    @property
    def runs_workflow(self) -> bool:
        return isinstance(self.task.get("workflow"), str)

    @property
    def params_key(self) -> str:
        return "inputs" if self.runs_workflow else "params"


@dataclass(frozen=True)
class Vocabulary:
    """How templates of one sort of file read what ran before: `nodes.x.output` or `steps.x.outputs`."""

    root: str
    facts: tuple[str, ...]
    noun: str


IN_WORKFLOW = Vocabulary("nodes", ("output", "status", "error"), "node")
IN_PLAN = Vocabulary("steps", ("outputs",), "step")


@dataclass
class Model:
    """A file as far as it could be read: a workflow, or a request's plan, whose steps are nodes that run workflows."""

    document: Document
    fields: dict[str, Any]
    nodes: dict[str, NodeModel] = field(default_factory=dict)
    inputs: dict[str, Input] = field(default_factory=dict)
    vocabulary: Vocabulary = IN_WORKFLOW

    @cached_property
    def sub_workflows(self) -> frozenset[str]:
        """The workflows that this one runs."""
        return frozenset(str(node.task["workflow"]) for node in self.nodes.values() if node.runs_workflow)

    @cached_property
    def input_names(self) -> frozenset[str]:
        """The inputs that the file names, also those whose declaration is wrong."""
        written = self.document.value.get("inputs")
        return frozenset(written) if isinstance(written, dict) else frozenset()

    @cached_property
    def edges(self) -> list[Edge]:
        """Every edge in the order it is written, also those that name no node."""
        edges = [edge for node in self.nodes.values() for edge in _edges(node)]
        return sorted(edges, key=lambda edge: self.document.values[edge.path])

    @cached_property
    def known_edges(self) -> list[Edge]:
        """The edges between nodes that exist."""
        return [edge for edge in self.edges if edge.source in self.nodes and edge.target in self.nodes]

    @cached_property
    def unread_ends(self) -> frozenset[str]:
        """The nodes with an edge from or to something that does not exist."""
        unknown = (edge for edge in self.edges if edge.named not in self.nodes)
        return frozenset(edge.target if edge.named == edge.source else edge.source for edge in unknown)

    @cached_property
    def uses(self) -> list[Use]:
        """Every template of the file."""
        found = [use for node in self.nodes.values() for use in _uses(node)]
        outputs = self.fields.get("outputs", {})
        return found + [Use(path, template, None) for path, template in templates_in(("outputs",), outputs)]

    def of_type(self, *types: str) -> list[NodeModel]:
        return [node for node in self.nodes.values() if node.type in types]


def build(document: Document) -> tuple[Model, list[Fault]]:
    """The model of a document, and the faults of its shape."""
    check = ShapeCheck(document)
    value = {} if document.value is None else document.value
    if not isinstance(value, dict):
        fault = document.at_value((), "wrong-type", "a workflow is a mapping", "write workflow_id: …")
        return Model(document, {}), [fault]
    fields = check.fields((), value, WORKFLOW_FIELDS)
    model = Model(document, fields)
    model.inputs = declared_inputs(fields)
    for name, raw in fields.get("nodes", {}).items():
        check.faults += check.bad_name(("nodes",), name)
        model.nodes[name] = _node(check, name, raw)
    return model, check.faults


def declared_inputs(fields: Mapping[str, Any]) -> dict[str, Input]:
    """The inputs whose type is known."""
    return {name: Input.of(name, spec) for name, spec in fields.get("inputs", {}).items() if "type" in spec}


def _node(check: ShapeCheck, name: str, raw: Any) -> NodeModel:
    path: Path = ("nodes", name)
    if not isinstance(raw, dict):
        hint = "write {type: …, next: …}"
        check.faults.append(check.document.at_value(path, "wrong-type", f"node {name!r} must be a mapping", hint))
        return NodeModel(name, "", {}, raw, path)
    kind = "task" if "handler" in raw and "type" not in raw else raw.get("type")
    if not isinstance(kind, str) or kind not in NODE_FIELDS:
        _untyped(check, path, raw)
        return NodeModel(name, "", {}, raw, path)
    table = NODE_FIELDS[kind]
    if kind == "fan_out" and isinstance(raw.get("task"), dict) and "workflow" in raw["task"]:
        table = FAN_OUT_OF_WORKFLOWS
    return NodeModel(name, kind, check.fields(path, raw, table), raw, path)


def _untyped(check: ShapeCheck, path: Path, raw: dict[str, Any]) -> None:
    entry = NODE_FIELDS["task"]["type"]
    if "type" in raw:
        assert check.value((*path, "type"), raw["type"], entry.kind) is OMITTED  # noqa: S101 - only called where it is wrong
    else:
        check.missing(path, "type", entry.description)


# --- edges ---


def _edges(node: NodeModel) -> Iterator[Edge]:
    """The edges that a node's fields draw, from the values as written so that each keeps its own place."""
    if not isinstance(node.raw, dict):
        return
    allowed = NODE_FIELDS.get(node.type, {"next": None, "depends_on": None})
    for key in ("next", "on_true", "on_false"):
        if key in allowed:
            kind: EdgeKind = "next" if key == "next" else "arm"
            for path, target in _targets((*node.path, key), node.raw.get(key)):
                yield Edge(node.id, target, kind, path)
    if "branches" in allowed:
        yield from _branch_edges(node)
    if "depends_on" in allowed:
        yield from _dependency_edges(node)


def _branch_edges(node: NodeModel) -> Iterator[Edge]:
    branches = node.raw.get("branches")
    for index, branch in enumerate(branches if isinstance(branches, list) else ()):
        if isinstance(branch, dict):
            for path, target in _targets((*node.path, "branches", index, "next"), branch.get("next")):
                yield Edge(node.id, target, "arm", path)


def _dependency_edges(node: NodeModel) -> Iterator[Edge]:
    written, base = node.raw.get("depends_on"), (*node.path, "depends_on")
    if not isinstance(written, dict):
        for path, source in _targets(base, written):
            yield Edge(source, node.id, "all_of", path)
        return
    for path, source in _targets((*base, "all_of"), written.get("all_of")):
        yield Edge(source, node.id, "all_of", path)
    for path, source in _targets((*base, "any_of"), written.get("any_of")):
        yield Edge(source, node.id, "any_of", path)


def _targets(path: Path, written: Any) -> Iterator[tuple[Path, str]]:
    if isinstance(written, str):
        yield path, written
    elif isinstance(written, list):
        yield from (((*path, index), target) for index, target in enumerate(written) if isinstance(target, str))


# --- templates ---


def _uses(node: NodeModel) -> Iterator[Use]:
    for key in ("when", "condition", "condition_field"):
        if isinstance(node.fields.get(key), str):
            yield Use((*node.path, key), parse_condition(node.fields[key]), node.id)
    for path, template in templates_in((*node.path, "source"), node.fields.get("source")):
        yield Use(path, template, node.id)
    scope: Scope = "none" if node.type != "fan_out" else "batch" if "batch_size" in node.fields else "item"
    for path, template in templates_in((*node.path, "item_key"), node.fields.get("item_key")):
        yield Use(path, template, node.id, scope)
    for path, template in templates_in((*node.task_path, "resources"), node.task.get("resources")):
        yield Use(path, template, node.id)
    key = node.params_key
    for path, template in templates_in((*node.task_path, key), node.task.get(key)):
        yield Use(path, template, node.id, scope)


def templates_in(path: Path, value: Any) -> Iterator[tuple[Path, Template]]:
    """Every template inside a value."""
    if isinstance(value, str):
        if is_template(value):
            yield path, parse_template(value)
    elif isinstance(value, dict):
        for key, member in value.items():
            yield from templates_in((*path, key), member)
    elif isinstance(value, list):
        for index, element in enumerate(value):
            yield from templates_in((*path, index), element)


def is_literal(value: Any) -> bool:
    """Whether no part of the value is a template."""
    return next(templates_in((), value), None) is None
