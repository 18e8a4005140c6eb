"""What a workflow shows to others that run it: inputs in, outputs out. A Plan is one; so is a file that has faults."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from flows.compiler.inputs import Input


class Interface(Protocol):
    """What another workflow needs to know of a sub-workflow."""

    @property
    def inputs(self) -> Mapping[str, Input]: ...

    @property
    def outputs(self) -> Mapping[str, Any]: ...

    @property
    def sub_workflows(self) -> frozenset[str]: ...


@dataclass(frozen=True)
class Sketch:
    """The interface of a workflow that was read but perhaps does not compile."""

    inputs: Mapping[str, Input]
    outputs: Mapping[str, Any]
    sub_workflows: frozenset[str] = frozenset()
