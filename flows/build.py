"""Plan to Prefect flow: name, version and typed signature for operators; the body that domain runs go through."""

import inspect
import json
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Any, Literal, cast
from uuid import UUID

from prefect import Flow
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import State as PrefectState
from prefect.context import FlowRunContext, SyncClientContext
from prefect.runtime import flow_run
from prefect.states import Completed
from prefect.states import Failed as FailedState
from prefect.task_runners import TaskRunner, ThreadPoolTaskRunner

from domain.contracts.runs import RunProblem, RunRegister, RunStart, WorkOrder
from flows.children import ChildLost, SegmentRuns, outcome_from_json, outcome_json, segment_name, showing_life
from flows.compiler import Failed, Finished, Plan, Schedule
from flows.reporting import Fenced, Line, domain_http, register
from flows.runner import Runner, Verdict, run_problem
from flows.segments import home_pool
from flows.settings import WorkerSettings
from flows.storage import Zones

THREADS = 8
PYTHON_TYPES: dict[str, Any] = {
    "string": str,
    "uri": str,
    "datetime": str,
    "date": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "array": list[Any],
    "bbox": list[float],
    "object": dict[str, Any],
}
OURS = ("run_id", "attempt_token")
SCHEDULE_FACTS = ("id", "request_id", "asset_id", "version_ordinal")


def build_flow(plan: Plan) -> Flow[..., Any]:
    """The flow of one workflow. Its form in Prefect's UI comes from the workflow's inputs."""

    async def run(run_id: str | None = None, attempt_token: str | None = None, **inputs: Any) -> PrefectState[Any]:
        async with AsyncExitStack() as stack:
            settings, http = await _connect(stack)
            if run_id is None or attempt_token is None:
                given = {name: value for name, value in inputs.items() if value is not None}
                message = RunRegister(workflow_id=plan.workflow_id, inputs=given, flow_run_id=_flow_run_id())
                registered = await register(http, message)
                run_id, attempt_token = str(registered.run_id), registered.attempt_token
            line = Line(http, UUID(run_id), attempt_token)
            return await _run_parent(line, settings)

    run.__name__ = run.__qualname__ = plan.workflow_id
    signature = _signature(plan)
    run.__signature__ = signature  # type: ignore[attr-defined]
    run.__annotations__ = {name: parameter.annotation for name, parameter in signature.parameters.items()}
    run.__doc__ = _docstring(plan)
    return _flow(run, plan.workflow_id, str(plan.version), plan.description or plan.name)


def build_segment_flow() -> Flow[..., Any]:
    """The flow that executes a stretch of any plan on the pool it is deployed to."""

    async def segment(run_id: str, attempt_token: str, segment: int) -> PrefectState[Any]:
        async with AsyncExitStack() as stack:
            settings, http = await _connect(stack)
            return await _run_segment(Line(http, UUID(run_id), attempt_token), settings, segment)

    return _flow(segment, "segment", None, "A stretch of a run on another pool. Started by its run, never by hand.")


def _flow(
    body: Callable[..., Coroutine[Any, Any, Any]], name: str, version: str | None, description: str
) -> Flow[..., Any]:
    return Flow(
        fn=body,
        name=name,
        version=version,
        description=description,
        validate_parameters=False,  # the domain checks inputs against the workflow's own schema
        task_runner=cast("TaskRunner[Any]", ThreadPoolTaskRunner(max_workers=THREADS)),
        persist_result=False,
        log_prints=False,
    )


def _signature(plan: Plan) -> inspect.Signature:
    """Every input as an optional keyword: domain runs bring none of them."""
    kinds = {name: (_python_type(spec), spec.default) for name, spec in plan.inputs.items()}
    kinds |= dict.fromkeys(OURS, (str, None))
    return inspect.Signature(
        [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind | None)
            for name, (kind, default) in kinds.items()
        ]
    )


def _docstring(plan: Plan) -> str:
    """Where Prefect takes the descriptions of a form's fields from."""
    fields = {name: spec.description or name for name, spec in plan.inputs.items()}
    fields |= dict.fromkeys(OURS, "Set by the platform; leave empty.")
    lines = [f"    {name}: {' '.join(text.split())}" for name, text in fields.items()]
    return "\n".join([plan.description or plan.name, "", "Args:", *lines])


def _python_type(spec: Any) -> Any:
    return Literal[tuple(spec.enum)] if spec.enum else PYTHON_TYPES[spec.type]


async def _connect(stack: AsyncExitStack) -> tuple[WorkerSettings, Any]:
    settings = WorkerSettings()
    # Without this context every task would build an API client of its own, at 16 ms of CA loading each.
    stack.enter_context(SyncClientContext.get_or_create())
    return settings, await stack.enter_async_context(domain_http(settings))


async def _run_parent(line: Line, settings: WorkerSettings) -> PrefectState[Any]:
    """Claim the attempt, run the plan, hand in what came of it."""
    try:
        order = await line.start(_claim(line))
    except Fenced as fenced:
        return Completed(name="Superseded", message=f"Nothing was done: {fenced}")
    plan = Plan.from_json(order.plan)
    zones = await _zones(settings)
    async with line.beating(order.heartbeat_seconds), get_client(sync_client=False) as prefect:
        runner = Runner(_schedule(plan, order), order.facts, home_pool(plan), zones, line)
        runner.children = SegmentRuns(
            prefect, zones.runs, line, order.facts, runner.artifacts, settings.child_silence_seconds
        )
        try:
            return await _hand_in(line, runner, await runner.run())
        except Fenced as fenced:
            return FailedState(name="Fenced", message=str(fenced))
        except ChildLost as lost:
            problem = RunProblem(code="child-run-lost", message=str(lost))
            await line.fail(problem, "lost")
            return FailedState(message=str(lost))


async def _hand_in(line: Line, runner: Runner, verdict: Verdict) -> PrefectState[Any]:
    if isinstance(verdict, Finished):
        await line.commit(dict(verdict.outputs), runner.artifacts)
        return Completed(message="Committed.")
    await line.fail(run_problem(verdict.error))
    return FailedState(message=f"{verdict.error.node_id or 'run'}: {verdict.error.message}")


async def _run_segment(line: Line, settings: WorkerSettings, number: int) -> PrefectState[Any]:
    """Run the stretch that the parent ordered, and leave its outcome where the parent looks for it."""
    try:
        order = await line.start(_claim(line, segment=number))
    except Fenced as fenced:
        return Completed(name="Superseded", message=f"Nothing was done: {fenced}")
    plan = Plan.from_json(order.plan)
    zones = await _zones(settings)
    place = segment_name(order.facts, number)
    told = json.loads(zones.runs.read_bytes(f"{place}/order.json"))
    known = {name: outcome_from_json(ended) for name, ended in told["known"].items()}
    schedule = _schedule(plan, order, only=told["nodes"], known=known)
    pool = plan.nodes[told["nodes"][0]].pool or home_pool(plan)
    async with line.beating(order.heartbeat_seconds), showing_life(zones.runs, place, order.heartbeat_seconds):
        runner = Runner(schedule, order.facts, pool, zones, line)
        verdict = await runner.run()
        await line.flush()
    ended = {name: outcome_json(schedule.outcomes[name]) for name in told["nodes"] if name in schedule.outcomes}
    artifacts = [artifact.model_dump(mode="json") for artifact in runner.artifacts]
    zones.runs.write_bytes(f"{place}/outcome.json", json.dumps({"nodes": ended, "artifacts": artifacts}).encode())
    if isinstance(verdict, Failed):
        return FailedState(message=f"{verdict.error.node_id or 'segment'}: {verdict.error.message}")
    return Completed(message="The stretch is done.")


def _schedule(plan: Plan, order: WorkOrder, **part: Any) -> Schedule:
    facts = order.facts.model_dump()
    return Schedule(plan, order.inputs, {name: facts[name] for name in SCHEDULE_FACTS}, **part)


async def _zones(settings: WorkerSettings) -> Zones:
    """The storage zones: a folder in the embedded stack, else what a Prefect block names."""
    if settings.storage_root is not None:
        return Zones.local(settings.storage_root)
    if settings.storage_block is None:
        raise ValueError(
            "Set CAIRN_STORAGE_ROOT to a folder, or CAIRN_STORAGE_BLOCK to a block, as in local-zones/cairn."
        )
    from blocks.storage import load_zones

    return await load_zones(settings.storage_block)


def _claim(line: Line, segment: int | None = None) -> RunStart:
    """What this flow run tells the domain of itself."""
    context = FlowRunContext.get()
    pool = context.flow_run.work_pool_name if context and context.flow_run else None
    return RunStart(
        attempt_token=line.token,
        flow_run_id=_flow_run_id(),
        run_count=flow_run.run_count or 1,
        segment=segment,
        pool=pool,
    )


def _flow_run_id() -> UUID:
    return UUID(str(flow_run.id))
