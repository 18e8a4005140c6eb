"""The language as a JSON Schema for editors, made from the same tables that the compiler checks against."""

from typing import Any

from flows.compiler.kinds import NAME, fields_schema
from flows.compiler.language import CHILD_TASK, CHILD_WORKFLOW, NODE_FIELDS, PLAN_FIELDS, WORKFLOW_FIELDS

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_WHAT = {
    "start": "The entry, exactly one",
    "end": "An exit, at least one",
    "task": "Runs a handler",
    "conditional": "Picks branches from a run-time value",
    "fan_out": "Makes one child for each element of `source`, at run time",
    "fan_in": "Waits for every child of its fan_out and aggregates",
    "workflow": "Runs another workflow; its outputs are this node's output",
}


def language_schema() -> dict[str, Any]:
    """One schema for workflow files and plan files."""
    return {
        "$schema": _DRAFT,
        "title": "Cairn workflow",
        "description": "A workflow, or a plan of several, as files under workflows/ describe them",
        "if": {"required": ["plan_id"]},
        "then": fields_schema(PLAN_FIELDS),
        "else": _workflow_schema(),
        "$defs": {f"{kind}_node": _node_schema(kind) for kind in NODE_FIELDS},
    }


def _workflow_schema() -> dict[str, Any]:
    schema = fields_schema(WORKFLOW_FIELDS)
    schema["properties"]["nodes"] |= {
        "patternProperties": {f"^{NAME.pattern}$": _any_node()},
        "additionalProperties": False,
    }
    return schema


def _any_node() -> dict[str, Any]:
    """A node by its type; one without a type is a task."""
    by_type = [
        {
            "if": {"properties": {"type": {"const": kind}}, "required": ["type"]},
            "then": {"$ref": f"#/$defs/{kind}_node"},
        }
        for kind in NODE_FIELDS
    ]
    untyped = {"if": {"not": {"required": ["type"]}}, "then": {"$ref": "#/$defs/task_node"}}
    types = {"type": "object", "properties": {"type": {"enum": list(NODE_FIELDS)}}}
    return types | {"allOf": [*by_type, untyped]}


def _node_schema(kind: str) -> dict[str, Any]:
    schema = fields_schema(NODE_FIELDS[kind]) | {"description": _WHAT[kind]}
    schema["properties"]["type"] = {"const": kind, "description": _WHAT[kind]}
    if kind == "fan_out":
        child = {"anyOf": [CHILD_TASK.json_schema(), CHILD_WORKFLOW.json_schema()]}
        schema["properties"]["task"] = child | {"description": "What each child runs"}
    return schema
