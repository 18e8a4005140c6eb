"""What people are told of lost attempts and failed runs: operators everything, partners what they may read."""

from domain.contracts.runs import RunProblem
from domain.models import Run
from domain.rules.reconcile import AttemptFacts, FlowState

EXHAUSTED = "attempts-exhausted"
NO_OUTCOME = "its flow run ended without handing in an outcome"
OUTAGE = "platform-outage"  # as `flows.handlers.errors` says it
AGAIN_SECONDS = 600
AWAY = (
    "A part of the platform was away for longer than it waits: nothing is known to be wrong with what was sent. "
    "Submit it again later."
)
HIDDEN_FAILURE = "The platform could not finish this. Its operators see why; submit again later or ask them."


def why_lost(facts: AttemptFacts, flow: FlowState) -> str:
    """Why an attempt was given up, for people."""
    if flow is FlowState.COMPLETED:
        return NO_OUTCOME
    if flow is FlowState.MISSING:
        return "its flow run is gone from Prefect"
    if flow in {FlowState.FAILED, FlowState.CRASHED}:
        return f"its flow run {flow.value} without handing in an outcome"
    return f"nothing was heard of its flow run for {facts.quiet_seconds:.0f} s"


def partner_problem(failed: list[Run]) -> dict[str, object]:
    """The first failure, in words that the partner may read."""
    problem = RunProblem.model_validate(failed[0].problem)
    if problem.code == OUTAGE:
        return {
            "type": "about:blank",
            "title": "The platform could not do this now",
            "status": 503,
            "code": OUTAGE,
            "detail": AWAY,
            "retry_after_seconds": AGAIN_SECONDS,
        }
    readable = problem.partner_may_read
    return {
        "type": "about:blank",
        "title": "The data could not be processed",
        "status": 422 if readable else 500,
        "code": problem.code if readable or problem.code == EXHAUSTED else "processing-failed",
        "detail": problem.message if readable else HIDDEN_FAILURE,
    }
