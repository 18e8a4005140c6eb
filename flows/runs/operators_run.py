"""What a flow run begins with that an operator started in Prefect: the domain opens a run for it.

Knows nothing of plans. It may be cancelled before the domain has answered, and ends then like one cancelled later.
"""

from collections.abc import Mapping
from typing import Any

import httpx
from prefect.client.schemas.objects import State as PrefectState
from prefect.states import AwaitingRetry
from prefect.states import Failed as FailedState

from domain.contracts.runs import RunRegister
from flows.handlers.errors import Stopped
from flows.prefect_engine.flow_run import until_stopped
from flows.runs.domain_client import AttemptClient, HeldBack, MessageRefused, register
from flows.runs.stop_signals import flow_run_id, heeding_stop_signals, state_after_early_leave
from flows.runs.stopping import Stop


async def register_flow_run(
    http: httpx.AsyncClient, workflow_id: str, inputs: Mapping[str, Any]
) -> AttemptClient | PrefectState[Any]:
    """Have the domain make a run of this flow run; return its line to the domain, or how the flow run ends without."""
    stop = Stop()
    message = RunRegister(workflow_id=workflow_id, inputs=dict(inputs), flow_run_id=flow_run_id())
    with heeding_stop_signals(stop):
        try:
            async with until_stopped(stop):
                registered = await register(http, message, stop)
        except MessageRefused as refused:
            return FailedState(message=str(refused))
        except (HeldBack, Stopped):
            return await state_after_early_leave(stop, AwaitingRetry(message="Left early. Another worker takes it."))
    return AttemptClient(http, registered.run_id, registered.attempt_token, stop=stop)
