"""A request's runs in their order: which may be queued now, what each is given, what all of them came to."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession

from domain.models import Request, Run
from domain.repositories.runs import Runs
from domain.rules.lifecycle import RunState
from flows.compiler import InputFault, Plan, RequestPlan
from flows.compiler.expressions import ExpressionError


@dataclass(frozen=True)
class UnfitStep:
    """A step that cannot be queued: what the steps before it returned does not fit its workflow's inputs."""

    run: Run
    reason: str


async def queue_ready(session: AsyncSession, request: Request) -> list[UnfitStep]:
    """Open an attempt for every pending run that waits for nothing; returns those that cannot be given inputs.

    The caller holds the request's lock: two runs that end together must not both queue the one behind them.
    """
    runs = Runs(session)
    everything = await runs.of_request(request.request_id)
    completed = {run.step_id for run in everything if run.state is RunState.COMPLETED}
    refused = []
    for run in everything:
        waits = run.state is not RunState.PENDING or not completed.issuperset(run.depends_on)
        if waits or await runs.live_attempt(run.run_id):
            continue
        try:
            run.inputs = await _inputs(session, request, run, everything)
        except (ExpressionError, InputFault) as error:
            refused.append(UnfitStep(run, str(error)))
            continue
        await runs.count_anew(run, max(await runs.next_attempt(run.run_id), run.first_attempt))
        await session.flush()
        await runs.add_attempt(run.run_id, run.first_attempt)
    return refused


def result_of(request: Request, runs: Sequence[Run]) -> dict[str, Any]:
    """What a completed request returns: its plan's outputs, or those of its one run."""
    if request.plan is None:
        return {name: value for run in runs for name, value in (run.outputs or {}).items()}
    plan = RequestPlan.from_json(request.plan["plan"])
    return plan.result(request.plan["inputs"], _results(runs), _facts(request))


async def _inputs(session: AsyncSession, request: Request, run: Run, runs: Sequence[Run]) -> dict[str, Any]:
    """A single run was given its inputs when it was accepted; a step gets them from the steps before it."""
    if request.plan is None or run.step_id is None:
        return run.inputs
    definition = await Runs(session).definition(run.workflow_id, run.version)
    if definition is None:
        raise ExpressionError(f"workflow {run.workflow_id} version {run.version} is not published")
    plan = RequestPlan.from_json(request.plan["plan"])
    given = plan.step_inputs(run.step_id, request.plan["inputs"], _results(runs), _facts(request))
    return Plan.from_json(definition.plan).resolve_inputs(given)


def _results(runs: Sequence[Run]) -> dict[str, Any]:
    return {run.step_id: run.outputs or {} for run in runs if run.step_id and run.state is RunState.COMPLETED}


def _facts(request: Request) -> dict[str, Any]:
    return {
        "request_id": str(request.request_id),
        "asset_id": request.asset_id,
        "version_ordinal": request.ordinal,
    }
