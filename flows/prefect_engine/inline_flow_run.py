"""Prefect's flow engine for the runs of a light worker: `flow_run` beside it, with less to ask and to wait for.

The stock engine joins the run's threads at its end, which would hold up every other run of the event loop. It also
reads what the worker has just been told. This one proposes Running and the end, and asks nothing else.
"""

import logging
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any, cast

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import FlowRun, State
from prefect.concurrency._leases import amaintain_concurrency_lease
from prefect.context import FlowRunContext
from prefect.flow_engine import _flow_parameters
from prefect.flows import Flow
from prefect.logging.loggers import flow_run_logger
from prefect.results import ResultStore, get_result_store
from prefect.states import Cancelled, Crashed
from prefect.task_runners import TaskRunner

from flows.prefect_engine.flow_run import QuietEngine
from flows.runs.stopping import Reason

LEASE_SECONDS = 300
CLOSING = "closing a flow run"
DRAINED = "The worker ended before the run had left."
CANCELLED = "The run was cancelled."


def handlers_left() -> bool:
    """Whether a handler of any ended run of this process has not ended."""
    return any(thread.name == CLOSING for thread in threading.enumerate())


@cache
def _result_store(flow: Flow[..., Any]) -> ResultStore:
    """Where the flow's results would go. Made once: making it asks the server for the default storage, and waits."""
    made: ResultStore = get_result_store().update_for_flow(flow, _sync=True)  # type: ignore[call-arg, assignment]
    return made


@dataclass
class InlineEngine(QuietEngine):
    """One flow run. `stopped` is set by the worker before it asks the run to leave, and decides how it is recorded."""

    stopped: Reason | None = None
    closing: list[threading.Thread] = field(default_factory=list)

    @classmethod
    def of(cls, flow: Flow[..., Any], flow_run: FlowRun) -> "InlineEngine":
        parameters = _flow_parameters(flow, flow_run, None)
        return cls(
            flow=flow,
            flow_run=flow_run,
            parameters=parameters,
            logger=cast("logging.Logger", flow_run_logger(flow_run, flow)),
        )

    @property
    def threads_left(self) -> bool:
        """Whether a handler of this run still runs although the run has ended."""
        return any(thread.is_alive() for thread in self.closing)

    async def begin_run(self) -> State[Any]:
        state = await super().begin_run()
        if state.is_running() and self.flow_run:
            self.flow_run.run_count += 1  # as the server counts, which saves reading the run again
        return state

    def torn_off(self) -> State[Any]:
        return Crashed(message=DRAINED)

    async def set_state(self, state: State[Any], force: bool = False) -> State[Any]:
        """A run that was cancelled ends Cancelled, whatever it made of being told to stop."""
        if self.stopped == "cancelled" and (state.is_failed() or state.is_crashed()):
            state, force = Cancelled(message=CANCELLED), True
        return await super().set_state(state, force)

    @asynccontextmanager
    async def setup_run_context(self, client: PrefectClient | None = None) -> AsyncGenerator[None, None]:
        assert self.flow_run is not None  # noqa: S101 - given at the start
        async with AsyncExitStack() as stack:
            if lease := self.state.state_details.deployment_concurrency_lease_id:
                await stack.enter_async_context(
                    amaintain_concurrency_lease(lease, LEASE_SECONDS, raise_on_lease_renewal_failure=True)
                )
            stack.enter_context(
                FlowRunContext(
                    flow=self.flow,
                    flow_run=self.flow_run,
                    parameters=self.parameters,
                    client=client or self.client,
                    result_store=_result_store(self.flow),
                    task_runner=stack.enter_context(self._task_runner()),
                    persist_result=bool(self.flow.persist_result),
                    flow_run_suspension_request=self._get_flow_run_suspension_request(),
                )
            )
            self.logger.info("Beginning flow run %r for flow %r", self.flow_run.name, self.flow.name)
            yield

    @contextmanager
    def _task_runner(self) -> Generator[TaskRunner[Any], None, None]:
        """The flow's task runner. Closing it joins its threads, which must not keep the event loop."""
        runner = self.flow.task_runner.duplicate()
        runner.__enter__()
        try:
            yield runner
        finally:
            closing = threading.Thread(target=runner.__exit__, args=(None, None, None), name=CLOSING, daemon=True)
            self.closing.append(closing)
            closing.start()
