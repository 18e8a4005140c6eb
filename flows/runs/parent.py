"""What a run's flow run does: claims its attempt, works, hands in what came of it, or leaves it to another one."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing, suppress
from typing import Any

from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.objects import State as PrefectState
from prefect.runtime import flow_run
from prefect.states import AwaitingRetry, Completed
from prefect.states import Failed as FailedState

from domain.contracts.runs import RunProblem, WorkOrder
from domain.contracts.runs import Verdict as DomainVerdict
from domain.rules.outcomes import artifacts_fault
from flows.compiler import Finished, Plan, Schedule
from flows.compiler.partition import home_pool
from flows.handlers.errors import InvalidOutput
from flows.memory import measured
from flows.memory.earlier import ForgottenOutput, known_outcomes
from flows.memory.large_values import made_plain, result_fault
from flows.prefect_engine.artifacts import ShownArtifact
from flows.runs.child_flow_runs.errors import HANDLER_MISSING, ChildCancelled, ChildLost
from flows.runs.child_flow_runs.start import HANDED_OVER, SegmentRuns
from flows.runs.claim import claim_message, make_run_context, queue_of_this, refusal_of
from flows.runs.domain_client import AttemptClient, DomainUnreachable, Fenced, HeldBack, Undelivered
from flows.runs.events import run_problem
from flows.runs.outages import outage_of
from flows.runs.prefect_artifact import DESCRIPTION, outline
from flows.runs.run_context import RunContext
from flows.runs.runner import Runner, Verdict
from flows.runs.stop_signals import (
    cancelled_state,
    flow_run_id,
    heeding_stop_signals,
    is_being_cancelled,
    state_after_early_leave,
)
from flows.settings import WorkerSettings
from flows.storage.threads import in_storage_thread

OUTLINE_SECONDS = 3.0


async def run_attempt(line: AttemptClient, settings: WorkerSettings) -> PrefectState[Any]:
    """Claim the attempt, run the plan, hand in what came of it."""
    with heeding_stop_signals(line.stop):
        try:
            order = await line.claim(claim_message(line, settings))
        except Fenced as fenced:
            return Completed(name="Superseded", message=f"Nothing was done: {fenced}")
        except HeldBack as held:
            return await state_after_early_leave(line.stop, AwaitingRetry(message=f"{held} Another worker takes it."))
        if refusal := refusal_of(order):
            return await _leave_to_right_release(line, refusal)
        return await _run_plan(line, settings, order)


async def _run_plan(line: AttemptClient, settings: WorkerSettings, order: WorkOrder) -> PrefectState[Any]:
    """Do the plan's work and tell the domain how it ended. Heartbeats come first: storage may be long in answering."""
    async with line.beating(order.heartbeat_seconds), get_client(sync_client=False) as prefect:
        try:
            return await _run_to_verdict(line, settings, order, prefect)
        except Fenced as fenced:
            return cancelled_state("Fenced", str(fenced))
        except ChildCancelled as cancelled:
            return await _give_up(line, "cancelled", str(cancelled))
        except ChildLost as lost:
            await line.fail(RunProblem(code=lost.code, message=str(lost)), "lost")
            return FailedState(message=str(lost))
        except ForgottenOutput as forgotten:
            await line.fail(RunProblem(code=forgotten.code, message=str(forgotten)))
            return FailedState(message=str(forgotten))
        except DomainUnreachable:
            raise  # nobody hears why, either
        except Exception as error:
            away = outage_of(error)
            problem = RunProblem(code=away.code if away else "engine-error", message=str(away or type(error).__name__))
            with suppress(Fenced, Undelivered):  # the domain finds out by itself, only later
                await line.fail(problem, "lost")
            raise


async def _run_to_verdict(
    line: AttemptClient, settings: WorkerSettings, order: WorkOrder, prefect: PrefectClient
) -> PrefectState[Any]:
    plan = Plan.from_json(order.plan)
    with closing(await make_run_context(line, settings, order, home_pool(plan))) as run_context:
        store = run_context.runs(line.stop)
        known = await in_storage_thread(known_outcomes, order.known, plan, order.only or [], store)
        schedule = Schedule(plan, order.inputs, run_context.schedule_facts, order.only, known)
        run_context.children = SegmentRuns(
            prefect, run_context, settings.child_silence_seconds, queue_of_this(), order.priority_cap
        )
        async with _graph_shown(prefect, run_context, schedule) as over:
            verdict = await Runner(run_context, schedule, line.stop).run_plan()
            over(verdict)
            return await _hand_in(line, run_context, verdict, prefect)


@asynccontextmanager
async def _graph_shown(
    prefect: PrefectClient, run_context: RunContext, schedule: Schedule
) -> AsyncIterator[Callable[[Verdict], None]]:
    """Show the run's graph once it has run for a moment, and its outcome while that is handed in."""
    key, is_new = f"run-{run_context.facts.id}", (flow_run.run_count or 1) <= 1
    card, is_over = ShownArtifact(prefect, flow_run_id(), "markdown", key, is_new), asyncio.Event()

    async def show_soon() -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(is_over.wait(), OUTLINE_SECONDS)
        if not is_over.is_set():
            await card.show(outline(run_context, schedule.plan), DESCRIPTION)

    async def show_verdict(verdict: Verdict) -> None:
        await card.show(outline(run_context, schedule.plan, verdict, schedule.states), DESCRIPTION)

    def over(verdict: Verdict) -> None:
        is_over.set()
        run_context.show_in_the_end(show_verdict(verdict))

    run_context.show_in_the_end(show_soon())
    try:
        yield over
    finally:
        is_over.set()
        await run_context.all_shown()


async def _hand_in(
    line: AttemptClient, run_context: RunContext, verdict: Verdict, prefect: PrefectClient
) -> PrefectState[Any]:
    if isinstance(verdict, Finished):
        return await _commit(line, run_context, verdict)
    match line.stop.reason:
        case "fenced":
            return cancelled_state("Fenced", "The attempt was cancelled, or another one has taken its place.")
        case "cancelled":
            return await _give_up(line, "cancelled", "The flow run was cancelled in Prefect.")
        case "draining" if await is_being_cancelled(prefect):
            return await _give_up(line, "cancelled", "The flow run was cancelled in Prefect.")
        case "draining":
            return await _give_up(line, "handed-over", "The worker was told to stop; another one goes on.")
        case "over" | None:
            pass
    await line.fail(run_problem(verdict.error), metrics=await _measured(run_context))
    return FailedState(message=f"{verdict.error.node_id or 'run'}: {verdict.error.message}")


async def _commit(line: AttemptClient, run_context: RunContext, finished: Finished) -> PrefectState[Any]:
    """Hand in the outputs, whole: the domain and partners know nothing of where a run keeps its values."""
    outputs: dict[str, Any] = await made_plain(dict(finished.outputs))
    if fault := result_fault(outputs) or artifacts_fault(len(run_context.left)):
        problem = RunProblem(code=InvalidOutput.code, message=fault)
        await line.fail(problem, metrics=await _measured(run_context))
        return FailedState(message=fault)
    outcome = await line.commit(outputs, run_context.left, await _measured(run_context))
    if outcome.state == "failed":
        return FailedState(message="Nothing of the outcome was taken. The run's problem says why.")
    return Completed(message="Committed.")


async def _measured(run_context: RunContext) -> dict[str, float]:
    """What the run's tries have measured, in earlier attempts and child runs too. Most runs measure nothing."""
    if not run_context.may_have_measured:
        return {}
    store, memory = run_context.runs(run_context.line.stop), run_context.ledger.memory
    return await in_storage_thread(measured.sums, store, memory)


async def _leave_to_right_release(line: AttemptClient, refusal: str) -> PrefectState[Any]:
    """Leave the attempt to a worker of the right release. Where none comes, the run is parked with this reason."""
    try:
        await line.fail(RunProblem(code=HANDLER_MISSING, message=refusal), "lost")
    except Fenced as fenced:
        return cancelled_state("Fenced", str(fenced))
    return FailedState(name=HANDLER_MISSING, message=refusal)


async def _give_up(line: AttemptClient, verdict: DomainVerdict, why: str) -> PrefectState[Any]:
    """Leave the run to the domain, which cancels it or has another attempt go on."""
    try:
        await line.fail(RunProblem(code="stopped", message=why), verdict)
    except Fenced as fenced:
        return cancelled_state("Fenced", str(fenced))
    return cancelled_state("Cancelled" if verdict == "cancelled" else HANDED_OVER, why)
