"""What the scheduler and the domain are told of a run: how nodes and items ended, and what went wrong. Pure."""

from collections.abc import Mapping
from typing import Any

from domain.contracts.runs import RunProblem
from domain.rules.texts import made_storable, unstorable_places
from domain.shared.logs import redact_facts
from flows.compiler import (
    Event,
    Failed,
    Finished,
    ItemCompleted,
    ItemFailed,
    Node,
    NodeCompleted,
    NodeFailed,
    NodeOutcome,
    NodeSkipped,
    RunError,
    State,
)
from flows.memory.large_values import lies_in_storage, plain, to_json

LONGEST_PARAMETERS = 4000  # letters of JSON


def wait_seconds(node: Node) -> float | None:
    """How long a child run may wait for a worker: as the workflow says, else as long as workers serve its pool.

    Waiting anew, once for each retry, would be no other wait.
    """
    once = node.dispatch_timeout_seconds
    return None if once is None else once * (1 + len(node.retry.delays()))


def run_problem(error: RunError) -> RunProblem:
    """A scheduler's error as the domain takes it."""
    message = made_storable(error.message[:4000])  # a template may quote what a partner wrote
    return RunProblem(code=error.code, message=message, node_id=error.node_id, partner_may_read=error.partner_may_read)


def shown_parameters(params: Mapping[str, Any]) -> dict[str, Any] | None:
    """What a handler is given, as operators may read it. None where it is long, or lies in run storage for that."""
    if lies_in_storage(params):
        return None
    shown = redact_facts(plain(params))
    can_be_kept = next(unstorable_places(shown), None) is None and len(to_json(shown)) <= LONGEST_PARAMETERS
    return shown if can_be_kept else None


def node_event(node_id: str, outcome: NodeOutcome) -> Event:
    if outcome.state is State.COMPLETED:
        return NodeCompleted(node_id, outcome.output)
    if outcome.state is State.SKIPPED:
        return NodeSkipped(node_id)
    return NodeFailed(node_id, outcome.error or RunError("handler-failed", "The node failed.", node_id))


def item_event(node_id: str, index: int, outcome: NodeOutcome) -> Event:
    if outcome.state is State.COMPLETED:
        return ItemCompleted(node_id, index, outcome.output)
    return ItemFailed(node_id, index, outcome.error or RunError("handler-failed", "The item failed.", node_id))


def with_last_counts(verdict: Finished | Failed, outcomes: Mapping[str, NodeOutcome]) -> Finished | Failed:
    """The verdict, with what its node's error says in the end: items may have ended after the run was decided."""
    if isinstance(verdict, Failed) and verdict.error.node_id is not None:
        outcome = outcomes.get(verdict.error.node_id)
        if outcome is not None and outcome.error is not None and outcome.error.code == verdict.error.code:
            return Failed(outcome.error)
    return verdict
