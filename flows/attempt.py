"""What a flow run of ours does: claims its attempt, works, hands in what came of it, or leaves it to another one."""

import asyncio
import json
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, closing, contextmanager, suppress
from typing import Any
from uuid import UUID

import httpx
from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.objects import State as PrefectState
from prefect.client.schemas.objects import StateType
from prefect.context import FlowRunContext, SyncClientContext
from prefect.exceptions import ObjectNotFound, PrefectHTTPStatusError
from prefect.runtime import flow_run
from prefect.states import AwaitingRetry, Completed
from prefect.states import Failed as FailedState

from domain.contracts.runs import RunProblem, RunStart, WorkOrder
from domain.contracts.runs import Verdict as DomainVerdict
from flows.children import (
    HANDED_OVER,
    HANDLER_MISSING,
    ChildCancelled,
    ChildLost,
    SegmentRuns,
    outcome_from_json,
    outcome_json,
    read_items,
    segment_name,
    showing_life,
)
from flows.compiler import Failed, Finished, Outcome, Plan, RunError, Schedule
from flows.engine import Engine, Place
from flows.errors import InvalidOutput
from flows.items import Counts, Share, do_items
from flows.ledger import Ledger
from flows.outages import PatientStore, outage_of
from flows.outline import show_outline
from flows.readiness import missing_handlers
from flows.reporting import DomainUnreachable, Fenced, HeldBack, Line, Undelivered, domain_http
from flows.runner import Runner, Verdict, run_problem
from flows.secrets import strike_from_logs
from flows.segments import home_pool
from flows.settings import WorkerSettings
from flows.stopping import Stop, listed, process_is_shared
from flows.storage import Zones
from flows.task_engine import tag_limits
from flows.values import plain, result_fault, to_json
from flows.work import Hands

OUTLINE_SECONDS = 3.0
WHY_SECONDS = 1.0  # for Prefect to say whether a signal was meant for the run or for its worker
CUT_SHORT = RunError("cancelled", "The run was cancelled.")  # as the schedule says it of a stretch


async def connect(stack: AsyncExitStack) -> tuple[WorkerSettings, Any]:
    settings = WorkerSettings()
    strike_from_logs()
    # Without this context every task would build an API client of its own, at 16 ms of CA loading each.
    stack.enter_context(SyncClientContext.get_or_create())
    return settings, await stack.enter_async_context(domain_http(settings))


async def run_attempt(line: Line, settings: WorkerSettings) -> PrefectState[Any]:
    """Claim the attempt, run the plan, hand in what came of it."""
    with _heeding(line.stop):
        try:
            order = await line.start(_claim(line, settings))
        except Fenced as fenced:
            return Completed(name="Superseded", message=f"Nothing was done: {fenced}")
        except HeldBack as held:
            return await _left_early(line.stop, AwaitingRetry(message=f"{held} Another worker takes it."))
        if refusal := _refusal(order):
            return await _refuse(line, refusal)
        return await _run_plan(line, settings, order)


async def _run_plan(line: Line, settings: WorkerSettings, order: WorkOrder) -> PrefectState[Any]:
    """The attempt shows that it lives before the first look into its memory: storage may be long in answering."""
    async with line.beating(order.heartbeat_seconds), get_client(sync_client=False) as prefect:
        try:
            return await _carry_out(line, settings, order, prefect)
        except Fenced as fenced:
            return _cancelled("Fenced", str(fenced))
        except ChildCancelled as cancelled:
            return await _give_up(line, "cancelled", str(cancelled))
        except ChildLost as lost:
            await line.fail(RunProblem(code=lost.code, message=str(lost)), "lost")
            return FailedState(message=str(lost))
        except DomainUnreachable:
            raise  # nobody hears why, either
        except Exception as error:
            away = outage_of(error)
            problem = RunProblem(code=away.code if away else "engine-error", message=str(away or type(error).__name__))
            with suppress(Fenced, Undelivered):  # the domain finds out by itself, only later
                await line.fail(problem, "lost")
            raise


async def _carry_out(
    line: Line, settings: WorkerSettings, order: WorkOrder, prefect: PrefectClient
) -> PrefectState[Any]:
    plan = Plan.from_json(order.plan)
    with closing(await _engine(line, settings, order, home_pool(plan))) as engine:
        schedule = Schedule(plan, order.inputs, engine.schedule_facts, order.only)
        engine.children = SegmentRuns(prefect, engine, settings.child_silence_seconds, _queue())
        async with _outlined(engine, schedule, settings) as outline:
            verdict = await Runner(engine, schedule, line.stop).run()
            outline(verdict)
            return await _hand_in(line, engine, verdict, prefect)


@asynccontextmanager
async def _outlined(
    engine: Engine, schedule: Schedule, settings: WorkerSettings
) -> AsyncIterator[Callable[[Verdict], None]]:
    """Show the run's graph once it has run for a moment, and its outcome while that is handed in."""
    domain_url = str(settings.domain_url)

    async def soon() -> None:
        await asyncio.sleep(OUTLINE_SECONDS)
        await show_outline(engine, schedule, None, domain_url)

    async def at_last(verdict: Verdict) -> None:
        showing[0].cancel()
        await asyncio.gather(showing[0], return_exceptions=True)
        await show_outline(engine, schedule, verdict, domain_url)

    showing = [asyncio.create_task(soon())]
    try:
        yield lambda verdict: showing.append(asyncio.create_task(at_last(verdict)))
    finally:
        showing[0].cancel()
        await asyncio.gather(*showing, return_exceptions=True)


async def _hand_in(line: Line, engine: Engine, verdict: Verdict, prefect: PrefectClient) -> PrefectState[Any]:
    if isinstance(verdict, Finished):
        return await _commit(line, engine, verdict)
    match line.stop.reason:
        case "fenced":
            return _cancelled("Fenced", "The attempt was cancelled, or another one has taken its place.")
        case "cancelled":
            return await _give_up(line, "cancelled", "The flow run was cancelled in Prefect.")
        case "draining" if await _is_being_cancelled(prefect):
            return await _give_up(line, "cancelled", "The flow run was cancelled in Prefect.")
        case "draining":
            return await _give_up(line, "handed-over", "The worker was told to stop; another one goes on.")
        case "over" | None:
            pass
    await line.fail(run_problem(verdict.error))
    return FailedState(message=f"{verdict.error.node_id or 'run'}: {verdict.error.message}")


async def _commit(line: Line, engine: Engine, finished: Finished) -> PrefectState[Any]:
    """Hand in the outputs, whole: the domain and partners know nothing of where a run keeps its values."""
    outputs: dict[str, Any] = await asyncio.to_thread(plain, dict(finished.outputs))
    if fault := result_fault(outputs):
        await line.fail(RunProblem(code=InvalidOutput.code, message=fault))
        return FailedState(message=fault)
    outcome = await line.commit(outputs, engine.left)
    if outcome.state == "failed":
        return FailedState(message="Nothing of the outcome was taken. The run's problem says why.")
    return Completed(message="Committed.")


def _refusal(order: WorkOrder) -> str | None:
    """Why this worker cannot do what the order says, or None. Plans are pinned; images come and go."""
    plans = [Plan.from_json(plan) for plan in (order.plan, *order.plans.values())]
    if missing := missing_handlers(plans):
        return (
            f"This worker's image has no handler {', '.join(missing)}, which workflow {plans[0].workflow_id} "
            f"version {plans[0].version} needs. Run workers of the release that published it."
        )
    return None


async def _refuse(line: Line, refusal: str) -> PrefectState[Any]:
    """Leave the attempt to a worker of the right release. Where none comes, the run is parked with this reason."""
    try:
        await line.fail(RunProblem(code=HANDLER_MISSING, message=refusal), "lost")
    except Fenced as fenced:
        return _cancelled("Fenced", str(fenced))
    return FailedState(name=HANDLER_MISSING, message=refusal)


async def _give_up(line: Line, verdict: DomainVerdict, why: str) -> PrefectState[Any]:
    """Leave the run to the domain, which cancels it or has another attempt go on."""
    try:
        await line.fail(RunProblem(code="stopped", message=why), verdict)
    except Fenced as fenced:
        return _cancelled("Fenced", str(fenced))
    return _cancelled("Cancelled" if verdict == "cancelled" else HANDED_OVER, why)


def _cancelled(name: str, message: str) -> PrefectState[Any]:
    return PrefectState(type=StateType.CANCELLED, name=name, message=message)


async def _is_being_cancelled(prefect: PrefectClient) -> bool:
    """Whether the signal that reached us was meant for this run, not for its worker."""
    try:
        state = (await prefect.read_flow_run(flow_run_id())).state
    except (httpx.HTTPError, PrefectHTTPStatusError, ObjectNotFound):
        return False
    return state is not None and state.type in {StateType.CANCELLING, StateType.CANCELLED}


async def run_segment(line: Line, settings: WorkerSettings, number: int) -> PrefectState[Any]:
    """Do what the parent ordered, and leave the outcome where the parent looks for it."""
    with _heeding(line.stop):
        try:
            order = await line.start(_claim(line, settings, segment=number))
        except Fenced as fenced:
            return Completed(name="Superseded", message=f"Nothing was done: {fenced}")
        except HeldBack:
            return await _left_early(line.stop, _handed_over())
        if refusal := _refusal(order):
            return FailedState(name=HANDLER_MISSING, message=refusal)
        return await _run_order(line, settings, order, number)


async def _run_order(line: Line, settings: WorkerSettings, order: WorkOrder, number: int) -> PrefectState[Any]:
    async with line.beating(order.heartbeat_seconds):
        with closing(await _engine(line, settings, order, "")) as engine:
            place = segment_name(order.facts, number)
            outcome, verdict = await _ordered(engine, order, place)
            with suppress(Undelivered):  # what it did is in storage; its parent tells the domain how it ended
                await line.flush()
            if line.stop.reason not in {None, "over"}:
                return await _left_early(line.stop, _handed_over())
            outcome["artifacts"] = [artifact.model_dump(mode="json") for artifact in engine.artifacts]
            await asyncio.to_thread(
                engine.runs(engine.line.stop).write_bytes, f"{place}/outcome.json", to_json(outcome).encode()
            )
            return _segment_end(verdict)


async def _ordered(engine: Engine, order: WorkOrder, place: str) -> tuple[dict[str, Any], Verdict]:
    """Do what the parent's order says."""
    told = json.loads(await asyncio.to_thread(engine.runs(engine.line.stop).read_bytes, f"{place}/order.json"))
    plan = engine.plans[told["workflow"]] if told["workflow"] else Plan.from_json(order.plan)
    inputs = told["inputs"] if told["workflow"] else order.inputs
    where = Place(told["path"], told["workflow"], inputs)
    if "node" in told:
        return await _do_share(engine, plan, where, told, place)
    return await _do_stretch(engine, plan, where, told, place)


def _segment_end(verdict: Verdict) -> PrefectState[Any]:
    """How a child run ends whose outcome is left. One that its run stopped reads the same, however it heard."""
    if not isinstance(verdict, Failed):
        return Completed(message="Done.")
    if verdict.error.code == CUT_SHORT.code:
        return _cancelled("Cancelled", "Its run needs no more of it.")
    return FailedState(message=f"{verdict.error.node_id or 'segment'}: {verdict.error.message}")


def _handed_over() -> PrefectState[Any]:
    return _cancelled(HANDED_OVER, "The worker was told to stop; another one goes on.")


async def _left_early(stop: Stop, drained: PrefectState[Any]) -> PrefectState[Any]:
    """How a flow run ends that was told to stop and tells the domain nothing: a child, or what had not begun."""
    if stop.reason == "draining":
        async with get_client(sync_client=False) as prefect:
            if not await _is_being_cancelled(prefect):
                return drained
    return _cancelled("Fenced" if stop.reason == "fenced" else "Cancelled", "The run was told to stop.")


async def _do_stretch(
    engine: Engine, plan: Plan, where: Place, told: dict[str, Any], place: str
) -> tuple[dict[str, Any], Verdict]:
    values = engine.ledger.values
    known = {name: outcome_from_json(ended, values) for name, ended in told["known"].items()}
    engine.pool = plan.nodes[told["nodes"][0]].pool or home_pool(plan)
    schedule = Schedule(plan, where.inputs, engine.schedule_facts, told["nodes"], known)
    async with showing_life(engine.zones.runs, place, lambda: (0, 0), engine.line.stop):
        verdict = await Runner(engine, schedule, engine.line.stop, where).run()
    ended = {name: schedule.outcomes[name] for name in told["nodes"] if name in schedule.outcomes}
    return {"nodes": {name: outcome_json(outcome, values) for name, outcome in ended.items()}}, verdict


async def _do_share(
    engine: Engine, plan: Plan, where: Place, told: dict[str, Any], place: str
) -> tuple[dict[str, Any], Verdict]:
    node, values = plan.nodes[told["node"]], engine.ledger.values
    engine.pool, engine.task_runs_cap = node.pool or engine.pool, told["task_runs_cap"]
    items = await asyncio.to_thread(lambda: list(read_items(engine.runs(engine.line.stop), place)))
    share, counts = Share(node, where.of(node.id), items, told["at_once"]), Counts(None, node.id, len(items))
    ended: dict[int, Outcome] = {}

    def tell(index: int, outcome: Outcome) -> None:
        counts.add(outcome)
        ended[index] = outcome

    stop, loop = engine.line.stop, asyncio.get_running_loop()
    hands = Hands(engine, stop)
    stop.on_set(lambda: loop.call_soon_threadsafe(hands.cut_waits))
    async with showing_life(engine.zones.runs, place, lambda: (counts.done, counts.failed), stop):
        await do_items(hands, share, tell, visible=True)
    verdict = Finished({}) if len(ended) == len(items) else Failed(CUT_SHORT)
    return {"items": {index: outcome_json(outcome, values) for index, outcome in ended.items()}}, verdict


async def _engine(line: Line, settings: WorkerSettings, order: WorkOrder, pool: str) -> Engine:
    zones = await _zones(settings)
    runs = PatientStore(zones.runs, line.stop.event, settings.outage_seconds)
    ledger = Ledger(runs, f"{order.facts.id}/m{order.memory}", f"{flow_run_id()}-{flow_run.run_count or 1}")
    async with get_client(sync_client=False) as prefect:
        await asyncio.gather(asyncio.to_thread(ledger.recall), tag_limits.learn(prefect))
    return Engine(
        facts=order.facts,
        pool=pool,
        zones=zones,
        line=line,
        ledger=ledger,
        plans={name: Plan.from_json(plan) for name, plan in order.plans.items()},
        task_runs_cap=settings.fan_out_task_runs,
        shards_cap=settings.shards,
        outage_seconds=settings.outage_seconds,
    )


@contextmanager
def _heeding(stop: Stop) -> Iterator[None]:
    """Hear from anybody that we should stop, while the block runs."""
    with listed(flow_run_id(), stop), _heeding_sigterm(stop):
        yield


@contextmanager
def _heeding_sigterm(stop: Stop) -> Iterator[None]:
    """Take SIGTERM as a request to leave soon. Prefect's own answer, an exception anywhere, would lose checkpoints.

    It comes for a cancellation in Prefect's UI too, which leaves handlers less time than a worker that drains.
    """
    if process_is_shared() or threading.current_thread() is not threading.main_thread():
        yield
        return
    before, loop = signal.getsignal(signal.SIGTERM), asyncio.get_running_loop()
    asking: set[asyncio.Task[None]] = set()
    loop.add_signal_handler(signal.SIGTERM, lambda: asking.add(loop.create_task(_leave(stop))))
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
        for task in asking:
            task.cancel()
        signal.signal(signal.SIGTERM, before)


async def _leave(stop: Stop) -> None:
    cancelled = False
    with suppress(TimeoutError):
        async with asyncio.timeout(WHY_SECONDS), get_client(sync_client=False) as prefect:
            cancelled = await _is_being_cancelled(prefect)
    stop.set("cancelled" if cancelled else "draining")


def _queue() -> str | None:
    """The queue that this run came by: its child runs take the same."""
    context = FlowRunContext.get()
    return context.flow_run.work_queue_name if context and context.flow_run else None


async def _zones(settings: WorkerSettings) -> Zones:
    """The storage zones: what the environment says, as in the embedded stack, else what a Prefect block names."""
    if settings.names_storage:
        return settings.zones()
    if settings.storage_block is None:
        raise ValueError(
            "Set CAIRN_STORAGE_ROOT to a folder, CAIRN_STORAGE_ACCOUNT_URL to a storage account, "
            "or CAIRN_STORAGE_BLOCK to a block, as in local-zones/cairn."
        )
    from blocks.storage import load_zones

    return await load_zones(settings.storage_block)


def _claim(line: Line, settings: WorkerSettings, segment: int | None = None) -> RunStart:
    """What this flow run tells the domain of itself."""
    context = FlowRunContext.get()
    pool = context.flow_run.work_pool_name if context and context.flow_run else None
    return RunStart(
        attempt_token=line.token,
        flow_run_id=flow_run_id(),
        run_count=flow_run.run_count or 1,
        segment=segment,
        pool=pool,
        image=settings.image,
        job_template=settings.job_template,
    )


def flow_run_id() -> UUID:
    """This flow run's id."""
    return UUID(str(flow_run.id))
