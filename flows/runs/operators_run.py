"""What a flow run begins with that an operator started in Prefect: the domain opens a run for it.

Knows nothing of plans. It may be cancelled before the domain has answered, and ends then like one cancelled later.
"""

from collections.abc import Mapping
from typing import Any

import httpx
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import State as PrefectState
from prefect.client.schemas.objects import StateType
from prefect.states import AwaitingRetry
from prefect.states import Failed as FailedState

from domain.contracts.runs import RunRegister
from flows.handlers.errors import Stopped
from flows.prefect_engine.flow_run import ask_until_answered, until_stopped
from flows.runs.domain_client import AttemptClient, HeldBack, MessageRefused, register
from flows.runs.stop_signals import cancelled_state, flow_run_id, heeding_stop_signals, state_after_early_leave
from flows.runs.stopping import Stop

CANCELLED = {StateType.CANCELLING, StateType.CANCELLED}


async def register_flow_run(
    http: httpx.AsyncClient, workflow_id: str, inputs: Mapping[str, Any]
) -> AttemptClient | PrefectState[Any]:
    """Have the domain make a run of this flow run; return its line to the domain, or how the flow run ends without."""
    stop = Stop()
    message = RunRegister(workflow_id=workflow_id, inputs=dict(inputs), flow_run_id=flow_run_id())
    with heeding_stop_signals(stop):
        try:
            if await ask_until_answered(was_cancelled, "whether it was cancelled", stop):
                return cancelled_state("Cancelled", "It was cancelled before it began.")
            async with until_stopped(stop):
                registered = await register(http, message, stop)
        except MessageRefused as refused:
            return FailedState(message=str(refused))
        except (HeldBack, Stopped):
            return await state_after_early_leave(stop, AwaitingRetry(message="Left early. Another worker takes it."))
    return AttemptClient(http, registered.run_id, registered.attempt_token, stop=stop)


async def was_cancelled() -> bool:
    """Whether this flow run was cancelled before it was Running.

    Prefect's workers call a run Cancelled that has no process yet, and its server lets the process begin all the same.
    """
    async with get_client(sync_client=False) as prefect:
        states = await prefect.read_flow_run_states(flow_run_id())
    before = [state for state in states if state.type is not StateType.RUNNING]
    return bool(before) and max(before, key=lambda state: state.timestamp).type in CANCELLED
