"""Prefect's engine for task runs, without what our tasks never use. The one file that leans on its inner structure.

A task of ours keeps no result in Prefect, caches nothing, has no hooks and no assets, and is tagged. For a tag Prefect
asks its server before each task run whether operators limit it, which takes longer than the rest of the task run: here
the limits are read once for a flow run, and Prefect asks for its slots only where there are some.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

import httpx
from prefect import Task
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import RunInput
from prefect.client.schemas.objects import State as PrefectState
from prefect.context import FlowRunContext
from prefect.exceptions import PrefectHTTPStatusError
from prefect.task_engine import AsyncTaskRunEngine

from flows.prefect_engine.task_run_events import TaskEvents

KNOWN_SECONDS = 30.0
ANSWER_SECONDS = 10.0
PAGE = 200
_TAG = "tag:"


async def run_task(task: Task[..., Any], **parameters: Any) -> BaseException | None:
    """Run the task, whose function returns the state it ends in; return what it raised at last, if it did."""
    engine = NodeEngine(task=task, parameters=parameters)
    async with engine.start():
        while engine.is_running():
            await engine.wait_until_ready()
            await engine.try_once()
    return engine.raised


@dataclass
class NodeEngine(AsyncTaskRunEngine[..., Any]):
    """One task run: created, running, tried until it ended; what of it the server hears, `TaskEvents` says."""

    events: TaskEvents = field(default_factory=TaskEvents)

    async def try_once(self) -> None:
        """Call the function; what it raises is retried as the task says."""
        try:
            state: PrefectState[Any] = await self.task.fn(**self.parameters or {})
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the state of this task run
            await self.handle_exception(error)
        else:
            await self.set_state(state)

    @property
    def raised(self) -> BaseException | None:
        return self._raised if isinstance(self._raised, BaseException) else None

    @asynccontextmanager
    async def start(
        self, task_run_id: UUID | None = None, dependencies: dict[str, set[RunInput]] | None = None
    ) -> AsyncGenerator[None, None]:
        if tag_limits.cover(self.task.tags):
            async with super().start(task_run_id, dependencies):
                yield
            return
        # Made here, it is not told to be pending: it waits for nobody.
        self.task_run = await self.task.create_local_run(
            id=task_run_id,
            parameters=self.parameters,
            flow_run_context=FlowRunContext.get(),
            extra_task_inputs=dependencies,
        )
        async with self.initialize_run(task_run_id, dependencies):
            self._set_custom_task_run_name()  # type: ignore[no-untyped-call]
            await self.begin_run()
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
        return state

    def log_finished_message(self) -> None:
        """The state says how it ended; a line for each that ended well would only bury the handlers' own."""
        if self.task_run and not self.state.is_completed():
            super().log_finished_message()

    def _resolve_parameters(self) -> None:
        """No parameter is a future."""


@dataclass
class TagLimits:
    """The tags that operators limit in Prefect, as of a moment ago."""

    tags: frozenset[str] = frozenset()
    known_until: float = 0.0

    def cover(self, tags: Collection[str]) -> bool:
        return not self.tags.isdisjoint(tags)

    async def learn(self, client: PrefectClient) -> None:
        """Read them, unless they were read just now. Without an answer, what was known stays."""
        if time.monotonic() < self.known_until:
            return
        try:
            async with asyncio.timeout(ANSWER_SECONDS):  # no run waits for an outage to learn them
                self.tags = frozenset([name async for name in _limited(client)])
        except (httpx.HTTPError, PrefectHTTPStatusError, TimeoutError):
            return
        self.known_until = time.monotonic() + KNOWN_SECONDS


async def _limited(client: PrefectClient) -> AsyncGenerator[str, None]:
    offset = 0
    while page := await client.read_global_concurrency_limits(limit=PAGE, offset=offset):
        for limit in page:
            if limit.name.startswith(_TAG):
                yield limit.name.removeprefix(_TAG)
        offset += len(page)
        if len(page) < PAGE:
            return


tag_limits = TagLimits()
