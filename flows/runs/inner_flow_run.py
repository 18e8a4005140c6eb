"""A sub-workflow as a flow run of its own inside its caller's, so that operators see its nodes together."""

from typing import TYPE_CHECKING, Any

from prefect.client.schemas.objects import State as PrefectState
from prefect.client.schemas.objects import StateType

from flows.compiler import Failed, Finished
from flows.handlers.errors import Broken
from flows.prefect_engine.engines import engine
from flows.runs.child_flow_runs.start import HANDED_OVER
from flows.runs.stop_signals import flow_run_id

if TYPE_CHECKING:
    from flows.runs.runner import Runner


async def run_as_flow_run(inner: "Runner", name: str) -> Finished | Failed:
    """Run the sub-workflow's plan in a flow run of this name, which ends as the plan does."""
    ended: list[Finished | Failed] = []

    async def body() -> "PrefectState[Any]":
        inner.run_context.line.note_flow_run(flow_run_id(), [inner.place.top])
        verdict = await inner.run_plan()
        ended.append(verdict)
        if isinstance(verdict, Finished):
            return PrefectState(type=StateType.COMPLETED)
        if inner.stop.reason == "draining":
            return PrefectState(type=StateType.CANCELLED, name=HANDED_OVER, message=verdict.error.message)
        kind = StateType.FAILED if inner.stop.reason in {None, "over"} else StateType.CANCELLED
        return PrefectState(type=kind, message=verdict.error.message)

    plan = inner.schedule.plan
    await engine().run_inner(body, plan.workflow_id, str(plan.version), name)
    if not ended:
        raise Broken(f"Prefect did not let workflow {plan.workflow_id} run.")
    return ended[0]
