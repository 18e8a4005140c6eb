"""What a child run does: its stretch of the plan or its share of a fan-out's items, as its parent ordered."""

import asyncio
from contextlib import closing, suppress
from typing import Any

from prefect.client.schemas.objects import State as PrefectState
from prefect.states import Completed
from prefect.states import Failed as FailedState

from domain.contracts.runs import WorkOrder
from flows.compiler import Failed, Finished, NodeOutcome, Plan, RunError, Schedule
from flows.compiler.partition import home_pool
from flows.runs.child_flow_runs.errors import HANDLER_MISSING
from flows.runs.child_flow_runs.liveness import showing_life, tell_hand_over
from flows.runs.child_flow_runs.protocol import (
    is_over,
    outcome_from_json,
    outcomes_json,
    put_outcome,
    read_order,
    segment_name,
    who_takes,
)
from flows.runs.child_flow_runs.start import HANDED_OVER
from flows.runs.claim import claim_message, make_run_context, refusal_of
from flows.runs.domain_client import AttemptClient, Fenced, HeldBack, Undelivered
from flows.runs.fan_out import FanOutCounts, Share
from flows.runs.node_executor import NodeExecutor
from flows.runs.run_context import PlanPath, RunContext
from flows.runs.runner import Runner, Verdict
from flows.runs.shared_items import SharedItems
from flows.runs.stop_signals import cancelled_state, flow_run_id, heeding_stop_signals, state_after_early_leave
from flows.runs.taking import Taker
from flows.settings import WorkerSettings
from flows.storage.threads import in_storage_thread

CUT_SHORT = RunError("cancelled", "The run was cancelled.")  # as the schedule says it of a stretch


async def run_segment(line: AttemptClient, settings: WorkerSettings, number: int) -> PrefectState[Any]:
    """Do what the parent ordered, and leave the outcome where the parent looks for it."""
    with heeding_stop_signals(line.stop):
        try:
            order = await line.claim(claim_message(line, settings, segment=number))
        except Fenced as fenced:
            return Completed(name="Superseded", message=f"Nothing was done: {fenced}")
        except HeldBack:
            return await state_after_early_leave(line.stop, _handed_over())
        if refusal := refusal_of(order):
            return FailedState(name=HANDLER_MISSING, message=refusal)
        return await _run_order(line, settings, order, number)


async def _run_order(line: AttemptClient, settings: WorkerSettings, order: WorkOrder, number: int) -> PrefectState[Any]:
    place = segment_name(order.facts, number)
    async with line.beating(order.heartbeat_seconds):  # before storage is asked, which may take its time
        with closing(await make_run_context(line, settings, order, "")) as run_context:
            outcome, verdict = await _carry_out(run_context, order, place)
            with suppress(Undelivered):  # what it did is in storage; its parent tells the domain how it ended
                await line.flush()
            if line.stop.reason not in {None, "over"}:
                ended = await state_after_early_leave(line.stop, _handed_over())
                if ended.name == HANDED_OVER:
                    await tell_hand_over(run_context.zones.runs, place)
                return ended
            outcome["artifacts"] = [artifact.model_dump(mode="json") for artifact in run_context.artifacts]
            outcome["retried"] = dict(run_context.retried)
            await in_storage_thread(put_outcome, run_context.runs(line.stop), place, outcome)
            await line.tell_parent()
            await run_context.all_shown()
            return _stepped_aside() if "stepped_aside" in outcome else _final_state(verdict)


async def _carry_out(run_context: RunContext, order: WorkOrder, place: str) -> tuple[dict[str, Any], Verdict]:
    """Do what the order in this place asks for; return how each part ended, as it is told, and how the whole did."""
    told = await in_storage_thread(read_order, run_context.runs(run_context.line.stop), place)
    plan = run_context.plans[told["workflow"]] if told["workflow"] else Plan.from_json(order.plan)
    asked = [told["node"]] if "node" in told else told["nodes"]
    top = told["path"].partition(".")[0].partition("__")[0]  # of the run's own plan
    run_context.line.note_flow_run(flow_run_id(), [top] if top else asked)
    where = PlanPath(told["path"], told["workflow"], told["inputs"] if told["workflow"] else order.inputs)
    do = _run_share if "node" in told else _run_stretch
    return await do(run_context, plan, where, told, place)


def _final_state(verdict: Verdict) -> PrefectState[Any]:
    """The final state of a child run that has left its outcome: the same for a stop, however it was heard."""
    if not isinstance(verdict, Failed):
        return Completed(message="Done.")
    if verdict.error.code == CUT_SHORT.code:
        return cancelled_state("Cancelled", "Its run needs no more of it.")
    return FailedState(message=f"{verdict.error.node_id or 'segment'}: {verdict.error.message}")


def _stepped_aside() -> PrefectState[Any]:
    return Completed(name="SteppedAside", message="Another child run of this worker does items of this fan-out.")


def _handed_over() -> PrefectState[Any]:
    return cancelled_state(HANDED_OVER, "The worker was told to stop; another one goes on.")


async def _run_stretch(
    run_context: RunContext, plan: Plan, where: PlanPath, told: dict[str, Any], place: str
) -> tuple[dict[str, Any], Verdict]:
    values = run_context.ledger.values
    known = {name: outcome_from_json(ended, values) for name, ended in told["known"].items()}
    run_context.pool = plan.nodes[told["nodes"][0]].pool or home_pool(plan)
    schedule = Schedule(plan, where.inputs, run_context.schedule_facts, told["nodes"], known)
    async with showing_life(run_context.zones.runs, place, lambda: (0, 0), run_context.line.stop):
        verdict = await Runner(run_context, schedule, run_context.line.stop, where).run_plan()
    ended = {name: schedule.outcomes[name] for name in told["nodes"] if name in schedule.outcomes}
    return {"nodes": await in_storage_thread(outcomes_json, ended, values)}, verdict


def _is_only_one(run_context: RunContext, shared: SharedItems, who: str) -> bool:
    """Whether no other child run of this worker takes items of the same fan-out."""
    store = run_context.runs(run_context.line.stop)
    return shared.is_only_of(run_context.worker_name, who, lambda other: is_over(store, run_context.facts, other))


async def _run_share(
    run_context: RunContext, plan: Plan, where: PlanPath, told: dict[str, Any], place: str
) -> tuple[dict[str, Any], Verdict]:
    node, values = plan.nodes[told["node"]], run_context.ledger.values
    run_context.pool, run_context.task_runs_cap = node.pool or run_context.pool, told["task_runs_cap"]
    store = run_context.runs(run_context.line.stop)
    shared, who = SharedItems(store, told["shared"]), who_takes(place, run_context.ledger.writer)
    if told["alone"] and not await in_storage_thread(_is_only_one, run_context, shared, who):
        return {"items": {}, "stepped_aside": True}, Finished({})
    share, counts = Share(node, where.of(node.id), (), told["at_once"], told["count"]), FanOutCounts(None, node.id, -1)
    ended: dict[int, NodeOutcome] = {}

    async def tell(index: int, outcome: NodeOutcome) -> None:
        counts.add(outcome)
        ended[index] = outcome

    stop, loop = run_context.line.stop, asyncio.get_running_loop()
    executor = NodeExecutor(run_context, stop)
    stop.on_set(lambda: loop.call_soon_threadsafe(executor.cut_waits))
    told_counts = lambda: (counts.done, counts.failed)  # noqa: E731
    async with showing_life(run_context.zones.runs, place, told_counts, stop, run_context.silence_seconds) as lease:
        run_context.lease, run_context.ledger.make_sure = lease, lease.make_sure
        await Taker(executor, shared, share, who, tell).take_until_none_is_left()
    verdict = Failed(CUT_SHORT) if stop.is_set() else Finished({})
    return {"items": await in_storage_thread(outcomes_json, ended, values)}, verdict
