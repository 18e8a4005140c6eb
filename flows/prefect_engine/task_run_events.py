"""What Prefect's server is told of a task run: less than its own engine tells, and nothing twice.

The server records task runs from such events; nothing depends on them. Its own engine sends three for a task run that
ends in a moment, and names in each the flow, the deployment, the pool, the queue and every tag: each a row of the
server's database. Here a quick task run is one event, which names its flow run and nobody else.
"""

import asyncio
import logging
from contextvars import Context
from typing import Any, Final

from prefect.client.schemas.objects import State, TaskRun
from prefect.context import FlowRunContext, TaskRunContext
from prefect.events import Event
from prefect.events.worker import EventsWorker, should_emit_events

log = logging.getLogger("cairn.prefect")
QUICK_SECONDS: Final = 1.0  # what runs for longer is shown as running
SHOWN_MESSAGE: Final = 4_000
NOT_TOLD: Final = {
    "id", "created", "updated", "flow_run_id", "state_id", "state_type", "state_name", "state",
    "estimated_start_time_delta", "estimated_run_time",
}  # fmt: skip


class TaskEvents:
    """The events of one task run, in their order."""

    def __init__(self) -> None:
        self._held: asyncio.TimerHandle | None = None

    def tell(self, run: TaskRun, state: State[Any]) -> None:
        """Send the state; that it runs only once it has run for a moment. A later state says that too."""
        if self._held is not None:
            self._held.cancel()
        event = event_of(run, state)
        if state.is_running():
            self._held = asyncio.get_running_loop().call_later(QUICK_SECONDS, _send, event)
        else:
            _send(event)


def event_of(run: TaskRun, state: State[Any]) -> Event:
    """The event from which Prefect's server makes or brings up to date its row of the task run."""
    message = (state.message or "")[:SHOWN_MESSAGE]
    details = state.state_details.model_dump(
        mode="json", exclude_none=True, exclude_unset=True, exclude={"flow_run_id", "task_run_id"}
    )
    told = {"type": state.type.value, "name": state.name, "message": message or None, "state_details": details}
    return Event(
        id=state.id,
        occurred=state.timestamp,
        event=f"prefect.task-run.{state.name}",
        resource=_resource(run, state, message),
        related=_flow_run(run),
        payload={"validated_state": told, "task_run": run.model_dump(mode="json", exclude_none=True, exclude=NOT_TOLD)},
    )


def _resource(run: TaskRun, state: State[Any], message: str) -> Any:
    return {
        "prefect.resource.id": f"prefect.task-run.{run.id}",
        "prefect.resource.name": run.name,
        "prefect.run-count": str(run.run_count),
        "prefect.state-message": message,
        "prefect.state-name": state.name or "",
        "prefect.state-timestamp": state.timestamp.isoformat(),
        "prefect.state-type": state.type.value,
        "prefect.orchestration": "client",  # else the server takes it for what it has recorded already
    }


def _flow_run(run: TaskRun) -> Any:
    if run.flow_run_id is None:
        return []
    around = FlowRunContext.get()
    named = {"prefect.resource.name": around.flow_run.name} if around and around.flow_run else {}
    place = {"prefect.resource.id": f"prefect.flow-run.{run.flow_run_id}", "prefect.resource.role": "flow-run"}
    return [place | named]


def _send(event: Event) -> None:
    """Without our context, from which Prefect's sender would name everything that surrounds the task run.

    Nor in none: then the sender takes its own, which is that of the first flow run of its process.
    """
    try:
        if should_emit_events():
            nowhere = Context()
            for surrounding in (FlowRunContext, TaskRunContext):
                nowhere.run(surrounding.__var__.set, None)  # type: ignore[arg-type]
            nowhere.run(EventsWorker.instance().send, event)
    except Exception:
        log.warning("Prefect is not told of a task run", exc_info=True)
