"""The Plan: a workflow as the scheduler and the runner need it. Immutable, and the same after a trip through JSON.

A plan needs no registry and no file: pools, timeouts and retries are settled when it is made. Templates stay as
written and are rendered at run time.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal

from flows.compiler.inputs import Input, input_schema, resolve_inputs
from flows.compiler.retry import Retry

NodeType = Literal["start", "end", "task", "conditional", "fan_out", "fan_in", "workflow"]
Aggregation = Literal["collect", "concat", "sum", "first", "last"]
OnFailure = Literal["fail", "continue"]
Priority = Literal["low", "normal", "high"]
Version = int | str


@dataclass(frozen=True)
class Resources:
    """What a try needs. A child run is given as much as the most that one of its nodes needs.

    `memory_mb` may be a template, rendered when the node is ordered: only then a header has been read.
    """

    memory_mb: float | str | None = None
    cpus: float | None = None
    gpu: int | None = None

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Resources":
        """As plans say it; those of earlier releases, and files, may say `cpu`."""
        return cls(data.get("memory_mb"), data.get("cpus", data.get("cpu")), data.get("gpu"))


NO_RETRY = Retry(max_attempts=0)
NO_RESOURCES = Resources()


@dataclass(frozen=True)
class Arm:
    """One way out of a conditional: taken when its test holds. The default's test is None."""

    test: str | None
    targets: tuple[str, ...]


@dataclass(frozen=True)
class Choice:
    """How a conditional decides. Without `by_field` the arms are those of true and false, in this order."""

    expression: str
    arms: tuple[Arm, ...]
    by_field: bool = False


@dataclass(frozen=True)
class FanOut:
    """How a fan-out expands. `tolerated` is a count, or a percentage where `tolerated_is_percent`."""

    source: Any
    collected_by: str
    item_key: str | None = None
    max_concurrency: int | None = None
    tolerated: float = 0
    tolerated_is_percent: bool = False
    batch_size: int | None = None
    shards: int | None = None

    def tolerates(self, failures: int, count: int) -> bool:
        """Whether the fan-out is a success with this many failures among this many children."""
        return failures * 100 <= self.tolerated * count if self.tolerated_is_percent else failures <= self.tolerated


@dataclass(frozen=True)
class FanIn:
    """What a fan-in makes of the outputs of its fan-out's children."""

    source: str
    aggregation: Aggregation = "collect"
    field: str | None = None


@dataclass(frozen=True)
class Node:
    """One node. What runs (handler, pool, params, retry, timeouts…) of a fan_out is what each of its children runs."""

    id: str
    type: NodeType
    all_of: tuple[str, ...] = ()
    any_of: tuple[str, ...] = ()
    successors: tuple[str, ...] = ()
    handler: str | None = None
    workflow: str | None = None
    pool: str | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    retry: Retry = NO_RETRY
    timeout_seconds: float | None = None
    dispatch_timeout_seconds: float | None = None
    resources: Resources = NO_RESOURCES
    priority: Priority | None = None  # of its child runs; else the run's own
    on_failure: OnFailure = "fail"
    when: str | None = None
    version: Version | None = None
    args: Any = None
    choice: Choice | None = None
    fan_out: FanOut | None = None
    fan_in: FanIn | None = None

    @property
    def predecessors(self) -> tuple[str, ...]:
        return self.all_of + self.any_of

    @property
    def tags(self) -> frozenset[str]:
        """What its work is tagged with in Prefect, and limited by: pool and handler."""
        return frozenset(tag for tag in (self.pool, self.handler) if tag)

    def to_json(self) -> dict[str, Any]:
        """What differs from a bare node, as JSON."""
        bare = Node(self.id, self.type).__dict__
        data = {key: value for key, value in self.__dict__.items() if key in ("id", "type") or value != bare[key]}
        return {key: _to_json(value) for key, value in data.items()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Node":
        return cls(**{key: _NODE_PARTS.get(key, _same)(value) for key, value in data.items()})


def _to_json(value: Any) -> Any:
    if isinstance(value, Retry):
        return value.to_json()
    if isinstance(value, Choice):
        arms = [{"test": arm.test, "targets": list(arm.targets)} for arm in value.arms]
        return {"expression": value.expression, "arms": arms, "by_field": value.by_field}
    if isinstance(value, FanOut | FanIn | Resources):
        return dict(value.__dict__)
    return list(value) if isinstance(value, tuple) else value


def _choice(data: Mapping[str, Any]) -> Choice:
    arms = tuple(Arm(arm["test"], tuple(arm["targets"])) for arm in data["arms"])
    return Choice(data["expression"], arms, data["by_field"])


def _same(value: Any) -> Any:
    return value


_NODE_PARTS: Mapping[str, Any] = {
    "all_of": tuple,
    "any_of": tuple,
    "successors": tuple,
    "retry": Retry.from_json,
    "resources": Resources.from_json,
    "choice": _choice,
    "fan_out": lambda data: FanOut(**data),
    "fan_in": lambda data: FanIn(**data),
}


@dataclass(frozen=True)
class Plan:
    """A compiled workflow. `nodes` are in topological order, ties in the order of the file."""

    workflow_id: str
    name: str
    version: Version
    digest: str
    nodes: Mapping[str, Node]
    description: str = ""
    type: Literal["offline", "realtime"] = "offline"
    accepts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    sla_seconds: float | None = None
    inputs: Mapping[str, Input] = field(default_factory=dict)
    outputs: Mapping[str, Any] = field(default_factory=dict)

    def input_schema(self) -> dict[str, Any]:
        """The JSON Schema of this workflow's inputs."""
        return input_schema(self.inputs, self.name, self.description)

    def resolve_inputs(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The inputs with defaults filled in; raises InputFault that lists everything wrong with what was given."""
        return resolve_inputs(self.inputs, given)

    def accepted_pairs(self) -> tuple[tuple[str, str], ...]:
        """Every (data_type, operation) that this workflow serves."""
        operations = self.accepts.get("operation", ())
        return tuple((kind, operation) for kind in self.accepts.get("data_type", ()) for operation in operations)

    def handlers(self) -> frozenset[str]:
        """The names of all handlers that a run of this plan may need."""
        return frozenset(node.handler for node in self.nodes.values() if node.handler)

    @property
    def sub_workflows(self) -> frozenset[str]:
        """The ids of all workflows that a run of this plan may run."""
        return frozenset(node.workflow for node in self.nodes.values() if node.workflow)

    def to_json(self) -> dict[str, Any]:
        """The plan as JSON. Ordered things are lists: PostgreSQL's jsonb forgets the order of keys."""
        return {
            **self.__dict__,
            "accepts": {key: list(values) for key, values in self.accepts.items()},
            "inputs": [item.to_json() for item in self.inputs.values()],
            "nodes": [node.to_json() for node in self.nodes.values()],
            "outputs": dict(self.outputs),
        }

    def __reduce__(self) -> tuple[Any, ...]:
        """Copied and pickled by way of its JSON: read-only mappings cannot be."""
        return Plan.from_json, (self.to_json(),)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Plan":
        inputs = map(Input.from_json, data["inputs"])
        nodes = map(Node.from_json, data["nodes"])
        return cls(
            **{
                **data,
                "accepts": MappingProxyType({key: tuple(values) for key, values in data["accepts"].items()}),
                "inputs": MappingProxyType({item.name: item for item in inputs}),
                "nodes": MappingProxyType({node.id: node for node in nodes}),
                "outputs": MappingProxyType(data["outputs"]),
            }
        )


def with_successors(nodes: Mapping[str, Node]) -> dict[str, Node]:
    """The nodes with `successors` filled in from everyone's predecessors."""
    after: dict[str, list[str]] = {name: [] for name in nodes}
    for node in nodes.values():
        for predecessor in node.predecessors:
            after[predecessor].append(node.id)
    return {name: replace(node, successors=tuple(after[name])) for name, node in nodes.items()}
