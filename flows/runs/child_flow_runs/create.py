"""Makes a child run in Prefect, inside the flow run that orders it; its name says what, of which asset, for whom.

Waits for nobody but Prefect, and not for what becomes of the child.
"""

from collections.abc import Sequence

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import FlowRun
from prefect.context import FlowRunContext

from domain.contracts.runs import RunFacts
from domain.rules.texts import shown
from flows.pools import SEGMENT_FLOW
from flows.prefect_engine.flow_run import ask_until_answered, show_inner_run
from flows.runs.child_flow_runs.wants import ChildWants
from flows.runs.run_context import RunContext
from flows.runs.stopping import Stop

LONGEST_NAME = 200
LONGEST_ASSET = 80
LONGEST_WHAT = 80


async def create_child_run(
    prefect: PrefectClient,
    run_context: RunContext,
    wants: ChildWants,
    came_by: tuple[str | None, str | None],
    number: int,
    what: str,
    stop: Stop,
    tags: Sequence[str] = (),
) -> FlowRun:
    """Make the run's child run of this number. Asked twice, it is the same one.

    `came_by` is the queue that the run came by, and the highest priority that its platform may ask for.
    """
    line, facts, pool = run_context.line, run_context.facts, wants.pool
    around = FlowRunContext.get()
    workflow = around.flow.name if around and around.flow else None
    name = child_run_name(workflow or "run", pool, what, facts)

    async def create() -> FlowRun:
        deployment = await prefect.read_deployment_by_name(f"{SEGMENT_FLOW}/{pool}")
        shown_by = await show_inner_run(prefect, what[:LONGEST_WHAT], f"{facts.attempt}-{number}") if around else None
        return await prefect.create_flow_run_from_deployment(
            deployment.id,
            parameters={"run_id": str(line.run_id), "attempt_token": line.token, "segment": number},
            name=name,
            tags=list(tags) or None,
            work_queue_name=wants.queue(*came_by),
            job_variables=await wants.job_variables(prefect),
            idempotency_key=f"{SEGMENT_FLOW}/{pool}:{facts.id}:{facts.attempt}:{number}",
            parent_task_run_id=shown_by,
        )

    return await ask_until_answered(create, f"the child run for {what}", stop)


def child_run_name(workflow: str, pool: str, what: str, facts: RunFacts) -> str:
    """What operators recognise a child run by. Of a partner's words only what can act nowhere, and not much of it."""
    asset = "/".join(shown(value) for _, value in sorted(facts.refs.items()))[:LONGEST_ASSET]
    label = shown(facts.version_label or "")
    whose = f"of {shown(facts.platform_id)}" if facts.platform_id else ""
    subject = " ".join(part for part in (asset, label, whose) if part) or facts.id[:8]
    return f"{workflow} · {pool} {what[:LONGEST_WHAT]} · {subject} #{facts.attempt}"[:LONGEST_NAME]
