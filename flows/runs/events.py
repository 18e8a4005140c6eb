"""What the scheduler and the domain are told of a run: how nodes and items ended, and what went wrong. Pure."""

from domain.contracts.runs import RunProblem
from domain.rules.texts import made_storable
from flows.compiler import (
    Event,
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
