"""A request's plan as a model: its steps are nodes that run workflows, so that the same laws judge them."""

from typing import Any

from flows.compiler.faults import Fault, Path, excerpt
from flows.compiler.kinds import NAME, NAME_LAW
from flows.compiler.language import PLAN_FIELDS
from flows.compiler.model import IN_PLAN, Model, NodeModel, declared_inputs
from flows.compiler.shape import ShapeCheck
from flows.compiler.source import Document


def is_plan(document: Document) -> bool:
    """Whether the file describes a request's plan rather than a workflow."""
    return isinstance(document.value, dict) and ("plan_id" in document.value or "steps" in document.value)


def build_plan(document: Document) -> tuple[Model, list[Fault]]:
    """The model of a plan's document, and the faults of its shape."""
    check = ShapeCheck(document)
    fields = check.fields((), document.value, PLAN_FIELDS)
    model = Model(document, fields, inputs=declared_inputs(fields), vocabulary=IN_PLAN)
    steps = document.value.get("steps")
    for index, raw in enumerate(steps if isinstance(steps, list) else ()):
        if isinstance(raw, dict) and isinstance(raw.get("id"), str):
            _add_step(check, model, ("steps", index), raw)
    return model, check.faults


def _add_step(check: ShapeCheck, model: Model, path: Path, raw: dict[str, Any]) -> None:
    name = raw["id"]
    at = (*path, "id")
    if not NAME.fullmatch(name):
        fault = check.document.at_value(at, "bad-value", f"{excerpt(name)} is not a name", f"a name is {NAME_LAW}")
        check.faults.append(fault)
    if name in model.nodes:
        fault = check.document.at_value(at, "duplicate-key", f"there is a step {excerpt(name)} already", "rename one")
        check.faults.append(fault)
        return
    kept = {key: raw[key] for key in ("workflow", "inputs") if isinstance(raw.get(key), str | dict)}
    model.nodes[name] = NodeModel(name, "workflow", kept, raw, path)
