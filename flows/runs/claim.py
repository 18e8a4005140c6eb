"""What every flow run of ours begins with: its settings, its claim on the attempt, and its run context."""

import sys
from contextlib import AsyncExitStack
from typing import Any

from prefect.client.orchestration import get_client
from prefect.context import FlowRunContext, SyncClientContext
from prefect.runtime import flow_run

from domain.contracts.runs import RunStart, WorkOrder
from domain.rules.places import memory_folder
from domain.shared.together import together
from flows.compiler import Plan
from flows.handlers.availability import missing_handlers
from flows.log_redaction import strike_from_logs
from flows.memory.ledger import Ledger
from flows.prefect_engine.engines import use_engine
from flows.prefect_engine.flow_run import ask_until_answered
from flows.prefect_engine.patient_client import be_patient_as_a_run
from flows.prefect_engine.run_logs import send_our_lines
from flows.prefect_engine.tag_limits import tag_limits
from flows.prefect_engine.tag_slots import slots
from flows.runs.domain_client import AttemptClient, domain_http
from flows.runs.outages import PatientStore
from flows.runs.run_context import RunContext
from flows.runs.stop_signals import flow_run_id
from flows.runs.stopping import Stop
from flows.settings import WorkerSettings
from flows.storage import Zones
from flows.storage.threads import in_storage_thread
from flows.tries.concurrency import Places, shared_room


async def connect_to_domain(stack: AsyncExitStack) -> tuple[WorkerSettings, Any]:
    settings = WorkerSettings()
    send_our_lines()
    strike_from_logs()
    be_patient_as_a_run()
    use_engine(settings.engine)
    # Without this context every task would build an API client of its own, at 16 ms of CA loading each.
    stack.enter_context(SyncClientContext.get_or_create())
    return settings, await stack.enter_async_context(domain_http(settings))


def claim_message(line: AttemptClient, settings: WorkerSettings, segment: int | None = None) -> RunStart:
    """Make the message by which this flow run claims its attempt."""
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


def queue_of_this() -> str | None:
    """The queue that this run came by: its child runs take the same."""
    context = FlowRunContext.get()
    return context.flow_run.work_queue_name if context and context.flow_run else None


def refusal_of(order: WorkOrder) -> str | None:
    """Why this worker cannot do what the order says, or None. Plans are pinned; images come and go."""
    plans = [Plan.from_json(plan) for plan in (order.plan, *order.plans.values())]
    if missing := missing_handlers(plans):
        return (
            f"This worker's image has no handler {', '.join(missing)}, which workflow {plans[0].workflow_id} "
            f"version {plans[0].version} needs. Run workers of the release that published it."
        )
    return None


async def make_run_context(line: AttemptClient, settings: WorkerSettings, order: WorkOrder, pool: str) -> RunContext:
    zones = await _zones(settings, line.stop)
    runs = PatientStore(zones.runs, line.stop.event, settings.outage_seconds)
    ledger = Ledger(runs, memory_folder(order.facts.id, order.memory), f"{flow_run_id()}-{flow_run.run_count or 1}")
    async with get_client(sync_client=False) as prefect:
        await together(in_storage_thread(ledger.read_nodes), tag_limits.learn(prefect))
    return RunContext(
        facts=order.facts,
        pool=pool,
        zones=zones,
        line=line,
        ledger=ledger,
        plans={name: Plan.from_json(plan) for name, plan in order.plans.items()},
        task_runs_cap=settings.fan_out_task_runs if settings.engine == "fast" else sys.maxsize,  # each item is mapped
        page_url=order.page_url,
        shards_cap=settings.shards,
        outage_seconds=settings.outage_seconds,
        silence_seconds=settings.child_silence_seconds,
        places=Places(shared_room(settings.tries_shared), settings.tries_per_run),
        slots=slots,
    )


async def _zones(settings: WorkerSettings, stop: Stop) -> Zones:
    """The storage zones: what the environment says, as in the embedded stack, else what a Prefect block names."""
    if settings.names_storage:
        return settings.zones()
    if settings.storage_block is None:
        raise ValueError(
            "Set CAIRN_STORAGE_ROOT to a folder, CAIRN_STORAGE_ACCOUNT_URL to a storage account, "
            "or CAIRN_STORAGE_BLOCK to a block, as in local-zones/cairn."
        )
    from blocks.storage import load_zones

    block = settings.storage_block
    return await ask_until_answered(lambda: load_zones(block), "where the zones are", stop)
