"""From a model without faults to the Plan: defaults settled, names resolved, order fixed. Reports nothing."""

import hashlib
import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, get_args

from flows.compiler.checks.subject import Subject
from flows.compiler.language import POOL_NAMES
from flows.compiler.model import NodeModel
from flows.compiler.plan import Arm, Choice, FanIn, FanOut, Node, NodeType, Plan, Resources, with_successors
from flows.compiler.request_plan import RequestPlan, Step
from flows.compiler.retry import Retry, merged
from flows.compiler.triggers import rules
from flows.handlers.registry import DEFAULT_TIMEOUT_SECONDS


def digest(value: Any) -> str:
    """SHA-256 of the canonical form: comments, key order and spacing do not count."""
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def lower(subject: Subject) -> Plan:
    """The plan of a subject in which no law found a fault."""
    fields = subject.model.fields
    known = rules(subject.model)
    nodes = {}
    for name in subject.graph.order:
        rule = known[name]
        nodes[name] = _node(subject, subject.model.nodes[name], {"all_of": rule.all_of, "any_of": rule.any_of})
    return Plan(
        workflow_id=fields["workflow_id"],
        name=fields.get("name", fields["workflow_id"]),
        version=fields["version"],
        digest=digest(subject.model.document.value),
        nodes=MappingProxyType(with_successors(nodes)),
        description=fields.get("description", ""),
        type=fields.get("type", "offline"),
        accepts=accepted(fields),
        sla_seconds=fields.get("sla_seconds"),
        inputs=MappingProxyType(subject.model.inputs),
        outputs=MappingProxyType(fields.get("outputs", {})),
    )


def accepted(fields: Mapping[str, Any]) -> Mapping[str, tuple[str, ...]]:
    """The validation matrix of a workflow or plan."""
    return MappingProxyType({key: tuple(values) for key, values in fields.get("accepts", {}).items()})


def _node(subject: Subject, node: NodeModel, edges: dict[str, tuple[str, ...]]) -> Node:
    kind = next(name for name in get_args(NodeType) if name == node.type)
    parts: dict[str, Any] = {**edges, "when": _condition(node.fields.get("when"))}
    if "on_failure" in node.fields:
        parts["on_failure"] = node.fields["on_failure"]
    match node.type:
        case "task" | "workflow":
            parts |= _work(subject, node)
        case "fan_out":
            parts |= _work(subject, node) | {"fan_out": _fan_out(subject, node)}
        case "fan_in":
            aggregation = node.fields.get("aggregation", "collect")
            parts["fan_in"] = FanIn(subject.fan_out_of[node.id].id, aggregation, node.fields.get("field"))
        case "conditional":
            parts["choice"] = _choice(node)
        case _:
            pass  # a start or an end is all edges
    return Node(node.id, kind, **parts)


def _work(subject: Subject, node: NodeModel) -> dict[str, Any]:
    """Return what runs, where and how often: for a task, a sub-workflow, or each child of a fan_out."""
    task, handler = node.task, subject.handler(node)
    timeout = float(task.get("timeout_seconds", handler.timeout_seconds if handler else DEFAULT_TIMEOUT_SECONDS))
    queue = task.get("queue", task.get("pool", "dag-worker-tasks"))
    return {
        "handler": task.get("handler"),
        "workflow": task.get("workflow"),
        "pool": (POOL_NAMES.get(queue) or handler.pool) if handler else None,
        "params": task.get(node.params_key, {}),
        "retry": Retry.of(merged(subject.model.fields.get("retry", {}), task.get("retry", {}))),
        "timeout_seconds": timeout,
        "dispatch_timeout_seconds": _seconds(task.get("dispatch_timeout_seconds")),
        "resources": Resources.from_json(task.get("resources", {})),
        "priority": task.get("priority"),
        "version": task.get("version"),
        "args": task.get("args"),
    }


def _seconds(given: float | None) -> float | None:
    return None if given is None else float(given)


def _fan_out(subject: Subject, node: NodeModel) -> FanOut:
    fields = node.fields
    tolerated = fields.get("tolerated_failures", 0)
    is_percent = isinstance(tolerated, str)
    return FanOut(
        source=fields["source"],
        collected_by=subject.graph.out[node.id][0].target,
        item_key=fields.get("item_key"),
        max_concurrency=fields.get("max_concurrency"),
        tolerated=float(tolerated.rstrip("%")) if is_percent else tolerated,
        tolerated_is_percent=is_percent,
        batch_size=fields.get("batch_size"),
        shards=fields.get("shards"),
    )


def _choice(node: NodeModel) -> Choice:
    fields = node.fields
    if "condition" in fields:
        sides = (Arm("true", _names(fields["on_true"])), Arm("false", _names(fields["on_false"])))
        return Choice(_condition(fields["condition"]) or "", sides)
    arms = tuple(Arm(branch.get("condition"), _names(branch["next"])) for branch in fields["branches"])
    return Choice(_condition(fields["condition_field"]) or "", arms, by_field=True)


def _names(targets: str | list[str]) -> tuple[str, ...]:
    return (targets,) if isinstance(targets, str) else tuple(dict.fromkeys(targets))


def _condition(written: str | bool | None) -> str | None:
    """A condition as text; a literal true or false is one as well."""
    return str(written).lower() if isinstance(written, bool) else written


def lower_plan(subject: Subject) -> RequestPlan:
    """The request's plan of a subject in which no law found a fault."""
    fields = subject.model.fields
    known = rules(subject.model)
    steps = [_step(subject.model.nodes[name], known[name].all_of) for name in subject.graph.order]
    return RequestPlan(
        plan_id=fields["plan_id"],
        name=fields.get("name", fields["plan_id"]),
        version=fields.get("version", 1),
        digest=digest(subject.model.document.value),
        steps=tuple(steps),
        description=fields.get("description", ""),
        accepts=accepted(fields),
        inputs=MappingProxyType(subject.model.inputs),
        outputs=MappingProxyType(fields.get("outputs", {})),
    )


def _step(node: NodeModel, depends_on: tuple[str, ...]) -> Step:
    return Step(node.id, node.fields["workflow"], node.fields.get("inputs", {}), depends_on)
