"""What a flow run is told when it starts: its work, all of it pinned."""

from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession

from domain.contracts.runs import RunFacts, WorkOrder
from domain.errors import NotFound
from domain.models import Attempt, Platform, Request, Run
from domain.repositories.runs import Runs
from domain.rules import scratch
from flows.compiler import Plan


async def work_order(
    session: AsyncSession, run: Run, request: Request, attempt: Attempt, heartbeat_seconds: float
) -> WorkOrder:
    """Everything that the attempt needs."""
    definition = await Runs(session).definition(run.workflow_id, run.version)
    if definition is None:
        raise _unpublished(run.workflow_id, run.version)
    return WorkOrder(
        plan=definition.plan,
        plans=await _pinned_plans(session, run),
        inputs=run.inputs,
        only=request.asked_nodes,
        known=request.known_outputs,
        facts=run_facts(run, request, attempt),
        memory=run.memory,
        heartbeat_seconds=heartbeat_seconds,
        attempt_token=attempt.token,
        priority_cap=await _priority_cap(session, request),
    )


async def _priority_cap(session: AsyncSession, request: Request) -> str | None:
    """What bounds the priorities of its nodes; nothing where no platform asked."""
    platform = await session.get(Platform, request.platform_id) if request.platform_id else None
    return platform.priority_cap if platform else None


async def needed_handlers(session: AsyncSession, run: Run) -> list[str]:
    """The handlers of the run's plan and of its sub-workflows': a worker that takes it needs all of them."""
    definition = await Runs(session).definition(run.workflow_id, run.version)
    plans = [*([definition.plan] if definition else []), *(await _pinned_plans(session, run)).values()]
    return sorted(frozenset[str]().union(*(Plan.from_json(plan).handlers() for plan in plans)))


def run_facts(run: Run, request: Request, attempt: Attempt) -> RunFacts:
    """What the attempt is about. Where its products lie follows from it, for the worker and at the commit."""
    submitted = request.submitted | _scratch_names(run, request)
    return RunFacts(
        id=str(run.run_id),
        request_id=str(request.request_id),
        asset_id=request.asset_id,
        version_ordinal=request.ordinal,
        revision=request.revision,
        platform_id=request.platform_id,
        refs=submitted.get("refs", {}),
        version_label=submitted.get("version_label"),
        received_at=request.created_at,
        attempt=attempt.number,
    )


def page_url(public_url: str, facts: RunFacts) -> str:
    """The console's page of what the run works on: its asset's version where it has one, else where work is found."""
    place = f"versions/{facts.asset_id}/{facts.version_ordinal}" if facts.asset_id else ""
    return f"{public_url.rstrip('/')}/console/{place}"


def _scratch_names(run: Run, request: Request) -> dict[str, Any]:
    """What nobody submitted is called as its scratch asset is."""
    if not request.is_internal or request.asset_id is None:
        return {}
    return {"refs": scratch.refs(run.workflow_id, request.request_id), "version_label": scratch.LABEL}


async def _pinned_plans(session: AsyncSession, run: Run) -> dict[str, dict[str, Any]]:
    plans = await Runs(session).pinned_plans(run.pins)
    if missing := sorted(run.pins.keys() - plans.keys()):
        raise _unpublished(missing[0], run.pins[missing[0]]["version"])
    return plans


def _unpublished(workflow_id: str, version: str) -> NotFound:
    return NotFound(f"Workflow {workflow_id} version {version} is not published.")
