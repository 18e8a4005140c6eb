"""What partners may have done, as processes: one for each kind of submission that a workflow accepts. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from domain.contracts.offers import Offer
from flows.compiler.inputs import Input


class Accepting(Protocol):
    """What a workflow and a plan of several have in common."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> Any: ...

    @property
    def description(self) -> str: ...

    @property
    def inputs(self) -> Mapping[str, Input]: ...

    def accepted_pairs(self) -> tuple[tuple[str, str], ...]: ...


def offers(served: Iterable[Accepting]) -> list[Offer]:
    """Every process that these workflows and plans make."""
    return [
        Offer(
            process_id=f"{data_type}_{operation}",
            data_type=data_type,
            operation=operation,
            title=plan.name,
            description=plan.description,
            version=str(plan.version),
            inputs=[
                {"name": name, "required": item.required, "schema": item.schema()} for name, item in plan.inputs.items()
            ],
        )
        for plan in served
        for data_type, operation in plan.accepted_pairs()
    ]
