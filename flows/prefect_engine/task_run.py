"""Prefect's engine for task runs, without what our tasks never use. The one file that leans on its inner structure.

A task of ours keeps no result in Prefect, caches nothing, has no hooks and no assets, and is tagged. For a tag Prefect
asks its server before each task run whether operators limit it, which takes longer than the rest of the task run: here
`tag_limits` knows them, and `tag_slots` holds the slots of those that there are.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

from prefect import Task
from prefect.client.schemas.objects import RunInput
from prefect.client.schemas.objects import State as PrefectState
from prefect.context import FlowRunContext
from prefect.task_engine import AsyncTaskRunEngine

from flows.prefect_engine.spans import current_span
from flows.prefect_engine.tag_limits import tag_limits
from flows.prefect_engine.tag_slots import slots
from flows.prefect_engine.task_run_events import TaskEvents


async def run_task(task: Task[..., Any], *, of_many: bool = False, **parameters: Any) -> BaseException | None:
    """Run the task, whose function returns the state it ends in; return what it raised at last, if it did.

    A task run of many pieces of work holds no slot of a limited tag: each of them does, for as long as it is at work.
    """
    engine = NodeEngine(task=task, parameters=parameters, of_many=of_many)
    async with engine.start():
        while engine.is_running():
            await engine.wait_until_ready()
            await engine.try_once()
    return engine.raised


@dataclass
class NodeEngine(AsyncTaskRunEngine[..., Any]):
    """One task run: created, running, tried until it ended; what of it the server hears, `TaskEvents` says."""

    events: TaskEvents = field(default_factory=TaskEvents)
    of_many: bool = False

    async def try_once(self) -> None:
        """Call the function; what it raises is retried as the task says."""
        try:
            state: PrefectState[Any] = await self.task.fn(**self.parameters or {})
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the state of this task run
            await self.handle_exception(error)
        else:
            await self.set_state(state)
            self._end_span(state)

    def _end_span(self, state: PrefectState[Any]) -> None:
        """End the task run's span. Prefect's engine ends it where it sets the state of what a function returned."""
        if state.is_completed():
            self._telemetry.end_span_on_success()
        else:
            self._telemetry.end_span_on_failure(state.message)

    @property
    def raised(self) -> BaseException | None:
        return self._raised if isinstance(self._raised, BaseException) else None

    @asynccontextmanager
    async def start(
        self, task_run_id: UUID | None = None, dependencies: dict[str, set[RunInput]] | None = None
    ) -> AsyncGenerator[None, None]:
        self.task_run = await self.task.create_local_run(
            id=task_run_id,
            parameters=self.parameters,
            flow_run_context=FlowRunContext.get(),
            extra_task_inputs=dependencies,
        )
        async with self.initialize_run(task_run_id, dependencies):
            self._set_custom_task_run_name()  # type: ignore[no-untyped-call]
            tags = () if self.of_many else self.task.tags
            if tag_limits.among(tags):  # else it is not told to be pending: it waits for nobody
                self.events.tell(self.task_run, self.state)
            async with slots(tags):
                await self.begin_run()
                with current_span(self._telemetry.span):
                    yield

    async def set_state(self, state: PrefectState[Any], force: bool = False) -> PrefectState[Any]:
        """Set the state as Prefect's engine does, and tell the server of it with our few events instead of its own."""
        run, before = self.task_run, self.state
        assert run is not None  # noqa: S101 - made at the start
        if before.timestamp == state.timestamp:
            state.timestamp += timedelta(microseconds=1)  # the server goes by which is later
        state.state_details.task_run_id, state.state_details.flow_run_id = run.id, run.flow_run_id
        run.state, run.state_id, run.state_type, run.state_name = state, state.id, state.type, state.name
        if before.is_running():
            run.total_run_time += state.timestamp - before.timestamp
        if state.is_running():
            run.run_count += 1
        if state.is_final() and run.start_time and not run.end_time:
            run.end_time = state.timestamp  # type: ignore[assignment] # Prefect's name for the same
        self.events.tell(run, state)
        self._telemetry.update_state(state)
        return state

    def log_finished_message(self) -> None:
        """The state says how it ended; a line for each that ended well would only bury the handlers' own.

        Nor one for what was skipped or cut short: Prefect would call it an error.
        """
        if self.task_run and not self.state.is_completed() and not self.state.is_cancelled():
            super().log_finished_message()

    def _resolve_parameters(self) -> None:
        """No parameter is a future."""
