"""What a run and its child runs leave for each other in run storage: order, outcome, sign of life, word to stop.

A folder for each child, below the attempt that made it. Knows nothing of Prefect. All of it waits for the store.
"""

import json
from collections.abc import Mapping
from typing import Any

from domain.contracts.runs import RunFacts
from domain.rules.places import attempt_folder
from flows.compiler import NodeOutcome, RunError, State
from flows.memory.large_values import KeptValues, to_json
from flows.memory.ledger import error_json
from flows.runs.run_context import PlanPath
from flows.storage import SmallStore


def shared_folder(facts: RunFacts, number: int) -> str:
    """Where the items of a fan-out lie that several processes do."""
    return f"{attempt_folder(str(facts.id), facts.attempt)}/fan-out-{number}"


def segment_name(facts: RunFacts, number: int) -> str:
    """Where a child run's order and outcome lie in run storage."""
    return f"{attempt_folder(str(facts.id), facts.attempt)}/segment-{number}"


def sign_of_life(place: str) -> str:
    """The blob that a child run rewrites while it lives."""
    return f"{place}/alive"


def stop_mark(place: str) -> str:
    """The blob by which a run tells its child to stop."""
    return f"{place}/stop"


def order_of(place: PlanPath) -> dict[str, Any]:
    """What every order says: which plan the work belongs to."""
    return {"path": place.path, "workflow": place.workflow, "inputs": dict(place.inputs)}


def put_order(store: SmallStore, place: str, order: Mapping[str, Any]) -> None:
    """Leave the order where the child looks for it."""
    store.write_bytes(f"{place}/order.json", to_json(order).encode())


def read_order(store: SmallStore, place: str) -> dict[str, Any]:
    order: dict[str, Any] = json.loads(store.read_bytes(f"{place}/order.json"))
    return order


def who_takes(place: str, process: str) -> str:
    """What stands in what a child run takes of a fan-out: its own name, then its process's."""
    return f"{place.rpartition('/')[2]} {process}"


def is_over(store: SmallStore, facts: RunFacts, who: str) -> bool:
    """Whether the child run that took something has ended, or was given up."""
    place = f"{attempt_folder(str(facts.id), facts.attempt)}/{who.partition(' ')[0]}"
    return any(store.size_bytes(name) is not None for name in (f"{place}/outcome.json", stop_mark(place)))


def put_outcome(store: SmallStore, place: str, outcome: Mapping[str, Any]) -> None:
    store.write_bytes(f"{place}/outcome.json", to_json(outcome).encode())


def read_outcome(store: SmallStore, place: str) -> dict[str, Any]:
    outcome: dict[str, Any] = json.loads(store.read_bytes(f"{place}/outcome.json"))
    return outcome


def read_signs(store: SmallStore, place: str, *, has_begun: bool = False) -> tuple[bool, bytes | None]:
    """Read whether there is an outcome, and the sign of life. Storage is asked twice, begun or not."""
    name = sign_of_life(place)
    sign = store.read_bytes(name) if has_begun or store.size_bytes(name) is not None else None
    return store.size_bytes(f"{place}/outcome.json") is not None, sign


def outcomes_json(outcomes: Mapping[Any, NodeOutcome], values: KeptValues) -> dict[Any, Any]:
    """How each of these ended, as it travels: what is large is kept, and named."""
    return {name: outcome_json(outcome, values) for name, outcome in outcomes.items()}


def outcome_json(outcome: NodeOutcome, values: KeptValues) -> dict[str, Any]:
    error = error_json(outcome.error) if outcome.error else None
    return {"state": outcome.state.value, "output": values.dump(outcome.output), "error": error}


def outcome_from_json(data: Mapping[str, Any], values: KeptValues) -> NodeOutcome:
    error = RunError(**data["error"]) if data["error"] else None
    return NodeOutcome(State(data["state"]), values.load(data["output"]), error)
