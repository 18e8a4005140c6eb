"""A request that needs several runs: its steps, what each is given, and what the request returns.

Like a Plan, it is immutable and survives JSON. It starts nothing: the domain asks which steps may run now.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from flows.compiler.expressions import render
from flows.compiler.inputs import Input, input_schema, resolve_inputs
from flows.compiler.plan import Version


@dataclass(frozen=True)
class Step:
    """One run of the request."""

    id: str
    workflow: str
    inputs: Mapping[str, Any] = field(default_factory=dict)
    depends_on: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {**self.__dict__, "depends_on": list(self.depends_on)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Step":
        return cls(**{**data, "depends_on": tuple(data["depends_on"])})


@dataclass(frozen=True)
class RequestPlan:
    """A compiled plan file. `steps` are in an order in which they can run."""

    plan_id: str
    name: str
    version: Version
    digest: str
    steps: tuple[Step, ...]
    description: str = ""
    accepts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    inputs: Mapping[str, Input] = field(default_factory=dict)
    outputs: Mapping[str, Any] = field(default_factory=dict)

    def input_schema(self) -> dict[str, Any]:
        """The JSON Schema of this plan's inputs."""
        return input_schema(self.inputs, self.name, self.description)

    def resolve_inputs(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The inputs with defaults filled in; raises InputFault that lists everything wrong with what was given."""
        return resolve_inputs(self.inputs, given)

    def accepted_pairs(self) -> tuple[tuple[str, str], ...]:
        """Every (data_type, operation) that this plan serves."""
        operations = self.accepts.get("operation", ())
        return tuple((kind, operation) for kind in self.accepts.get("data_type", ()) for operation in operations)

    def ready(self, completed: Collection[str]) -> tuple[Step, ...]:
        """The steps that are not completed and wait for none that is not."""
        return tuple(
            step
            for step in self.steps
            if step.id not in completed and all(name in completed for name in step.depends_on)
        )

    def step_inputs(
        self, step_id: str, inputs: Mapping[str, Any], results: Mapping[str, Any], run: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """What a step's run is given: `results` are the outputs of completed steps by id. Raises ExpressionError.

        An input that comes to nothing is not given: so a plan passes on what may be left out.
        """
        step = next(step for step in self.steps if step.id == step_id)
        rendered = render(step.inputs, _names(inputs, results, run))
        return {name: value for name, value in rendered.items() if value is not None}

    def result(
        self, inputs: Mapping[str, Any], results: Mapping[str, Any], run: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """What the request returns once all steps are completed."""
        return dict(render(self.outputs, _names(inputs, results, run)))

    def to_json(self) -> dict[str, Any]:
        return {
            **self.__dict__,
            "accepts": {key: list(values) for key, values in self.accepts.items()},
            "inputs": [item.to_json() for item in self.inputs.values()],
            "steps": [step.to_json() for step in self.steps],
            "outputs": dict(self.outputs),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "RequestPlan":
        inputs = map(Input.from_json, data["inputs"])
        return cls(
            **{
                **data,
                "accepts": MappingProxyType({key: tuple(values) for key, values in data["accepts"].items()}),
                "inputs": MappingProxyType({item.name: item for item in inputs}),
                "steps": tuple(map(Step.from_json, data["steps"])),
                "outputs": MappingProxyType(data["outputs"]),
            }
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return RequestPlan.from_json, (self.to_json(),)


def _names(inputs: Mapping[str, Any], results: Mapping[str, Any], run: Mapping[str, Any] | None) -> dict[str, Any]:
    steps = {name: {"outputs": outputs} for name, outputs in results.items()}
    return {"inputs": dict(inputs), "steps": steps, "run": dict(run or {})}
