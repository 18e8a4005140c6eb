"""What operators' pauses and limits are about, and what may be run again. Pure."""

from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Literal

from domain.rules import leftovers
from domain.rules.lifecycle import ENDED_RUNS, OPEN_RUNS, Approval, RequestState, RunState

EVERYTHING = "*"
Kind = Literal["pause", "open_requests", "in_flight"]
Scope = Literal["failed", "all"]
ENDED_EARLY = tuple(state for state in ENDED_RUNS if state is not RunState.COMPLETED)


def scope_name(*, workflow_id: str | None = None, platform_id: str | None = None, pool: str | None = None) -> str:
    """The name of what a setting is about; without any of them, everything."""
    named = {"workflow": workflow_id, "platform": platform_id, "pool": pool}
    given = [f"{kind}:{name}" for kind, name in named.items() if name is not None]
    if len(given) > 1:
        raise ValueError(f"A setting is about one thing; {' and '.join(given)} are two.")
    return given[0] if given else EVERYTHING


def scopes_of(workflow_id: str, platform_id: str | None) -> tuple[str, ...]:
    """The names by which an order about one thing is about this run. No platform, or an empty one, has none."""
    of_workflow = scope_name(workflow_id=workflow_id)
    return (of_workflow, scope_name(platform_id=platform_id)) if platform_id else (of_workflow,)


def is_held(pauses: Set[str], workflow_id: str, platform_id: str | None) -> bool:
    """Whether one of the pauses of these names holds the run. In SQL: `repositories.controls.is_held`."""
    return not pauses.isdisjoint((EVERYTHING, *scopes_of(workflow_id, platform_id)))


@dataclass(frozen=True)
class RevisionFacts:
    """The revision that a run made or would make. `is_newest` and `exists` are about its version."""

    approval: Approval
    is_newest: bool
    exists: bool


def rerun_refusal(
    scope: Scope,
    state: RunState,
    revision: RevisionFacts | None,
    before: Sequence[RunState] = (),
    collected: RequestState | None = None,
) -> str | None:
    """Return why the run may not run again, or None. A decided revision is never written anew.

    `before` are the states of the request's runs before this one: it would wait for ever for one that has ended.
    `collected` is how the request ended, once what it had made is being removed.
    """
    if state in OPEN_RUNS:
        return f"The run is {state.value}. Cancel it first, or wait for its end."
    if scope == "failed" and state is RunState.COMPLETED:
        return "The run is completed. Rerun it with scope `all` to do its work again."
    if scope == "failed" and collected is not None:
        return leftovers.rerun_refusal(collected)
    ended = [place for place, earlier in enumerate(before, start=1) if earlier in ENDED_EARLY]
    if scope == "failed" and ended:
        return f"Run {ended[0]} of the request is {before[ended[0] - 1].value}. Rerun that one: this one follows it."
    return None if revision is None else _revision_refusal(revision)


def _revision_refusal(revision: RevisionFacts) -> str | None:
    if not revision.exists:
        return "The version of this run was deleted. Submit it again."
    if not revision.is_newest:
        return "A newer revision has replaced what this run made. Rerun that one's run."
    if revision.approval is not Approval.PENDING_REVIEW:
        return f"The revision of this run is {revision.approval.value}. Submit the version again to stage a new one."
    return None


def reopened(scope: Scope, sequence: int, runs: list[tuple[int, RunState]]) -> list[int]:
    """Return the sequences of the request's runs that reopen together with this one.

    `failed` revives what the failure or cancellation ended, from this run on; `all` does the whole request again.
    """
    if scope == "all":
        return [number for number, _ in runs]
    return [number for number, state in runs if state in ENDED_EARLY and number >= sequence]
