"""Laws of parameters: against the handler's declared model, or the inputs of the sub-workflow. Literals only."""

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from flows.compiler.checks.subject import Subject
from flows.compiler.faults import Fault, Path, did_you_mean, excerpt, listing
from flows.compiler.inputs import TYPES, Input
from flows.compiler.model import NodeModel, is_literal
from flows.compiler.source import Document

# What a hint tells of a parameter's JSON Schema.
_TOLD = ("type", "pattern", "minimum", "maximum", "exclusiveMinimum", "minLength", "maxLength", "minItems", "maxItems")


def required_parameters_are_given(subject: Subject) -> Iterator[Fault]:
    """Every required parameter is given."""
    for node in _working(subject):
        required = _required(subject, node)
        for name in required:
            if name not in _given(node):
                message = f"{_runs(node)} needs {name!r}"
                hint = f"add {name}{_kind(subject, node, name)} to the {node.params_key} of {node.id}"
                yield subject.model.document.at_key(node.path, "missing-param", message, hint)


def given_parameters_are_declared(subject: Subject) -> Iterator[Fault]:
    """Only declared parameters are given."""
    for node in _working(subject):
        known = _declared(subject, node)
        for name in _given(node) if known is not None else ():
            if name not in (known or ()):
                message = f"{_runs(node)} takes no {excerpt(name)}"
                hint = did_you_mean(name, known or (), f"it takes {listing(known or ()) or 'nothing'}")
                yield subject.model.document.at_key(_path(node, name), "unknown-param", message, hint)


def literal_parameters_are_valid(subject: Subject) -> Iterator[Fault]:
    """A parameter that is no template satisfies its declaration."""
    for node in _working(subject):
        literals = {name: value for name, value in _given(node).items() if is_literal(value)}
        handler, workflow = subject.handler(node), subject.sub_workflow(node)
        if handler:
            complete = len(literals) == len(_given(node))
            yield from _against_model(subject.model.document, node, handler.params, literals, complete)
        elif workflow:
            base = (*node.task_path, node.params_key)
            yield from against_inputs(subject.model.document, base, workflow.inputs, literals)


def against_inputs(
    document: Document, base: Path, declared: Mapping[str, Input], literals: Mapping[str, Any]
) -> Iterator[Fault]:
    """The faults of literal values for declared inputs."""
    for name in literals.keys() & declared.keys():
        for problem in declared[name].problems(literals[name]):
            hint = declared[name].description or f"write {TYPES[declared[name].type].article}"
            yield document.at_value((*base, name), "bad-param", f"{name} {problem}", hint)


def _against_model(
    document: Document, node: NodeModel, model: type[BaseModel], literals: dict[str, Any], complete: bool
) -> Iterator[Fault]:
    """Validate the literals; another law reports missing ones, and faults of the whole need all literals."""
    try:
        model.model_validate(literals)
    except ValidationError as error:
        for found in error.errors(include_url=False, include_context=False, include_input=False):
            location = found["loc"]
            about_a_literal = bool(location) and location[0] in literals
            if about_a_literal or (complete and not location):
                path = (*node.task_path, node.params_key, *location)
                told = found["msg"].removeprefix("Input ").removeprefix("Value error, ")
                message = f"{'.'.join(map(str, location)) or node.params_key}: {told}"
                yield document.at_value(path, "bad-param", message, _declaration(model, node, location))


def _declaration(model: type[BaseModel], node: NodeModel, location: Path) -> str:
    """What the handler says about the parameter, as its JSON Schema has it."""
    properties = model.model_json_schema().get("properties", {})
    declared = properties.get(location[0], {}) if location else {}
    told = (f"{key} {declared[key]}" for key in _TOLD if isinstance(declared.get(key), str | int | float))
    shown = ", ".join(told)
    return f"{_runs(node)} declares {location[0]}: {shown}" if shown else f"see what {_runs(node)} declares"


def _working(subject: Subject) -> list[NodeModel]:
    """The nodes that run something and whose parameters, if any, could be read."""
    nodes = subject.model.of_type("task", "fan_out", "workflow")
    return [node for node in nodes if node.params_key in node.task or node.params_key not in _written_task(node)]


def _written_task(node: NodeModel) -> dict[str, Any]:
    written = node.raw.get("task") if node.type == "fan_out" else node.raw
    return written if isinstance(written, dict) else {}


def _given(node: NodeModel) -> dict[str, Any]:
    return dict(node.task.get(node.params_key, {}))


def _path(node: NodeModel, name: str) -> Path:
    return (*node.task_path, node.params_key, name)


def _runs(node: NodeModel) -> str:
    return str(node.task.get("workflow") if node.runs_workflow else node.task.get("handler"))


def _kind(subject: Subject, node: NodeModel, name: str) -> str:
    """What the parameter takes, in brackets, where its declaration says so in one word."""
    handler, workflow = subject.handler(node), subject.sub_workflow(node)
    if handler:
        declared = handler.params.model_json_schema().get("properties", {}).get(name, {}).get("type")
    else:
        declared = workflow.inputs[name].type if workflow else None
    return f" ({TYPES[declared].article})" if declared in TYPES else ""


def _required(subject: Subject, node: NodeModel) -> list[str]:
    handler, workflow = subject.handler(node), subject.sub_workflow(node)
    if handler:
        return [_written_name(name, info) for name, info in handler.params.model_fields.items() if info.is_required()]
    return [name for name, item in workflow.inputs.items() if item.required] if workflow else []


def _declared(subject: Subject, node: NodeModel) -> list[str] | None:
    """The names that may be given; None where anything may, or nothing is known."""
    handler, workflow = subject.handler(node), subject.sub_workflow(node)
    if handler:
        if handler.params.model_config.get("extra") == "allow":
            return None
        return [_written_name(name, info) for name, info in handler.params.model_fields.items()]
    return list(workflow.inputs) if workflow else None


def _written_name(name: str, info: Any) -> str:
    """What a parameter is called where it is given."""
    return info.alias or name
